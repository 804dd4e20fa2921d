# SPDX-License-Identifier: GPL-2.0-or-later
"""No output makes up a value: each field of each form of a result is that of the run, as `fairground work` gives it, or absent."""
import csv
import io
import json
import random
import subprocess

import fairground as fg
import pyarrow.parquet as parquet
import pytest

QUANTILES = ("p50", "p95", "p99", "p999", "max")
# What a row says of the cell, not of what was measured.
OF_THE_CELL = {
    "cell", "companion_sha256", "cost_model", "costs_sha256", "counters", "failed_at_ns", "fairground", "hotplug", "hz", "kind", "limit_ns", "machine",
    "machine_sha256", "message", "noise", "notes", "repeat", "scheduler", "scheduler_sha256", "seed", "settings", "settings_given", "status", "task",
    "workload", "workload_sha256",
}


def at(value, path):
    for step in path.split("."):
        value = value and value.get(step)
    return value


def of(path):
    return lambda measured: at(measured, path)


def ratio(over, under, times=1):
    def value(measured):
        a, b = at(measured, over), at(measured, under)
        return a * times / b if a is not None and b else None
    return value


def distribution(prefix, path):
    figures = {f"{prefix}_{quantile}_ns": of(f"{path}.{quantile}_ns") for quantile in ("mean", *QUANTILES)}
    return {f"{prefix}_samples": of(f"{path}.samples"), **figures}


def largest_lag(path):
    def value(measured):
        lag = at(measured, path)
        return lag and max(lag["ahead_ns"], lag["behind_ns"])
    return value


def worst(figure):
    """The largest of the tasks' figures."""
    return lambda run: max((found for task in run["tasks"] if (found := figure(task)) is not None), default=None)


def error_of_share(task):
    window = task["worst_share"]
    return window and abs(window["actual"] - window["ideal"]) / window["ideal"]


def per_work(path):
    def value(run):
        with_amount = run["makespan_ns"] is not None or run["laps"] is not None
        return at(run, path) / run["cpu_time"]["busy_ns"] if with_amount else None
    return value


PERIODS = {f"periods_{what}": of(f"periods.{what}") for what in ("released", "completed", "missed", "skipped")}
BOTH = {
    **distribution("wakeup", "wakeup_latency"),
    **distribution("response", "response_time"),
    **distribution("lap", "laps"),
    **PERIODS,
    "idle_beside_waiting_ns": of("idle_beside.length_ns"),
    "longest_wait_ns": of("longest_wait_ns"),
    "migrations": of("migrations"),
    "wakeups": of("wakeups"),
    "work_ns": of("throughput.work_ns"),
}
RUN = {
    **BOTH,
    **distribution("pass", "scheduler_pass"),
    **{f"overhead_{kind}_ns": of(f"overhead.{kind}_ns") for kind in ("total", "scheduling", "switch", "migration", "interrupt")},
    **{f"{name}_ns": of(f"cpu_time.{name}_ns") for name in ("available", "busy", "idle", "idle_while_runnable", "others", "others_wanted")},
    **{name: of(name) for name in ("context_switches", "cpus", "duration_ns", "inconsistent_events", "makespan_ns", "preemptions")},
    "due_ns": worst(of("worst_wait.entitled_ns")),
    "energy": of("energy.joules"),
    "ideal_work_ns": of("throughput.ideal_work_ns"),
    "idle_wasted": ratio("cpu_time.idle_while_runnable_ns", "cpu_time.available_ns"),
    "idle_wasted_per_work": per_work("cpu_time.idle_while_runnable_ns"),
    "jain_index": of("fairness.jain_index"),
    "lag_ahead_ns": of("fairness.lag.ahead_ns"),
    "lag_behind_ns": of("fairness.lag.behind_ns"),
    "lag_ns": largest_lag("fairness.lag"),
    "lap_low": lambda run: run["slowest_laps_ns"] and 1e9 / run["slowest_laps_ns"],
    "lap_rate": lambda run: run["laps"] and run["laps"]["samples"] * 1e9 / run["duration_ns"],
    "missed_periods": ratio("periods.missed", "periods.released"),
    "others_served": ratio("cpu_time.others_work_ns", "cpu_time.others_wanted_ns"),
    "overhead": ratio("overhead.total_ns", "cpu_time.available_ns"),
    "overhead_booked_ns": of("cpu_time.overhead_ns"),
    "overhead_per_work": per_work("overhead.total_ns"),
    "share_error": worst(error_of_share),
    "throughput": of("throughput.ratio"),
    "window_spread": of("fairness.worst_window.spread"),
}
TASK = {
    **BOTH,
    "busy_ns": of("cpu_time_ns"),
    "context_switches": lambda task: task["voluntary_switches"] + task["involuntary_switches"],
    "due_ns": of("worst_wait.entitled_ns"),
    "ideal_share": of("share.ideal"),
    "lag_ahead_ns": of("lag.ahead_ns"),
    "lag_behind_ns": of("lag.behind_ns"),
    "lag_ns": largest_lag("lag"),
    "makespan_ns": of("ended_ns"),
    "missed_periods": ratio("periods.missed", "periods.released"),
    "nice": of("nice"),
    "preemptions": of("involuntary_switches"),
    "share": of("share.actual"),
    "share_error": error_of_share,
    "throttled_ns": of("throttled_ns"),
    "wait_ns": of("wait_ns"),
    "weight": of("weight"),
    "work_ns": of("work_ns"),
    **{f"window_share_{figure}": of(f"windows.{figure}") for figure in ("min", "max", "mean", "standard_deviation")},
}


