# SPDX-License-Identifier: GPL-2.0-or-later
"""`pip install ./python` into an empty environment, with the command that the other tests use: nothing is compiled.

pip finds maturin and pyarrow in the folder of wheels that scripts/install makes, and maturin asks a stand-in for cargo, which names the command that is
there. Everything else is as for a user.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fairground
import pytest
from conftest import ROOT

WHEELS = Path(os.environ.get("FAIRGROUND_VENV", sys.prefix), "wheels")
# Nothing of the environment of these tests.
CLEAN = {name: value for name, value in os.environ.items() if name not in ("FAIRGROUND", "PYTHONPATH", "RUSTC_WORKSPACE_WRAPPER")}

CARGO = """#!/bin/sh
case $1 in
rustc) cat "$0.json" ;;
*) exec '{cargo}' "$@" ;;
esac
"""


def stand_in(folder: Path, program: Path) -> None:
    """A cargo that has built this program."""
    cargo = shutil.which("cargo")
    asked = subprocess.run(
        [cargo, "metadata", "--no-deps", "--format-version", "1", "--manifest-path", ROOT / "Cargo.toml"], check=True, stdout=subprocess.PIPE
    )
    (package,) = [one for one in json.loads(asked.stdout)["packages"] if one["name"] == "fairground"]
    (target,) = [one for one in package["targets"] if one["kind"] == ["bin"]]
    built = {
        "reason": "compiler-artifact",
        "package_id": package["id"],
        "manifest_path": package["manifest_path"],
        "target": target,
        "profile": {"opt_level": "1", "debuginfo": 0, "debug_assertions": True, "overflow_checks": True, "test": False},
        "features": [],
        "filenames": [str(program)],
        "executable": str(program),
        "fresh": True,
    }
    folder.mkdir()
    (folder / "cargo.json").write_text(json.dumps(built) + '\n{"reason":"build-finished","success":true}\n')
    (folder / "cargo").write_text(CARGO.format(cargo=cargo))
    (folder / "cargo").chmod(0o755)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with the package and nothing else, and an empty folder."""
    if not WHEELS.is_dir() or not shutil.which("cargo"):
        assert os.environ.get("CI") != "true", f"{WHEELS} is missing; run scripts/install test"
        pytest.skip(f"{WHEELS} or cargo is missing; run scripts/install test")
    home = tmp_path_factory.mktemp("wheel")
    program = home / "fairground"
    subprocess.run(["strip", "-o", program, fairground.command()], check=True)
    stand_in(home / "bin", program)
    subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    ended = subprocess.run(
        [home / "venv/bin/pip", "install", "--quiet", "./python"],
        cwd=ROOT,
        env={**CLEAN, **offline, "PATH": f"{home / 'bin'}:{CLEAN['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    (home / "empty").mkdir()
    return home / "venv/bin", home / "empty"


def told(installed, *arguments):
    """The output of a program of the environment, in an empty folder and with an ordinary PATH."""
    folder, empty = installed
    environment = {**CLEAN, "PATH": "/usr/bin:/bin"}
    ended = subprocess.run([folder / arguments[0], *arguments[1:]], cwd=empty, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_command_comes_with_it_and_runs(installed):
    version = told(installed, "fairground", "--version").split()[1]
    assert "mix-two" in told(installed, "fairground", "compare", "mix-two", "-s", "cfs,o1", "-m", "2", "-d", "100ms")
    script = "import importlib.metadata as metadata; print(metadata.version('fairground-schedulers'))"
    assert told(installed, "python", "-c", script).strip() == version


def test_the_package_is_whole(installed):
    script = "import fairground, pathlib; print(*sorted(one.name for one in pathlib.Path(fairground.__file__).parent.iterdir()))"
    there = sorted(one.name for one in (ROOT / "python/src/fairground").iterdir() if one.name != "__pycache__")
    assert [name for name in told(installed, "python", "-c", script).split() if name != "__pycache__"] == there
    assert "py.typed" in there


def test_compare_worker_and_sweep_use_that_command(installed, source):
    folder, _ = installed
    script = f"""
import fairground as fg
assert fg.command() == {str(folder / "fairground")!r}, fg.command()
found = fg.compare("mix-two", ["cfs", {str(source)!r}], machine=2, duration="100ms")
assert found.runs["status"].to_pylist() == ["ok", "ok"], found.failures
with fg.Worker() as worker:
    assert worker(workload="mix-two", scheduler="o1", duration="100ms")["status"] == "ok"
sweep = fg.Sweep("S", workloads="mix-two", schedulers="o1", duration="100ms", seeds=3)
assert sweep.run()["statuses"] == {{"ok": 3}} and sweep.runs.num_rows == 3
"""
    told(installed, "python", "-c", script)


def test_without_an_extra_it_is_named(installed):
    script = """
import fairground as fg
try:
    fg.tune("cfs", "mix-two", "wakeup_p99")
except ImportError as error:
    print(error)
"""
    assert "pip install './python[tune]'" in told(installed, "python", "-c", script)
