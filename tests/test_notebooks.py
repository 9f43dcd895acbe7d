"""The notebooks run from top to bottom, are kept without outputs, and show what they promise."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install 'glasshouse[test]'")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install 'glasshouse[test]'")

EXAMPLES = Path(__file__).parents[1] / "examples"
#: What each notebook prints in its end.
PROMISES = {
    "audit_my_model": ["none: 2 of 2 seen", "prune:percent=99: 0 of 2 seen", "report/index.html"],
    "protect_a_data_set": ["C jigsaw", "re-identified: region moments {'share': 1.0}", "True"],
}


def test_every_notebook_promises_something():
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == sorted(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_notebooks_run(name, tmp_path, monkeypatch):
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells), "clear the outputs before you commit"
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    nbclient.NotebookClient(notebook, timeout=None, startup_timeout=600, kernel_name="python3").execute(cwd=tmp_path)
    outputs = [output for cell in cells for output in cell.outputs]
    said = "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)
    for words in PROMISES[name]:
        assert words in said
    assert any("image/png" in output.get("data", {}) for output in outputs)