def agrees(row, measured, table, where):
    for column, value in row.items():
        if column in OF_THE_CELL or value is None or value == "":
            continue
        assert column in table, f"{where}: nobody knows what {column} is"
        expected = table[column](measured)
        assert expected is not None, f"{where}: {column} is {value}, which the run has not"
        # Means are rounded to nanoseconds.
        rounded = 0.5 if column.endswith("_mean_ns") else 1e-9 * abs(expected)
        assert abs(float(value) - expected) <= rounded, f"{where}: {column} is {value}, {expected} in the run"


def rows_agree(rows, run, where):
    tasks = {task["name"]: task for task in run["metrics"]["tasks"]}
    for row in rows:
        name = row.get("task")
        assert row["status"] == run["status"] and int(row["seed"]) == run["labels"]["seed"]
        assert row["scheduler"] == run["labels"]["scheduler"] and row["cell"] == run["labels"]["cell"]
        agrees(row, tasks[name] if name else run["metrics"], TASK if name else RUN, f"{where}, {name or 'run'}")
    return len(rows)


def command(*arguments):
    return subprocess.run([fg.command(), *arguments], check=True, capture_output=True, text=True).stdout


def drawn(number):
    draw = random.Random(number)
    return {
        "workload": draw.choice(["mix-two", "hogs-nice", "periodic-hogs", "wakeup-chain", "lock-contention", "hackbench", "interbench"]),
        "scheduler": draw.choice(["eevdf", "cfs", "o1", "bfs", "ule", "dwrr", "kernel"]),
        "machine": draw.choice(["1", "2", "numa:2 core:2 pu:2", "phone"]),
        "hz": draw.choice([100, 250, 1000]),
        "cost": draw.choice(["default", "zero"]),
        "noise": draw.choice(["none", "default"]),
        "seed": draw.randrange(1000),
    }


@pytest.mark.parametrize("number", range(8))
def test_every_form_of_a_result_has_the_values_of_the_run(number, tmp_path):
    cell = drawn(number)
    with fg.Worker() as worker:
        document = worker(**cell, duration="150ms")
    of_options = [cell["workload"], "-s", cell["scheduler"], "-m", cell["machine"], "--hz", str(cell["hz"]), "--cost", cell["cost"]]
    of_options += ["-d", "150ms", "--noise", cell["noise"], "--seed", str(cell["seed"]), "--repeat", "1"]
    found = json.loads(command("compare", *of_options, "--format", "json"))["runs"]
    assert found == [document]
    table = list(csv.DictReader(io.StringIO(command("compare", *of_options, "--format", "csv"))))
    count = 1 + len(document["metrics"]["tasks"])
    assert rows_agree(table, document, "CSV") == count
    command("compare", *of_options, "--output", str(tmp_path / "data"))
    rows = [row for what in ("runs", "tasks") for row in parquet.read_table(tmp_path / f"data/{what}/{what}.parquet").to_pylist()]
    assert rows_agree(rows, document, "Parquet") == count
    sweep = fg.Sweep(tmp_path / "S", schedulers=cell["scheduler"], workloads=cell["workload"], machines=[cell["machine"]], hz=[cell["hz"]],
                     costs=[cell["cost"]], noise=cell["noise"], seeds={"from": cell["seed"], "count": 1}, duration="150ms")
    sweep.run()
    assert rows_agree(sweep.runs.to_pylist() + sweep.tasks.to_pylist(), document, "sweep") == count
    assert rows_agree(list(csv.DictReader(io.StringIO(sweep.table("csv")))), document, "sweep's table") >= 1
