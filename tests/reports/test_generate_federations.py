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
    module.SEEN = tmp_path / "seen.json"
    module.ROC, module.ROUNDS = tmp_path / "roc.png", tmp_path / "rounds.png"
    return module


def made(script, tmp_path, rows) -> str:
    settings = {**dataclasses.asdict(Federations(title="own")), "versions": {}}
    (tmp_path / "study.json").write_text(json.dumps({"schema": SCHEMA, "settings": settings, "rows": rows}))
    script.export([tmp_path])
    return page(script)


def page(script) -> str:
    return script.page(json.loads(script.FILE.read_text()), script.seen())


def face(defense, accuracy, auc, seed=0, **changes):
    return row(defense, accuracy, auc, seed, dataset="orl_faces:size=64", model="shufflenet_v2", **changes)


def test_an_unfinished_study_says_what_is_missing_and_judges_the_rest(script, tmp_path):
    waiting = {"dataset": "cifar10", "model": "mlp", "defense": "csvar", "augment": False, "seed": 2, "pending": True}
    lost = {**waiting, "augment": True, "seed": 0, "failed": "it diverged"}
    rows = [face("none", 0.9, 0.8), face("csvar", 0.855, 0.6), face(NOISE, 0.5, 0.7), waiting, lost]
    text = made(script, tmp_path, rows)
    assert "- cifar10, mlp: csvar, augmented failed: it diverged (seeds 0)" in text
    orders, costly, members = ["holds in one seed"] * 2, "not resolved", ["holds in one seed"] * 3
    assert f"| orl_faces:size=64 | shufflenet_v2 | {' | '.join([*orders, costly, *members])} |" in text
    assert "raw queries | none - csvar | 1 | +0.200 [+0.172, +0.228] | 0.0000 |" in text
    assert "than published | csvar - none | 1 | -0.045 [-0.073, -0.017] | -0.0276 |" in text
    assert "CSVAR costs 4.5 [1.7, 7.3] points of accuracy (published: 2.8); noise sigma 50 costs 40.0" in text
    assert "(round 1) has 0.800 by the loss attack, CSVAR minus that -0.200 [-0.228, -0.172]." in text
    assert "| 85.5% (83.5% to 87.5%) | 85.5% (83.5% to 87.5%) | 82.74%, below our interval |" in text
    assert "| clients | `4` | how many clients |" in text
    assert script.ROC.stat().st_size > 1000 < script.ROUNDS.stat().st_size


def test_shadow_attacks_and_controls_have_their_rows(script, tmp_path):
    plain = face("none", 0.9, 0.8, shadowed={"lira, clean": asked(0.95)})
    page = made(script, tmp_path, [plain, face("none", 0.8, 0.6, augment=True), face("csvar", 0.7, 0.6)])
    assert (
        "shadow models among them, seed by seed: none, right on 90.0%: AUC 0.950 [0.930, 0.970] (lira, clean)" in page
    )
    assert "| none | lira | 0.950 (0.930 to 0.970) | 0.100 (0.080 to 0.120) | n/a | n/a |" in page
    alike = "right on 80.0% (CSVAR: 70.0%) and have 0.600 asked with raw images, CSVAR asked alike minus that +0.000"
    assert alike in page
    assert "| none, augmented, stopped early | 1 | 80.0% (78.0% to 82.0%) | 0.600 (0.580 to 0.620) |" in page


def test_nothing_finished_is_a_page_of_choices(script, tmp_path):
    waiting = {"dataset": "cifar10", "model": "mlp", "defense": "none", "augment": False, "seed": 0, "pending": True}
    page = made(script, tmp_path, [waiting])
    assert "Missing of the presets in every table above" in page
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
    assert "- mnist, lenet: none failed: no room (seeds 0)" in page


def test_studies_with_other_settings_stay_apart(script, tmp_path):
    made(script, tmp_path, [face("none", 0.9, 0.8)])
    document = json.loads((tmp_path / "study.json").read_text())
    document["settings"]["rounds"] += 1
    (tmp_path / "study.json").write_text(json.dumps(document))
    script.export([tmp_path])
    assert len(json.loads(script.FILE.read_text())) == 2
    assert "| shufflenet_v2 | none | 1 | 90.0%" in page(script)  # one federation that two studies hold is one seed


