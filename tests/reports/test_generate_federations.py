"""The page of the CSVAR evaluation is made of what a study holds, finished or not."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path

import pytest
from tests.reports.federated_rows import asked, row

from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import SCHEMA

SCRIPT = Path(__file__).parents[2] / "docs" / "generate_federations.py"
NOISE = "image_noise:sigma=50"


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script as a module that writes elsewhere."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = importlib.util.spec_from_file_location("generate_federations", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.FILE = tmp_path / "federations.json"
    module.ROC, module.ROUNDS = tmp_path / "roc.png", tmp_path / "rounds.png"
    return module


def made(script, tmp_path, rows) -> str:
    settings = {**dataclasses.asdict(Federations(title="own")), "versions": {}}
    (tmp_path / "study.json").write_text(json.dumps({"schema": SCHEMA, "settings": settings, "rows": rows}))
    script.export([tmp_path])
    return script.page()


def face(defense, accuracy, auc, seed=0, **changes):
    return row(defense, accuracy, auc, seed, dataset="orl_faces:size=64", model="shufflenet_v2", **changes)


def test_an_unfinished_study_says_what_is_missing_and_judges_the_rest(script, tmp_path):
    waiting = {"dataset": "cifar10", "model": "mlp", "defense": "csvar", "augment": False, "seed": 2, "pending": True}
    lost = {**waiting, "augment": True, "seed": 0, "failed": "it diverged"}
    rows = [face("none", 0.9, 0.8), face("csvar", 0.855, 0.6), face(NOISE, 0.5, 0.7), waiting, lost]
    page = made(script, tmp_path, rows)
    assert "- cifar10, mlp, csvar (not run yet): seeds 2" in page
    assert "- cifar10, mlp, csvar, augmented (failed: it diverged): seeds 0" in page
    assert "accuracy vanilla >= CSVAR > noise sigma 50, clean test images: **holds**" in page
    assert "MIA AUC vanilla > CSVAR, raw queries: **holds** (none - csvar: +0.200 [+0.172, +0.228], 1 seed)" in page
    assert "| 85.5% (83.5% to 87.5%) | 85.5% (83.5% to 87.5%) | 82.74%, below our interval |" in page
    assert "| clients | `4` | how many clients |" in page
    assert script.ROC.stat().st_size > 1000 < script.ROUNDS.stat().st_size


def test_shadow_attacks_and_controls_have_their_rows(script, tmp_path):
    rows = [face("none", 0.9, 0.8, shadowed={"lira, clean": asked(0.95)}), face("none", 0.8, 0.6, augment=True)]
    page = made(script, tmp_path, rows)
    assert "| none | lira | 0.950 (0.930 to 0.970) | 0.100 (0.080 to 0.120) | n/a | n/a |" in page
    assert "| none, augmented, stopped early | 1 | 80.0% (78.0% to 82.0%) | 0.600 (0.580 to 0.620) |" in page


def test_nothing_finished_is_a_page_of_choices(script, tmp_path):
    waiting = {"dataset": "cifar10", "model": "mlp", "defense": "none", "augment": False, "seed": 0, "pending": True}
    page = made(script, tmp_path, [waiting])
    assert "Missing in every table above" in page
    assert "Do the paper's claims hold" not in page
    assert "What was chosen" in page


def test_parts_of_one_plan_are_put_together_and_what_is_finished_stays(script, tmp_path):
    waiting = {"dataset": "mnist", "model": "lenet", "defense": "none", "augment": False, "seed": 0, "pending": True}
    made(script, tmp_path, [face("none", 0.9, 0.8), waiting])
    undone = {**waiting, "dataset": "orl_faces:size=64", "model": "shufflenet_v2"}
    page = made(script, tmp_path, [undone, face("csvar", 0.8, 0.6), {**waiting, "failed": "no room"}])
    (study,) = json.loads(script.FILE.read_text())
    assert [(one["defense"], "accuracy" in one) for one in study["rows"]] == [
        ("none", True),
        ("none", False),
        ("csvar", True),
    ]
    assert "MIA AUC vanilla > CSVAR, raw queries: **holds**" in page
    assert "- mnist, lenet, none (failed: no room): seeds 0" in page


def test_studies_with_other_settings_stay_apart(script, tmp_path):
    made(script, tmp_path, [face("none", 0.9, 0.8)])
    document = json.loads((tmp_path / "study.json").read_text())
    document["settings"]["rounds"] += 1
    (tmp_path / "study.json").write_text(json.dumps(document))
    script.export([tmp_path])
    assert len(json.loads(script.FILE.read_text())) == 2
