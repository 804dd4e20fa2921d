# SPDX-License-Identifier: GPL-2.0-or-later
"""Looking for good settings with Optuna."""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import _dask
from ._command import FairgroundError, Text, listed, plain, run, settings
from ._compare import Comparison, compare
from ._notebook import Progress

if TYPE_CHECKING:
    import optuna
    from distributed import Client

Value = Union[int, float, str, bool]
Ranges = Union[Mapping[str, Sequence[Any]], Iterable[str], None]

# Measures of which more is better, so that "throughput" is a goal without a word before it. The list of docs/metrics.md says the same, which a test
# compares.
MORE_IS_BETTER = {"throughput", "jain_index", "lap_rate", "lap_low", "others_served"}
# Measures that a run lacks where nothing of the kind happened.
RARE = {"due", "idle_beside_waiting"}
GOAL = re.compile(r"(?:(min|max) )?(\w+)(?: of (.+))?")
# Nanoseconds of the units of times.
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
TIME = re.compile(r"([0-9.]+) ?(ns|us|ms|s)")
DEFAULT = "default"
CONFIRMED = pa.schema(
    [
        ("trial", pa.int64()),
        ("goal", pa.string()),
        ("workload", pa.string()),
        ("held_out", pa.bool_()),
        ("default", pa.float64()),
        ("value", pa.float64()),
        ("pairs", pa.int64()),
        ("better", pa.int64()),
        ("worse", pa.int64()),
        ("judgement", pa.string()),
    ]
)
# The most candidates that are confirmed.
MOST_CONFIRMED = 8


