"""Pages of results are what their scripts make of the files beside them, and nothing else."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {
    "attacks": "results/attacks.md",
    "comparison": "results/csvar.md",
    "correlation": "results/correlation.md",
    "defenses": "results/defenses.md",
    "federations": "results/federations.md",
    "gan": "results/gan.md",
    "invgrad": "results/invgrad.md",
    "members": "results/members.md",
    "results": "results/audit.md",
    "semsim": "metrics/semsim.md",
    "semsim_study": "results/semsim.md",
    "updates": "results/updates.md",
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_comes_from_its_files(name, tmp_path, monkeypatch):
    copy = tmp_path / "docs"
    for folder in ("results", "metrics"):
        shutil.copytree(DOCS / folder, copy / folder)
    for script in DOCS.glob("*.py"):
        shutil.copy(script, copy)
    page = copy / PAGES[name]
    monkeypatch.setattr(sys, "argv", [f"generate_{name}.py"])
    monkeypatch.syspath_prepend(str(copy))
    runpy.run_path(str(copy / f"generate_{name}.py"), run_name="__main__")
    assert page.read_text(encoding="utf-8") == (DOCS / PAGES[name]).read_text(encoding="utf-8")


def test_the_page_of_the_gan_sets_defenses_beside_one_another_and_names_what_is_missing():
    made = runpy.run_path(str(DOCS / "generate_gan.py"))
    plain = json.loads((DOCS / "results" / "gan-mnist-none.json").read_text())
    shuffled = {**plain, "plan": {**plain["plan"], "defense": "csvar"}}
    page = made["page"]([shuffled, plain])
    assert page.index("\n| no defense |") < page.index("\n| CSVAR |")
    assert page.count("## mnist") == 1
    assert "scored yet:** MNIST, noise on images, sigma 50; ORL faces, no defense;" in page
