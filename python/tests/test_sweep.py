# SPDX-License-Identifier: GPL-2.0-or-later
import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import fairground as fg
import numpy as np
import polars
import pytest
from conftest import ROOT
from fairground import _dask

AXES = {"workloads": "mix-two", "machines": ["2"], "seeds": 3, "duration": "100ms"}
SCHEDULERS = [{"id": "cfs", "set": {"sched_latency": ["6ms", "12ms"]}}, "o1"]


def plan(folder: Path, **more) -> fg.Sweep:
    return fg.Sweep(folder, schedulers=SCHEDULERS, **{**AXES, **more})


def test_axes_are_planned_run_and_read(tmp_path):
    sweep = plan(tmp_path / "S", scores=[{"name": "waits", "measure": "wakeup_p99"}])
    assert (sweep.status()["cells"], sweep.status()["done"]) == (9, 0)
    with pytest.raises(fg.FairgroundError, match="no results yet"):
        sweep.runs
    assert sweep.run()["statuses"] == {"ok": 9}
    assert repr(sweep).endswith("9 of 9 cells done: 9 ok>")
    assert polars.DataFrame(sweep)["cell"].n_unique() == 9
    runs = sweep.runs  # noqa: F841: by name in the query
    assert duckdb.sql("select scheduler, count(*) from runs group by all order by all").fetchall() == [("cfs", 6), ("o1", 3)]
    assert sweep.tasks.num_rows == 9 * 6
    assert sweep.dataset().count_rows() == 9
    with pytest.warns(UserWarning, match="9 of 9 runs have fewer samples than the 500"):
        scored = sweep.score("waits").to_pylist()
    assert len(scored) == 3 and scored[0]["score"] <= scored[-1]["score"]
    assert "mix-two" in sweep.table() and sweep.table("csv").startswith("fairground,")
    assert "--array=0-3" in sweep.slurm(tasks=4, time="10:00")
    # Cells of an earlier plan stay in the data set, and are no part of the plan's results.
    again = fg.Sweep(tmp_path / "S", schedulers="o1", **AXES)
    assert again.status()["left"] == 0 and again.runs.num_rows == 3 and again.dataset().count_rows() == 9
    assert fg.Sweep(tmp_path / "S").status() == again.status()


def test_what_is_called_otherwise_now_has_the_name_of_the_plan(tmp_path):
    """Files that change places keep their results, which the command and Python call alike."""

    def costs(name, tick):
        (tmp_path / name).write_text(f"tick = {tick}\n")
        return tmp_path / name

    def load(name, run):
        text = '{"fairground": {"parameters": {"count": {"default": 1, "from": 1, "to": 2, "doc": ""}}}, "tasks": {"hog": {"loop": -1, "run": %d, "sleep": 1000}}}'
        (tmp_path / name).write_text(text % run)
        return tmp_path / name

    tables = []
    for first, second, run, tick in (("cfs", "o1", 3000, 500), ("o1", "bfs", 7000, 900)):
        sweep = fg.Sweep(
            tmp_path / "S",
            schedulers=[{"id": first, "name": "old"}, {"id": second, "name": "new"}],
            **{**AXES, "workloads": [load("a.json", run), f"{load('b.c.json', 10_000 - run)}:count=2", "schbench:threads=2"]},
            costs=[costs("a.toml", tick), costs("b.toml", 1400 - tick)],
        )
        sweep.run(progress=False)
        names = ["cell", "scheduler", "workload", "machine"]
        planned = [tuple(line[name] for name in names) for line in csv.DictReader(io.StringIO(sweep.table("csv")))]
        for table in (sweep.runs, sweep.tasks):
            assert set(zip(*(table[name].to_pylist() for name in names))) == set(planned)
        assert set(sweep.runs["workload"].to_pylist()) == {"a", "b.c:count=2", "schbench:threads=2"}
        ticks = {"a.toml": tick, "b.toml": 1400 - tick}
        tables.append({(row["cell"], ticks[row["cost_model"]]) for row in sweep.runs.to_pylist()})
    both = tables[0] & tables[1]
    assert len(both) == 3 * 3 * 2 and {cell for cell, _ in both} == {cell for cell, _ in tables[0]} & {cell for cell, _ in tables[1]}


