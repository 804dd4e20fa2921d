# SPDX-License-Identifier: GPL-2.0-or-later
import os
import signal
import subprocess
import sys
import time

import duckdb
import fairground as fg
import polars
import pyarrow as pa
import pytest
from conftest import ROOT

QUICK = {"machine": 2, "duration": "200ms"}


def test_runs_and_tasks_are_tables_and_the_options_are_those_of_the_command():
    found = fg.compare("mix-two", ["cfs", "o1"], repeat=2, seed=5, set={"cfs.sched_latency": ["6ms", "12ms"]}, **QUICK)
    assert len(found) == 6 and found.failures.num_rows == 0
    assert found.runs["seed"].to_pylist() == [5, 6] * 3
    assert {dict(row).get("sched_latency") for row in found.runs["settings"].to_pylist()} == {6_000_000, 12_000_000, None}
    assert set(found.tasks["task"].to_pylist()) >= {"hog-0", "sleeper"}
    assert repr(found).endswith("6 runs, 6 ok>")
    assert found.document["runs"][0]["labels"]["seed"] == 5


def test_polars_duckdb_and_pyarrow_take_a_comparison_as_it_is():
    found = fg.compare("mix-two", "cfs", **QUICK)
    expected = found.runs["wakeup_p99_ns"].to_pylist()
    assert polars.DataFrame(found)["wakeup_p99_ns"].to_list() == expected
    assert pa.table(found)["wakeup_p99_ns"].to_pylist() == expected
    runs = found.runs  # noqa: F841: by name in the query
    assert duckdb.sql("select wakeup_p99_ns from runs").fetchall() == [(expected[0],)]
    # The same memory, not a copy of it.
    column = found.runs["wakeup_p99_ns"].chunk(0).buffers()[1].address
    assert pa.table(found)["wakeup_p99_ns"].chunk(0).buffers()[1].address == column


def test_a_run_that_fails_is_a_row_and_a_name_that_does_not_exist_an_exception(source):
    found = fg.compare(str(ROOT / "crates/cli/tests/workloads/deadlock.json"), "cfs", machine=2)
    assert found.failures["status"].to_pylist() == ["deadlock"]
    with pytest.raises(fg.FairgroundError, match="zfs"):
        fg.compare("mix-two", "zfs", **QUICK)
    with pytest.raises(fg.FairgroundError, match="duration"):
        fg.compare("mix-two", "cfs", duration="soon")


def test_names_and_settings_of_an_own_source_and_a_baseline_give_verdicts(source):
    found = fg.compare("mix-two", {"short": f"{source}{{slice_ns=1000000}}", "long": source}, baseline="long", repeat=3, **QUICK)
    assert set(found.runs["scheduler"].to_pylist()) == {"short", "long"}
    judged = {row["measure"]: row for row in found.differences.to_pylist()}
    assert judged["throughput"]["judgement"] in {"better", "same", "worse", "undecided"}
    assert judged["throughput"]["low"] <= judged["throughput"]["difference"] <= judged["throughput"]["high"]


def test_the_page_is_shown_inline_and_written(tmp_path):
    found = fg.compare("mix-two", "cfs", **QUICK)
    written = tmp_path / "page.html"
    assert found.page(written) == written.read_text() and "mix-two" in found.page()
    shown = found._repr_html_()
    assert shown.startswith("<iframe") and "&lt;html" in shown and "<html" not in shown


def test_a_missing_command_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.setenv("FAIRGROUND", "/nowhere/fairground")
    with pytest.raises(fg.FairgroundError, match="FAIRGROUND=/nowhere/fairground"):
        fg.command()
    monkeypatch.delenv("FAIRGROUND")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(fg.FairgroundError, match="pip install ./python"):
        fg.command()


def test_an_interrupt_ends_the_command(tmp_path):
    """Ctrl-C is a KeyboardInterrupt, and nothing goes on behind it."""
    script = "import fairground as fg, os; print(os.getpid(), flush=True); fg.compare('mix-two', 'cfs', duration='1000000s', machine='2')"
    python = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert python.stdout.readline()
    child = waited_for(lambda: [one for one in children(python.pid) if "compare" in open(f"/proc/{one}/cmdline").read()])
    # It has been started; Python has yet to learn of that.
    time.sleep(1)
    python.send_signal(signal.SIGINT)
    _, said = python.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    assert not any(os.path.exists(f"/proc/{one}") for one in child)


def children(pid):
    return open(f"/proc/{pid}/task/{pid}/children").read().split()


def waited_for(found):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("it did not come")
