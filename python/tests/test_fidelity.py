# SPDX-License-Identifier: GPL-2.0-or-later
"""testbench/fidelity: how it judges, and that it meets the simulator."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "workloads/build.recording"


def loaded():
    loader = importlib.machinery.SourceFileLoader("fidelity", str(ROOT / "testbench/fidelity"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fidelity", loader))
    sys.modules["fidelity"] = module
    loader.exec_module(module)
    return module


fidelity = loaded()


def run(scheduler, cpus, kernel, simulator, workload="hogs"):
    """A pair of runs with CPU time and latency of one task each."""
    key = fidelity.Key(cpus, workload, scheduler, (), "play")
    figures = [[fidelity.Figures(latency, {"hog": (time, None)}, {})] for time, latency in (kernel, simulator)]
    return fidelity.Pair.of(key, 1_000_000_000, *figures)


def test_the_kernels_spread_excuses_what_lies_in_it_and_nothing_else():
    judge = lambda spread, simulator: fidelity.Figure(10.0, spread, simulator).judge(1.0)
    assert judge((10, 10), 11) == "agree"
    assert judge((10, 10), 11.5) == "disagree"
    assert judge((9.9, 10.8), 11.5) == "disagree"
    assert judge((4, 12), 6) == judge((4, 12), 13) == "inconclusive"
    assert judge((4, 12), 13.5) == judge((4, 12), 2.5) == "disagree"


def test_cpu_times_may_differ_by_the_bound():
    holds = lambda cpus, kernel, simulator: fidelity.Agreement([run("o1", cpus, (kernel, 1), (simulator, 1))]).holds()
    assert holds(1, 0.50, 0.51) and not holds(1, 0.50, 0.53) and not holds(1, 0.53, 0.50)
    assert holds(2, 0.50, 0.56)


def test_three_quarters_of_the_percentiles_have_to_agree():
    def of(*errors):
        pairs = [run("o1", 1, (0.5, 100), (0.5, 100 * (1 + error)), f"hogs{number}") for number, error in enumerate(errors)]
        return fidelity.Agreement(pairs)

    near = of(0.05, -0.09, 0.3, 0)
    assert near.counts()["99th percentiles of wakeup latency"] == {"agree": 3, "disagree": 1}
    assert near.holds(), near.table()
    assert not of(0.05, -0.2, 0.3, 0).holds()


def test_more_cpu_time_than_there_is_is_no_measurement():
    assert run("o1", 1, (1.1, 1), (0.5, 1)).task_verdicts() == {"hog": "void"}
    assert run("o1", 1, (0.5, 5), (0.5, None)).latency_verdict() == "void"


def test_groups_have_bounds_of_their_own():
    def of(kernel, simulator):
        figures = []
        for time, periods, throttled in kernel, simulator:
            group = {"path": "/a", "cpu_time_ns": time, "nr_periods": periods, "nr_throttled": throttled}
            figures.append([fidelity.Figures(1, {"hog": (0.5, None)}, fidelity.Figures.of_groups([group], 1000))])
        return fidelity.Agreement([fidelity.Pair.of(fidelity.Key(1, "hogs", "eevdf", (), "play"), 1000, *figures)])

    near = of((200, 100, 90), (209, 91, 98))
    assert near.counts()["figures of control groups"] == {"agree": 3}
    assert near.holds(), near.table()
    for other, said in [
        ((211, 100, 90), "/a: CPU time is 20.00 % of the run on the kernel and 21.10 % of the run in the simulator"),
        ((200, 89, 89), "/a: periods are 100 on the kernel and 89 in the simulator"),
        ((200, 100, 80), "/a: throttled periods are 90 on the kernel and 80 in the simulator"),
    ]:
        far = of((200, 100, 90), other)
        assert not far.holds() and said in far.table()


def test_distinct_latencies_keep_their_order():
    def disorders(cpus, first, second):
        return list(fidelity.Agreement([run("o1", cpus, *first), run("cfs", cpus, *second)]).disorders())

    first, second = ((0.5, 10e6), (0.5, 30e6)), lambda latency: ((0.5, latency), (0.5, 20e6))
    assert not disorders(1, first, second(12e6)), "too close to tell on the kernel"
    assert not disorders(1, first, second(5e6)), "the same order"
    assert disorders(1, first, second(15e6)) == [("hogs", "o1", "cfs")]
    assert not disorders(2, first, second(15e6)), "not looked at on several CPUs"
    assert not disorders(1, ((0.5, 0.1e6), (0.5, 2)), ((0.5, 0.9e6), (0.5, 1))), "too short to tell on the kernel"


def test_percentiles_need_samples_and_medians_too():
    latency = {"samples": fidelity.LEAST_SAMPLES - 1, "p99_ns": 7}
    assert fidelity.p99(latency, fidelity.LEAST_SAMPLES) is None
    assert fidelity.p99(latency, fidelity.LEAST_SAMPLES_OF_TASK) == 7
    assert fidelity.median([4, 1, None]) == 2.5
    assert fidelity.median([None]) is None


@pytest.fixture
def compare(tmp_path, capsys, monkeypatch):
    """Compares recordings with the simulator: the status, and what is printed."""

    def compare(*words):
        command = ["--command", os.environ["FAIRGROUND"], *map(str, words)]
        monkeypatch.setattr(sys, "argv", ["fidelity", *command])
        status = fidelity.main()
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return compare


HOGS = {"tasks": {"hog": {"instance": 2, "run": 1000}}, "global": {"duration": 1}}


@pytest.fixture
def worlds(tmp_path, compare):
    """Compares a recording of a workload with the simulator."""

    def worlds(milliseconds, *options, workload=HOGS, **more):
        (tmp_path / "hogs.json").write_text(json.dumps(workload))
        tasks = [{"name": name, "cpu_time_ns": time * 1_000_000} for name, time in milliseconds.items()]
        recording = {"workload": "hogs", "scheduler": "o1", "cpus": 1, "duration_ns": 1_060_000_000, "metrics": None}
        (tmp_path / "hogs.o1.play.1").write_text(json.dumps({**recording, "tasks": tasks, **more}))
        return compare("worlds", "--workloads", tmp_path, *options, tmp_path / "hogs.o1.play.1")

    return worlds


def test_recordings_meet_the_simulation_of_the_same_file(worlds):
    status, told = worlds({"hog-0": 525, "hog-1": 534})
    assert status == 0, told
    assert "1 CPU: 2 CPU times: 2 agree\n" in told and "(1 CPU, 1 s;" in told
    status, told = worlds({"hog-0": 100, "hog-1": 899})
    assert status == 1 and "disagree: hogs, o1, play, hog-0" in told


def test_a_simulation_has_the_tunables_and_the_beginning_of_the_recording(worlds):
    long = {"scheduler": "bfs", "tunables": {"rr_interval": "1000 ms"}}
    status, told = worlds({"hog-0": 1040, "hog-1": 20}, **long)
    assert status == 0 and "bfs rr_interval=1000 ms" in told
    status, told = worlds({"hog-0": 1040, "hog-1": 20}, scheduler="bfs")
    assert status == 1, told
    status, told = worlds({"hog-0": 1040, "hog-1": 20}, scheduler="bfs", tunables={"no_such": "1"})
    assert status == 2 and "no_such" in told
    # A thread of the kernel's takes a tenth of the CPU; the clocks and the creator are those of the run.
    turns = [[at * 10_000_000, 1_000_000] for at in range(106)]
    other = {"name": "kworker", "kernel": True, "nice": 0, "rt_priority": 50, "cpus": [], "turns": turns}
    begin = {"start_ns": 9_001_500_000, "scheduler_start_ns": 8_990_200_000, "others": [other]}
    begin["creator"] = {"age_ns": 50_000_000, "cpu_time_ns": 1_000_000, "waits": 7, "preparation_ns": 50_000}
    status, told = worlds({"hog-0": 477, "hog-1": 477}, scheduler="eevdf", **begin)
    assert status == 0, told
    status, told = worlds({"hog-0": 477, "hog-1": 477}, scheduler="eevdf")
    assert status == 1, told


def test_schedulers_of_ones_own_are_those_that_recordings_name(worlds):
    own = ROOT / "crates/cli/tests/schedulers/rotation.bpf.c"
    status, told = worlds({"hog-0": 530, "hog-1": 530}, "-s", own, "--with", "none", scheduler="rotation")
    assert status == 0 and "rotation" in told, told
    status, told = worlds({"hog-0": 530, "hog-1": 530}, scheduler="rotation")
    assert status == 2 and 'no scheduler "rotation"' in told, told


def test_a_control_is_rejected_where_a_run_depends_on_what_it_gets_wrong(worlds):
    tasks = {"a": {"run": 1000, "taskgroup": "/one"}, "b": {"instance": 3, "run": 1000, "taskgroup": "/two"}}
    times = {"a": 530, "b-0": 177, "b-1": 177, "b-2": 176}
    status, told = worlds(times, "--controls", workload={"tasks": tasks, "global": {"duration": 1}}, scheduler="eevdf")
    assert status == 1, "a control that is missed is a fault"
    assert "rejected: no control groups (4 figures)" in told
    assert "not applicable: real-time tasks on the first CPU only" in told
    assert "not rejected: no cost of locks" in told


def test_what_cannot_be_compared_is_refused(worlds, compare, tmp_path):
    status, told = worlds({"hog-0": 1, "hog-1": 1}, duration_ns=0)
    assert status == 2 and "no length" in told
    (tmp_path / "broken.json").write_text("{}")
    status, told = compare("worlds", tmp_path / "broken.json")
    assert status == 2 and "broken.json: not the JSON of fairground play" in told


def test_how_long_programs_take_is_foreseen(compare, tmp_path):
    names = ["build.kernel.1", "build.kernel.2", "build.cfs.1"]
    paths = [shutil.copy(BUILD, tmp_path / f"{name}.recording") for name in names]
    status, told = compare("foresee", *paths)
    assert status == 0, told
    rows = [line.split()[:3] for line in told.splitlines()[1:4]]
    assert rows == [["build", "cfs", "kernel"], ["build", "kernel", "cfs"], ["build", "kernel", "kernel"]]
    assert "3 of 3 are within 5 %" in told
    assert "build: of 0 pairs that the recordings tell apart, replays have 0 in the right order\n" in told
    # Nothing of it is a turn, and nothing a scheduler.
    status, told = compare("foresee", shutil.copy(BUILD, tmp_path / "7.recording"))
    assert status == 2 and "not called WORKLOAD.SCHEDULER.recording" in told