def test_an_unfinished_study_hides_nothing_that_another_finished(script, tmp_path):
    made(script, tmp_path, [face("none", 0.9, 0.8)])
    document = json.loads((tmp_path / "study.json").read_text())
    waiting = {name: document["rows"][0][name] for name in ("dataset", "model", "defense", "augment", "seed")}
    document["settings"]["rounds"] += 1
    document["rows"] = [{**waiting, "pending": True}]
    (tmp_path / "study.json").write_text(json.dumps(document))
    script.export([tmp_path])
    assert "- orl_faces:size=64, shufflenet_v2: " not in page(script)


def test_several_seeds_decide(script, tmp_path):
    rows = [face(way, share, 0.8, seed) for way, share in (("none", 0.9), ("csvar", 0.8)) for seed in (0, 1, 2)]
    assert "| not measured yet | not measured yet | **does not hold** |" in made(script, tmp_path, rows)


def test_networks_that_hardly_learned_and_federations_of_other_lengths(script, tmp_path):
    text = made(script, tmp_path, [face("none", 0.1, 0.8), face("csvar", 0.09, 0.6)])
    assert f"| orl_faces:size=64 | shufflenet_v2 | {' | '.join(['hardly learned'] * 6)} |" in text
    with pytest.raises(SystemExit, match="different lengths"):
        made(script, tmp_path, [face("none", 0.9, 0.8), face("csvar", 0.9, 0.8, curve=[0.9])])


def test_what_dp_sgd_promises_stands_beside_what_it_costs(script, tmp_path):
    rows = [face("none", 0.9, 0.8), face("dp_sgd:epsilon=8", 0.7, 0.55, promise="(8, 1e-5) for each image")]
    text = made(script, tmp_path, rows)
    batch = Federations().batch
    found = f"| {batch} | 1 | 70.0% (68.0% to 72.0%) | 0.550 (0.530 to 0.570) | (8, 1e-5) for each image |"
    assert f"| shufflenet_v2, orl_faces:size=64 | dp_sgd:epsilon=8 {found}" in text
    assert text.count("dp_sgd:epsilon=8 |") == 1


def test_what_is_seen_by_semsim_counts_attacks_and_no_baseline(script, tmp_path):
    def part(name, mean):
        return {"part": name, "scores": {"semsim": {"mean": mean, "low": mean - 0.1, "high": mean + 0.1, "images": 9}}}

    parts = [
        part("protected image", 0.9),
        part("C jigsaw", 0.4),
        part("baseline: down-sampled", 0.3),
        part("A thumbnail", 0.7),
    ]
    plan = {
        "dataset": "orl_faces:size=64",
        "images": 99,
        "gallery": 9,
        "train": 9,
        "steps": 9,
        "versions": 2,
        "seed": 0,
    }
    failed = {"plan": plan, "variant": "none", "failed": "it diverged"}
    for mean in (0.5, 0.4):  # what is measured anew takes the place of what was
        parts[1] = part("C jigsaw", mean)
        rows = [failed, {"plan": plan, "variant": "csvar", "accuracy": {}, "parts": parts}]
        (tmp_path / "comparison.json").write_text(json.dumps({"rows": rows}))
        script.export_seen([tmp_path])
    text = made(script, tmp_path, [face("none", 0.9, 0.8)])
    line = "| orl_faces:size=64 | csvar | 0.9 [0.8, 1] | 0.4 [0.3, 0.5] | C jigsaw | 0.3 [0.2, 0.4] | 9 |"
    assert text.count("| orl_faces:size=64 | csvar | 0.9") == 1
    assert line in text
    rows[1] |= {"variant": "none", "plan": plan | {"steps": 10}}
    (tmp_path / "comparison.json").write_text(json.dumps({"rows": rows}))
    with pytest.raises(SystemExit, match="different settings"):
        script.export_seen([tmp_path])


def test_trainings_that_fell_or_did_not_settle_are_named(script, tmp_path):
    fell, rising = {"curve": [0.2, 0.8, 0.9, 0.3]}, {"curve": [0.2, 0.5, 0.7, 0.9]}
    rows = [face("none", 0.9, 0.8, **rising), face("csvar", 0.95, 0.6, **fell), face(NOISE, 0.5, 0.7, curve=[0.5] * 4)]
    text = made(script, tmp_path, rows)
    assert "none, seed 0 still rose at the end, from 70% to 90% of clean test images." in text
    assert "**csvar, seed 0 fell** from 90% to 30% of clean test images at the end." in text
    assert "image_noise:sigma=50, seed 0" not in text
    assert "vanilla training never is as accurate as CSVAR in seed 0" in text
    assert "- orl_faces, shufflenet_v2: 1 of 3 seeds of none, image_noise:sigma=50, csvar; 0 of 3 seeds of" in text