class Goal(NamedTuple):
    """The aim: the smallest or largest value of a measure of the run or of a task."""

    text: str
    direction: str
    measure: str
    task: str | None

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Reads ``[min|max] MEASURE [of TASK]``."""
        found = GOAL.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"goal {text!r}: not [min|max] MEASURE [of TASK], such as 'wakeup_p99 of fast' or 'min context_switches'")
        word, measure, task = found.groups()
        usual = "max" if measure in MORE_IS_BETTER else "min"
        return cls(text, "maximize" if (word or usual) == "max" else "minimize", measure, task)

    def values(self, result: Comparison, workload: str, scheduler: str) -> dict[tuple[str, int], float | None]:
        """The value for each machine and seed; None for a run that failed or has none."""
        table = result.runs if self.task is None else result.tasks
        rows = table.select(["workload", "scheduler", "machine", "seed", "status", self._column(table)])
        if self.task is not None:
            rows = rows.filter(pc.equal(table["task"], self.task))
        *_, column = rows.column_names
        nothing = 0.0 if self.measure in RARE else None
        found = rows.filter(pc.and_(pc.equal(rows["workload"], workload), pc.equal(rows["scheduler"], scheduler))).to_pylist()
        values = [nothing if row[column] is None else row[column] for row in found]
        return {(row["machine"], row["seed"]): value if row["status"] == "ok" else None for row, value in zip(found, values)}

    def check(self, result: Comparison) -> None:
        """Refuses measures and tasks that there are not, or not in the runs of trial 0."""
        self._column(result.runs if self.task is None else result.tasks)
        tasks = set(result.tasks["task"].to_pylist())
        if self.task is not None and self.task not in tasks:
            raise ValueError(f"goal {self.text!r}: there is no task {self.task}, but {', '.join(sorted(tasks))}")
        for workload in result.runs["workload"].unique().to_pylist():
            if not result.failures and None in self.values(result, workload, _name(0)).values():
                raise ValueError(f"goal {self.text!r}: runs of {workload} have no {self.measure}, as nothing of the kind happens; see docs/metrics.md")

    def _column(self, table: pa.Table) -> str:
        # Columns before these are labels.
        last = "notes" if self.task is None else "weight"
        for name in (self.measure, f"{self.measure}_ns"):
            if name in table.column_names[table.column_names.index(last) + 1 :]:
                return name
        raise ValueError(f"goal {self.text!r}: there is no measure {self.measure} of a {'run' if self.task is None else 'task'}; see docs/metrics.md")


class Tuning:
    """The result of ``tune``.

    Attributes:
        study: the Optuna study; trial 0 is the default.
        goals: the goals, as they were given.
        trials: a row for each trial: ``trial``, its settings, its values, its ``state``.
        runs: the data set: a row for each run of each trial, in which ``scheduler`` is the trial (``trial0012``).
        best: the best trials: those that no other one beats in all goals. With one goal it is the first of the best.
        ties: other trials with the very values of one of ``best``.
        confirmation: the best ones against the default with other seeds, and on other workloads if there are any, as from ``compare``.
        confirmed: a row for each of the best, workload and goal: the medians of ``default`` and ``value``, of how many ``pairs`` of runs with the same
            seed the trial was ``better`` and ``worse``, and the ``judgement`` of a sign test at 5 %: ``better``, ``same``, ``worse``, ``undecided``, or
            ``not measured`` if a workload has no such task.
    """

    def __init__(self, study: optuna.Study, goals: list[Goal], runs: pa.Table, trials: pa.Table) -> None:
        self.study = study
        self.goals = [goal.text for goal in goals]
        self.runs = runs
        self.trials = trials
        self.best, self.ties = _best(study)
        self.confirmation: Comparison | None = None
        self.confirmed: pa.Table | None = None

    def __repr__(self) -> str:
        return f"<fairground.Tuning: {self.trials.num_rows} trials, {len(self.best)} best, {len(self.ties)} ties>"

    def _repr_html_(self) -> str:
        import html

        chosen = [self.study.trials[0], *[trial for trial in self.best if trial.number]]
        names = list(dict.fromkeys(name for trial in chosen for name in trial.params))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["trial", *names, *self.goals])
        rows = ""
        for trial in chosen:
            cells = [trial.number or DEFAULT, *[trial.params.get(name, "") for name in names], *(trial.values or [])]
            rows += "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"
        return f"<table><tr>{head}</tr>{rows}</table><p>{len(self.trials)} trials, {len(self.ties)} others have the same values.</p>"


def tune(
    scheduler: Text,
    workloads: Text | Sequence[Text],
    goals: str | Sequence[str],
    *,
    tunables: Ranges = None,
    trials: int = 100,
    batch: int = 8,
    seeds: int = 5,
    held_out: Text | Sequence[Text] = (),
    held_out_seeds: int = 20,
    sampler: optuna.samplers.BaseSampler | None = None,
    seed: int = 0,
    storage: Any = None,
    name: str | None = None,
    folder: Text | None = None,
    client: Client | None = None,
    progress: bool = True,
    **options: Any,
) -> Tuning:
    """Looks for settings of a scheduler that are better than its defaults.

    Trial 0 is the default. The others come from Optuna in batches, whose results it is told in the order of the trials, so that any number of threads
    or workers finds the same. The value of a trial is the median over the seeds, which are the same for all, and the mean of that over workloads and
    machines; one in which a run fails is told as failed. The best ones are then compared with the default on seeds that none of them has seen, and on
    workloads that none has seen. Ctrl-C ends the trials or the comparison, and what is there is returned, with a warning.

    Args:
        scheduler: an id, or a path.
        goals: ``[min|max] MEASURE [of TASK]``, such as ``"wakeup_p99 of fast"``, with the measures of docs/metrics.md; one or several.
        tunables: ranges: ``{"slice_ns": ("1ms", "50ms", "log"), "mode": [0, 1, 2]}``, of anything that ``--set`` can set. A tuple is from, to and
            perhaps ``"log"``; a list is all there is. Times have units where ``--set`` wants them. Names alone have the ranges of the scheduler's
            manifest; without it all of its tunables.
        trials: how many, with the default.
        batch: how many trials Optuna chooses before it learns their values.
        held_out: workloads on which the best are confirmed, beside those they were tuned for.
        held_out_seeds: how many seeds confirm the best; 0 leaves that out.
        sampler: instead of Optuna's TPE sampler with this ``seed``.
        storage, name: where Optuna keeps the study, as for ``optuna.create_study``; in memory without it. There must be no study of this name.
        folder: where to write the data set: ``runs/*.parquet`` and ``tasks/*.parquet``, a row for each run of each trial, and ``trials.parquet``.
            There must be no runs in it.
        client: a Dask cluster that runs the trials; this machine without it.
        options: the other options of ``compare``: ``machine``, ``duration``, ``cost``, ``threads``, and ``set`` for settings that all trials share.
            ``noise`` is that of several seeds, unless there is one in all.

    Raises:
        ValueError: for a goal, range or option that cannot be used.
        FileExistsError: if there are runs in the folder.
        FairgroundError: if nothing can be run, as from ``compare``.
        ImportError: without the extra ``tune``.
    """
    try:
        import optuna
    except ModuleNotFoundError:
        raise ImportError("tune() needs Optuna; install it with `pip install './python[tune]'`") from None

    wanted = [Goal.parse(goal) for goal in ([goals] if isinstance(goals, str) else goals)]
    if trials < 1 or batch < 1 or seeds < 1 or held_out_seeds < 0:
        raise ValueError("trials, batch and seeds have to be at least 1, and held_out_seeds at least 0")
    if options.keys() & {"repeat", "baseline"}:
        raise ValueError("seeds and held_out_seeds say how often runs are repeated, and the baseline is the default")
    if folder is not None and any(Path(folder, "runs").glob("*.parquet")):
        raise FileExistsError(f"{os.fspath(folder)}: there are runs of another tuning in it; remove them, or name another folder")
    if options.get("noise") is None:
        # The trials and the comparison after them are of one distribution.
        options["noise"] = "spread" if max(seeds, held_out_seeds) > 1 else "none"
    space = _space(scheduler, tunables, options)
    tuner = _Tuner(scheduler, space, listed(workloads), wanted, seeds, Path(folder) if folder is not None else None, client, options)
    tuner.check(listed(held_out) if held_out_seeds else [])
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        sampler=sampler or optuna.samplers.TPESampler(seed=seed, constant_liar=True),
        directions=[goal.direction for goal in wanted],
    )
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with Progress("trials", trials, progress) as bar:
            tuner.default(study)
            while len(study.trials) < trials:
                tuner.batch(study, min(batch, trials - len(study.trials)))
                bar.tell(len(study.trials))
    except KeyboardInterrupt:
        for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        warnings.warn("interrupted: the trials so far are not confirmed", stacklevel=2)
        held_out_seeds = 0
    finally:
        optuna.logging.set_verbosity(level)
    result = Tuning(study, wanted, tuner.runs(), _trials(study, wanted))
    if tuner.folder is not None:
        pq.write_table(result.trials, tuner.folder / "trials.parquet")
    if held_out_seeds:
        try:
            tuner.confirm(result, listed(held_out), held_out_seeds)
        except (FairgroundError, OSError, KeyboardInterrupt) as error:
            warnings.warn(f"the best are not confirmed: {str(error) or 'interrupted'}", stacklevel=2)
    return result


def importance(tuning: Tuning | optuna.Study, goal: int = 0) -> dict[str, float]:
    """How much each tunable decides about a goal, from 0 to 1, as ``optuna.importance.get_param_importances`` by PED-ANOVA."""
    import optuna

    study = tuning.study if isinstance(tuning, Tuning) else tuning
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    # It looks for settings with low values.
    sign = 1 if study.directions[goal] == optuna.study.StudyDirection.MINIMIZE else -1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PedAnovaImportanceEvaluator computes the importances of params to achieve low")
        return dict(optuna.importance.get_param_importances(study, evaluator=evaluator, target=lambda trial: sign * trial.values[goal]))


class _Range(NamedTuple):
    """The possible values of a tunable."""

    distribution: optuna.distributions.BaseDistribution
    unit: str
    default: Value | None


class _Tuner:
    """Runs trials."""

    def __init__(
        self,
        scheduler: Text,
        space: dict[str, _Range],
        workloads: list[str],
        goals: list[Goal],
        seeds: int,
        folder: Path | None,
        client: Client | None,
        options: dict[str, Any],
    ) -> None:
        self.scheduler, self.workloads, self.goals, self.seeds = os.fspath(scheduler), workloads, goals, seeds
        self.space, self.folder, self.client, self.options = space, folder, client, options
        self.results: list[pa.Table] = []
        # The results for settings, as Optuna may ask for the same more than once.
        self.known: dict[str, list[float] | None] = {}

    def check(self, held_out: list[str]) -> None:
        """Runs the default, so that mistakes come before the trials."""
        if held_out:
            compare([*self.workloads, *held_out], {DEFAULT: self.scheduler}, **{**self.options, "repeat": 1})
        values = self._values({0: ""})[0]
        runs = self.runs()
        if runs.group_by(["workload", "machine", "seed"]).aggregate([]).num_rows < runs.num_rows:
            raise ValueError("set: several values of a setting, and trials share one; tunables={'NAME': [...]} tries several")
        if values is None:
            failed = runs.filter(pc.not_equal(runs["status"], "ok")).to_pylist()[0]
            raise FairgroundError(f"{self.scheduler} fails with its defaults on {failed['workload']}: {failed['message'] or failed['status']}")

    def default(self, study: optuna.Study) -> None:
        """Trial 0: nothing is set. Its parameters are the defaults, if these are in the ranges."""
        import optuna

        params = {name: one.default for name, one in self.space.items()}
        fits = all(one.default is not None and _contains(one.distribution, one.default) for one in self.space.values())
        study.add_trial(
            optuna.trial.create_trial(
                params=params if fits else {},
                distributions={name: one.distribution for name, one in self.space.items()} if fits else {},
                values=self.known[""],
                user_attrs={DEFAULT: True},
            )
        )

    def batch(self, study: optuna.Study, count: int) -> None:
        """Runs trials and tells their values in their order."""
        import optuna

        distributions = {name: one.distribution for name, one in self.space.items()}
        asked = [study.ask(distributions) for _ in range(count)]
        values = self._values({trial.number: _settings(trial.params, self.space) for trial in asked})
        for trial in asked:
            found = values[trial.number]
            if found is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, found)

    def runs(self) -> pa.Table:
        return pa.concat_tables(self.results)

    def confirm(self, result: Tuning, held_out: list[str], seeds: int) -> None:
        """Compares the best with the default on seeds that none has seen."""
        chosen = [trial for trial in result.best if trial.number][:MOST_CONFIRMED]
        if not chosen:
            return
        named = {DEFAULT: self.scheduler}
        for trial in chosen:
            named[_name(trial.number)] = self._with(_settings(trial.params, self.space))
        tuned = set(result.runs["workload"].to_pylist())
        found = compare([*self.workloads, *held_out], named, baseline=DEFAULT, repeat=seeds, seed=self.seeds, **self.options)
        result.confirmation = found
        result.confirmed = pa.Table.from_pylist(
            [
                {"trial": trial.number, "goal": goal.text, "workload": workload, "held_out": workload not in tuned, **_judged(goal, found, workload, trial)}
                for trial in chosen
                for workload in dict.fromkeys(found.runs["workload"].to_pylist())
                for goal in self.goals
            ],
            CONFIRMED,
        )
        if self.folder is not None:
            self._write(found, "held-out")

    def _with(self, values: str) -> str:
        return f"{self.scheduler}{{{values}}}" if values else self.scheduler

    def _values(self, trials: dict[int, str]) -> dict[int, list[float] | None]:
        """The values of trials by their settings; None for one that failed."""
        new: dict[str, int] = {}
        for number, values in trials.items():
            if values not in self.known:
                new.setdefault(values, number)
        if new:
            named = {_name(number): self._with(values) for values, number in new.items()}
            for found in self._compared(named):
                if not self.results:
                    for goal in self.goals:
                        goal.check(found)
                self.results.append(found.runs)
                if self.folder is not None:
                    self._write(found, f"from-{min(found.runs['scheduler'].to_pylist())}")
                for values, number in new.items():
                    if _name(number) in set(found.runs["scheduler"].to_pylist()):
                        self.known[values] = self._value(found, _name(number))
        return {number: self.known[values] for number, values in trials.items()}

    def _compared(self, named: dict[str, str]) -> list[Comparison]:
        options = {**self.options, "repeat": self.seeds}
        if self.client is None:
            return [compare(self.workloads, named, **options)]
        slots = max(1, sum(self.client.nthreads().values()))
        items = list(named.items())
        parts = [dict(items[number::slots]) for number in range(min(slots, len(items)))]
        options.setdefault("threads", 1)
        return _dask.run_on(self.client, _compare_on, [(self.workloads, part, options) for part in parts], lambda _: None)

    def _value(self, found: Comparison, scheduler: str) -> list[float] | None:
        values = []
        for goal in self.goals:
            medians = []
            for workload in dict.fromkeys(found.runs["workload"].to_pylist()):
                of_seeds = goal.values(found, workload, scheduler)
                for machine in dict.fromkeys(machine for machine, _ in of_seeds):
                    numbers = [value for (place, _), value in of_seeds.items() if place == machine]
                    if None in numbers:
                        return None
                    medians.append(float(statistics.median(numbers)))
            if not medians:
                return None
            values.append(statistics.fmean(medians))
        return values

    def _write(self, found: Comparison, name: str) -> None:
        assert self.folder is not None
        for what, table in (("runs", found.runs), ("tasks", found.tasks)):
            (self.folder / what).mkdir(parents=True, exist_ok=True)
            pq.write_table(table, self.folder / what / f"{name}.parquet")


def _judged(goal: Goal, found: Comparison, workload: str, trial: Any) -> dict[str, Any]:
    """A trial against the default, seed by seed, by a sign test: two-sided, at 5 %. Who fails, or does not end, where the other does not is worse there."""
    before, after = (goal.values(found, workload, name) for name in (DEFAULT, _name(trial.number)))
    judged = [(before[place], after.get(place)) for place in before]
    judged = [pair for pair in judged if pair != (None, None)]
    if not judged:
        return {"judgement": "not measured"}
    pairs = [pair for pair in judged if None not in pair]
    better = sum(one is None for one, _ in judged)
    worse = sum(other is None for _, other in judged)
    sign = 1 if goal.direction == "minimize" else -1
    better += sum(sign * (one - other) > 0 for one, other in pairs)
    worse += sum(sign * (one - other) < 0 for one, other in pairs)
    decided = better + worse
    tail = sum(math.comb(decided, count) for count in range(min(better, worse) + 1)) / 2**decided
    if decided == 0:
        judgement = "same"
    elif 2 * tail < 0.05:
        judgement = "better" if better > worse else "worse"
    else:
        judgement = "undecided"
    return {
        "default": float(statistics.median(one for one, _ in pairs)) if pairs else None,
        "value": float(statistics.median(other for _, other in pairs)) if pairs else None,
        "pairs": len(judged),
        "better": better,
        "worse": worse,
        "judgement": judgement,
    }


def _compare_on(workloads: list[str], schedulers: dict[str, str], options: dict[str, Any]) -> Comparison:
    return compare(workloads, schedulers, **options)


def _name(number: int) -> str:
    return f"trial{number:04}"


def _settings(params: Mapping[str, Any], space: dict[str, _Range]) -> str:
    """The settings of a trial as they are written behind the scheduler; defaults are left out."""
    changed = {name: value for name, value in params.items() if value != space[name].default}
    return settings({name: f"{value}{space[name].unit}" if space[name].unit else value for name, value in changed.items()})


def _contains(distribution: Any, value: Value) -> bool:
    import optuna

    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        return value in distribution.choices
    return bool(distribution.low <= value <= distribution.high)


def _manifest(scheduler: Text, options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tunables of a scheduler by their names; those of a source without a manifest have no ranges."""
    arguments = ["show", os.fspath(scheduler), "--format", "json"]
    for option, of in (("-I", "include"), ("-D", "define")):
        for one in listed(options.get(of)):
            arguments += [option, one]
    shown = json.loads(run(arguments, program=options.get("program")).stdout)
    return {one["name"]: one for one in shown["tunables"]}


def _space(scheduler: Text, tunables: Ranges, options: Mapping[str, Any]) -> dict[str, _Range]:
    known = _manifest(scheduler, options)
    if tunables is None:
        tunables = [name for name, one in known.items() if one["minimum"] is not None]
    if isinstance(tunables, str):
        tunables = [tunables]
    given: Mapping[str, Any] = tunables if isinstance(tunables, Mapping) else dict.fromkeys(tunables)
    if not given:
        there = ", ".join(f"{name} (default {one['default']})" for name, one in known.items()) or "none"
        raise ValueError(f"{os.fspath(scheduler)}: name ranges, such as tunables={{'slice_ns': ('1ms', '20ms')}}; it has {there}")
    return {name: _range(name, ends, known.get(name)) for name, ends in given.items()}


def _range(name: str, ends: Any, known: dict[str, Any] | None) -> _Range:
    import optuna

    distributions = optuna.distributions
    default = known and known["default"]
    unit = known["unit"] if known and known["unit"] in UNITS else ""
    # Variables of a source without a manifest take numbers alone, too.
    wanted = unit if known and known["minimum"] is not None else ""
    if ends is None:
        if known and known["type"] == "bool":
            return _Range(distributions.CategoricalDistribution([False, True]), "", bool(default))
        if known is None or known["minimum"] is None:
            has = "" if known is None else f"; its default is {default}"
            raise ValueError(f"{name}: no manifest says its range; say from where to where: tunables={{'{name}': (1, 100)}}{has}")
        if known["choices"]:
            return _Range(distributions.CategoricalDistribution(range(len(known["choices"]))), "", default)
        return _Range(distributions.IntDistribution(known["minimum"], known["maximum"]), unit, default)
    if isinstance(ends, list):
        if known and known["type"] == "bool":
            default = bool(default)
        values = [plain(one) for one in ends]
        if wanted:
            for one in values:
                _number(name, one, wanted)
        return _Range(distributions.CategoricalDistribution(values), "", default)
    if not isinstance(ends, tuple) or len(ends) not in (2, 3) or ends[2:] not in ((), ("log",), ("linear",)):
        raise ValueError(f"{name}={ends!r}: neither a list of values nor (from, to) or (from, to, 'log')")
    (low, is_time), (high, too) = _number(name, ends[0], wanted), _number(name, ends[1], wanted)
    log = ends[2:] == ("log",)
    if is_time != too and (low if too else high) != 0:
        raise ValueError(f"{name}={ends!r}: a number and a time")
    if is_time or too:
        # A tunable takes whole numbers of its unit.
        unit = unit or "ns"
        low, high = round(low / UNITS[unit]), round(high / UNITS[unit])
    if isinstance(low, float) or isinstance(high, float):
        return _Range(distributions.FloatDistribution(low, high, log=log), unit, default)
    return _Range(distributions.IntDistribution(low, high, log=log), unit, default)


def _number(name: str, end: Any, wanted: str) -> tuple[int | float, bool]:
    """An end of a range, and whether it is a time, which is then in nanoseconds and wanted if a unit is; 0 has none."""
    end = plain(end)
    if isinstance(end, (int, float)) and not isinstance(end, bool):
        if wanted and end:
            raise ValueError(f"{name}: {end} has no unit; write '{end}ns', '{end}us', '{end}ms' or '{end}s'")
        return end, False
    found = TIME.fullmatch(str(end).strip())
    if found is None:
        raise ValueError(f"{name}: {end!r} is neither a number nor a time such as '2ms'")
    return round(float(found[1]) * UNITS[found[2]]), True


def _best(study: optuna.Study) -> tuple[list[Any], list[Any]]:
    """The trials that none beats, the first of those with the same values, and the others of these."""
    best: dict[tuple[float, ...], Any] = {}
    ties = []
    for trial in sorted(study.best_trials if len(study.directions) > 1 else _winners(study), key=lambda trial: trial.number):
        if best.setdefault(tuple(trial.values), trial) is not trial:
            ties.append(trial)
    return list(best.values()), ties


def _winners(study: optuna.Study) -> list[Any]:
    value = study.best_value
    return [trial for trial in study.trials if trial.values and trial.value == value]


def _trials(study: optuna.Study, goals: list[Goal]) -> pa.Table:
    trials = study.trials
    names = list(dict.fromkeys(name for trial in trials for name in trial.params))
    columns: dict[str, list[Any]] = {"trial": [trial.number for trial in trials]}
    columns |= {name: [trial.params.get(name) for trial in trials] for name in names}
    for place, goal in enumerate(goals):
        columns[goal.text] = [trial.values[place] if trial.values else None for trial in trials]
    columns["state"] = [trial.state.name.lower() for trial in trials]
    return pa.table(columns)