def test_cells_that_are_there_twice_count_once(tmp_path):
    sweep = plan(tmp_path / "S")
    sweep.run()
    for what in ("runs", "tasks"):
        (file,) = (tmp_path / "S" / "data" / what).rglob("*.parquet")
        shutil.copy(file, file.with_name("again.parquet"))
    assert sweep.dataset().count_rows() == 18
    assert sweep.runs.num_rows == 9 and sweep.tasks.num_rows == 9 * 6
    sweep.pack()
    assert sweep.dataset().count_rows() == 9


def test_an_interrupt_ends_the_run_and_another_goes_on(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fairground._command.PATIENCE_S", 0.5)
    sweep = plan(tmp_path / "S", duration="1000000s")
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            sweep.run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not any("sweep" in Path(f"/proc/{child}/cmdline").read_text() for child in children)
    assert plan(tmp_path / "S").run()["statuses"] == {"ok": 9}


def test_files_and_sources_are_found_from_the_current_folder(tmp_path, source, monkeypatch):
    file = tmp_path / "a.toml"
    file.write_text('workloads = ["mix-two"]\nmachines = ["1"]\nduration = "50ms"\n[[scheduler]]\nid = "o1"\n')
    monkeypatch.chdir(tmp_path)
    assert fg.Sweep("S", "a.toml").run()["done"] == 1
    own = fg.Sweep("T", workloads="mix-two", machines=1, duration="50ms", schedulers={"id": source.name, "set": {"slice_ns": [1_000_000, 2_000_000]}})
    assert own.run(threads=1)["statuses"] == {"ok": 2}


@pytest.mark.filterwarnings("ignore:.*fewer samples")
def test_a_score_of_one_scheduler_names_it(tmp_path):
    one = {"id": "cfs", "set": {"sched_latency": ["6ms"]}}
    sweep = fg.Sweep(tmp_path / "S", schedulers=one, scores=[{"name": "waits", "measure": "wakeup_p99"}], **AXES)
    sweep.run()
    assert sweep.score()["scheduler"].to_pylist() == ["cfs sched_latency=6ms"]


def test_numbers_of_numpy_are_numbers_and_none_is_nothing(tmp_path):
    number = np.int64
    one = {"id": "cfs", "set": {"hz": [number(250), 1000], "new_fair_sleepers": np.bool_(True)}}
    axes = {**AXES, "machines": number(2), "seeds": number(2), "hz": number(250), "window": None}
    assert fg.Sweep(tmp_path / "S", schedulers=one, **axes).status()["cells"] == 4
    assert fg.Sweep(tmp_path / "S", duration=None).status()["cells"] == 4
    found = fg.compare("mix-two", "cfs", machine=number(2), duration="50ms", seed=number(3), repeat=number(2), set={"cfs.hz": np.array([250, 1000])})
    assert found.runs["seed"].to_pylist() == [3, 4] * 2


def test_mistakes_are_exceptions(tmp_path):
    with pytest.raises(fg.FairgroundError, match="no sweep"):
        fg.Sweep(tmp_path / "nothing")
    plan(tmp_path / "T")
    with pytest.raises(fg.FairgroundError, match="workloads"):
        fg.Sweep(tmp_path / "T", scores=[{"name": "waits", "measure": "wakeup_p99"}])
    with pytest.raises(fg.FairgroundError, match="colour"):
        plan(tmp_path / "S", colour="red")
    with pytest.raises(ValueError, match="either a file or axes"):
        fg.Sweep(tmp_path / "S", "a.toml", schedulers="o1")
    with pytest.raises(ValueError, match="without an id"):
        fg.Sweep(tmp_path / "S", workloads="mix-two", schedulers={"set": {}})


def test_toml_has_every_kind_of_value():
    tomllib = pytest.importorskip("tomllib")
    from fairground._sweep import _toml

    text = _toml(
        [{"id": "cfs", "set": {"a.b": {"from": "1ms", "to": "2ms", "steps": 3}, "c": [True, 1.5, 'quo"te\\']}}],
        [{"name": "n"}],
        {"workloads": ("a", "b"), "hz": 250, "hotplug": [[], ["1:off@2s"]], "seeds": {"from": 7, "count": 2}},
    )
    assert tomllib.loads(text) == {
        "workloads": ["a", "b"],
        "hz": [250],
        "hotplug": [[], ["1:off@2s"]],
        "seeds": {"from": 7, "count": 2},
        "scheduler": [{"id": "cfs", "set": {"a.b": {"from": "1ms", "to": "2ms", "steps": 3}, "c": [True, 1.5, 'quo"te\\']}}],
        "score": [{"name": "n"}],
    }


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster:
        with distributed.Client(cluster) as client:
            yield client


def measured(sweep: fg.Sweep):
    drop = ["fairground"]
    return sorted(sweep.runs.drop_columns(drop).to_pylist(), key=lambda row: row["cell"])


def test_dask_does_what_one_machine_does_though_a_worker_is_killed(tmp_path, client):
    here = plan(tmp_path / "here", seeds=20)
    here.run()
    there = plan(tmp_path / "there", seeds=20)
    pids = list(client.run(os.getpid).values())
    killer = threading.Thread(target=kill_at_first_file, args=(tmp_path / "there", pids[0]))
    killer.start()
    status = there.run(client=client, shards=4)
    killer.join()
    assert (status["done"], status["left"]) == (60, 0)
    assert measured(there) == measured(here)
    # Everything is there, so nothing is written again.
    files = status["files"]
    assert there.run(client=client)["files"] == files


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A cluster of Slurm, of this machine alone."""
    pytest.importorskip("dask_jobqueue")
    programs = ("slurmctld", "slurmd", "munged", "sbatch")
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if not all(shutil.which(program, path=path) for program in programs):
        assert os.environ.get("CI") != "true", "Slurm is missing; run scripts/install test"
        pytest.skip("Slurm is missing; run scripts/install test")
    home = tmp_path / "slurm"
    script = ROOT / "crates/cli/tests/slurm/cluster"
    process = subprocess.Popen([script, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        monkeypatch.setenv("SLURM_CONF", str(home / "slurm.conf"))
        yield
    finally:
        process.stdin.close()
        process.wait()


def test_workers_of_dask_that_slurm_starts_do_the_same(tmp_path, slurm):
    from dask_jobqueue import SLURMCluster
    from distributed import Client

    here = plan(tmp_path / "here")
    here.run()
    there = plan(tmp_path / "there")
    options = {"cores": 1, "processes": 1, "memory": "1GB", "walltime": "00:10:00", "log_directory": str(tmp_path)}
    local = {"interface": "lo", "local_directory": str(tmp_path), "job_directives_skip": ["--mem"], "python": sys.executable}
    scheduler = {"scheduler_options": {"dashboard_address": None}}
    with SLURMCluster(**options, **local, **scheduler) as cluster, Client(cluster) as client:
        cluster.scale(jobs=1)
        status = there.run(client=client, shards=3)
    assert (status["done"], status["files"]) == (9, 3)
    assert measured(there) == measured(here)


def kill_at_first_file(folder: Path, pid: int):
    end = time.monotonic() + 120
    while time.monotonic() < end and not any(folder.glob("data/runs/*/*.parquet")):
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)


def test_a_task_returns_counts(tmp_path):
    sweep = plan(tmp_path / "S")
    counts = _dask.shard(str(sweep.folder), 0, 2, 1, None, None)
    assert counts["done"] == counts["cells"] == sum(counts["statuses"].values()) < 9


def test_a_thread_keeps_its_process_and_gets_another_when_that_is_killed(tmp_path):
    sweep = plan(tmp_path / "S")
    folder = str(sweep.folder)
    _dask.shard(folder, 0, 3, 1, None, None)
    pid = _dask.warm(None).pid
    _dask.shard(folder, 1, 3, 1, None, None)
    assert _dask.warm(None).pid == pid
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    _dask.shard(folder, 2, 3, 1, None, None)
    assert _dask.warm(None).pid != pid
    assert sweep.status()["left"] == 0
    with pytest.raises(fg.FairgroundError, match="no sweep"):
        _dask.shard(str(tmp_path), 0, 3, 1, None, None)


def test_tuning_on_dask_finds_the_same(client):
    pytest.importorskip("optuna")
    ranges = {"sched_latency": ("1ms", "60ms", "log"), "sched_min_granularity": ("100us", "20ms", "log")}
    wanted = {"tunables": ranges, "trials": 8, "batch": 4, "seeds": 1, "held_out_seeds": 0, "machine": 1, "duration": "500ms"}
    goals = ["wakeup_p99 of fast", "min context_switches"]
    workload = ROOT / "workloads/periodic-hogs.json"
    one = fg.tune("cfs", workload, goals, **wanted)
    two = fg.tune("cfs", workload, goals, client=client, **wanted)
    assert one.trials.equals(two.trials)
    assert [trial.values for trial in one.best] == [trial.values for trial in two.best]
