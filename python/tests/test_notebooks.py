# SPDX-License-Identifier: GPL-2.0-or-later
"""The notebooks run, in a reduced size: with other values in the cell that is tagged `parameters`."""

import pytest
from conftest import ROOT

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = ROOT / "python" / "notebooks"
SMALL = {
    "document-figure": "children = [2, 4]\nseconds_of_work = 0.3\nrepeat = 2",
    "two-goals": "trials = 12\nseeds = 1\nheld_out_seeds = 2\nduration = '500ms'",
    "which-scheduler": "schedulers = ['eevdf', 'cfs', 'o1', 'bfs', 'ule']\nmachine = 8\nrepeat = 2\nduration = '200ms'",
}


@pytest.mark.parametrize("name", SMALL)
def test_a_notebook_runs(name):
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert set(assigned(parameters.source)) == set(assigned(SMALL[name]))
    parameters.source = SMALL[name]
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": NOTEBOOKS}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs if "data" in output]
    assert any("text/html" in output["data"] for output in shown)


def test_every_notebook_is_tested_and_has_no_outputs():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(SMALL)
    for path in NOTEBOOKS.glob("*.ipynb"):
        assert not any(cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells)


def assigned(source):
    return [line.partition(" = ")[0] for line in source.splitlines()]
