"""The notebooks run from top to bottom, are kept without outputs, and show what they promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install 'glasshouse[test]'")
pytest.importorskip("IPython", reason="IPython is not installed: pip install 'glasshouse[test]'")

EXAMPLES = Path(__file__).parents[1] / "examples"
#: What each notebook prints in its end.
PROMISES = {
    "audit_my_model": ["none: 2 of 2 seen", "prune:percent=99: 0 of 2 seen", "report/index.html"],
    "protect_a_data_set": ["C jigsaw", "re-identified: region moments {'share': 1.0}", "True"],
}
#: Runs cells as a kernel does, and says what they printed and showed.
KERNEL = """
import json, os, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
folder, *cells = sys.argv[1:]
os.chdir(folder)
shell, said, shown = InteractiveShell.instance(), "", []
for cell in cells:
    with capture_output() as captured:
        done = shell.run_cell(cell)
    done.raise_error()
    said += captured.stdout + "".join(one.data.get("text/plain", "") for one in captured.outputs)
    shown += [kind for one in captured.outputs for kind in one.data]
print(json.dumps([said, shown]))
"""


def test_every_notebook_promises_something():
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == sorted(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_notebooks_run(forked, name, tmp_path):
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells), "clear the outputs before you commit"
    words = [str(tmp_path), *(cell.source for cell in cells)]
    done = forked(KERNEL, *words, TMPDIR=str(tmp_path), IPYTHONDIR=str(tmp_path / "ipython"))
    assert done.returncode == 0, done.stderr
    said, shown = json.loads(done.stdout.splitlines()[-1])
    for promise in PROMISES[name]:
        assert promise in said
    assert "image/png" in shown
