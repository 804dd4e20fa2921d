# SPDX-License-Identifier: GPL-2.0-or-later
"""The examples of docs/python.md."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT


def test_the_examples_run(tmp_path):
    for needed in ("distributed", "optuna"):
        pytest.importorskip(needed)
    text = (ROOT / "docs/python.md").read_text()
    script = tmp_path / "examples.py"
    # Processes of Dask import the script; they are to find nothing to do.
    body = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)).replace('if __name__ == "__main__":', "if True:")
    script.write_text("def examples():\n" + "".join(f"    {line}\n" for line in body.splitlines()) + "if __name__ == '__main__':\n    examples()\n")
    ended = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
