# SPDX-License-Identifier: GPL-2.0-or-later
import os
import signal
import threading

import fairground as fg
import numpy as np
import pytest
from conftest import ROOT

CELL = {"workload": "mix-two", "scheduler": "cfs", "machine": "2", "duration": "100ms"}


def test_one_process_answers_all_cells_as_compare_would():
    with fg.Worker() as worker:
        first = worker(CELL, seed=3)
        pid = worker.pid
        many = worker.many({**CELL, "seed": seed} for seed in range(20))
        assert worker.pid == pid
    assert first["status"] == "ok" and many[3] == first
    assert [run["labels"]["seed"] for run in many] == list(range(20))
    compared = fg.compare("mix-two", "cfs", machine=2, duration="100ms", seed=3)
    assert compared.document["runs"][0]["metrics"] == first["metrics"]


def test_several_threads_keep_the_order():
    cells = [{**CELL, "seed": seed, "duration": f"{500 - 20 * seed}ms"} for seed in range(20)]
    with fg.Worker(threads=3) as worker:
        assert [run["labels"]["seed"] for run in worker.many(cells)] == list(range(20))


def test_a_cell_that_cannot_be_used_is_an_error_and_the_others_have_run():
    with fg.Worker() as worker:
        with pytest.raises(fg.CellError, match="zfs") as caught:
            worker(CELL, scheduler="zfs")
        assert caught.value.cell["scheduler"] == "zfs"
        with pytest.raises(fg.CellError, match="colour"):
            worker(CELL, colour="red")
        results = worker.many([CELL, {**CELL, "set": {"no_such": 1}}, CELL, {**CELL, "colour": "red"}], errors="return")
        assert [type(result) for result in results] == [dict, fg.CellError, dict, fg.CellError]
        assert results[0] == results[2]


def test_what_is_no_json_is_the_error_of_its_cell_and_numbers_of_numpy_are_numbers():
    with fg.Worker() as worker:
        expected = worker(CELL, seed=3)
        pid = worker.pid
        assert worker({**CELL, "scheduler": b"cfs"}, seed=np.uint32(3), set={"hz": np.int64(250)})["metrics"] == expected["metrics"]
        wrong = [{"seed": float("nan")}, {"seed": {1, 2}}, {"machine": "\ud800"}, {"seed": b"3"}, {"seed": 2**70}, {"hz": np.float64("inf")}]
        results = worker.many([CELL, *({**CELL, **one} for one in wrong), CELL], errors="return")
        assert [type(result) for result in results] == [dict, *[fg.CellError] * len(wrong), dict]
        assert results[1].cell["seed"] is wrong[0]["seed"]
        with pytest.raises(fg.FairgroundError, match="a cell cannot have this: .* not set"):
            worker.shard("S", 1, 2, until={1})
        assert worker.pid == pid


def test_a_run_that_fails_is_a_result():
    with fg.Worker() as worker:
        run = worker(workload=ROOT / "crates/cli/tests/workloads/deadlock.json", scheduler="cfs", machine="2")
        assert run["status"] == "deadlock" and run["failure"]["message"]


def test_the_death_of_the_process_is_an_exception_and_the_next_cell_starts_another():
    with fg.Worker() as worker:
        worker(CELL)
        first = worker.pid
        threading.Timer(0.5, os.kill, (first, signal.SIGKILL)).start()
        with pytest.raises(fg.WorkerDied, match="signal 9"):
            worker({**CELL, "duration": "1000000s"})
        assert worker(CELL)["status"] == "ok" and worker.pid != first


def test_an_interrupt_leaves_no_answer_for_the_next_cell():
    def interrupt(*_):
        raise KeyboardInterrupt

    with fg.Worker() as worker:
        expected = worker(CELL, seed=1)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(KeyboardInterrupt):
                worker({**CELL, "duration": "1000000s"})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert worker(CELL, seed=1) == expected


def test_a_closed_worker_says_so():
    worker = fg.Worker()
    worker(CELL)
    pid = worker.pid
    worker.close()
    assert not os.path.exists(f"/proc/{pid}")
    with pytest.raises(ValueError, match="closed"):
        worker(CELL)
    with pytest.raises(ValueError, match="threads"):
        fg.Worker(threads=0)


