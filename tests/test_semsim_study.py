"""The page of the study behind SemSim says whose judgements it rests on, how many models, and what is missing."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

FIGURES = ("rho", "tau", "auc_within_original", "auc_within_model")


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "docs"))
    return importlib.import_module("semsim_study_page")


def outcome(left_out, models=None, *, axis="data set", testers="classifier: inception_v3 lineup 4"):
    """One test of an evaluation as the study keeps it; without models there was none."""
    metric = {f"{name}{end}": 0.5 for name in FIGURES for end in ("", "_low", "_high")} | {"resolved_accuracy": None}
    found = {"metrics": {"psnr": metric, "semsim": metric}, "models": models, "images": 96, "resolved_pairs": 3}
    found |= {"ceiling": 0.25, "ahead": {"psnr": {"tau": 0.1, "tau_low": -0.1, "tau_high": 0.3}}}
    facts = {
        "axis": axis,
        "left_out": left_out,
        "trained_originals": 9,
        "unlearned_models": 2,
        "tested_originals": 24,
        "trained_guesses": 90,
        "missing": {"fid": "few"},
    }
    return facts | {
        "teachers": "classifier: alexnet lineup 4",
        "testers": testers,
        "failed": None if models else "one-sided",
        "correlation": found | {"pairs": 6, "difficulty_auc_within_model": None} if models else None,
    }


def tried(margin, tau):
    row = {"panel": "margin", "value": str(margin), "originals": 9, "failed": None}
    row |= {"left_out": "cifar100", "testers": "classifier: two"}
    return row | {
        f"{name}{end}": tau for name in ("rho", "tau", "auc_within_original") for end in ("", "_low", "_high")
    }


def study(*tests, left=3, right=(0.01, 0.05, 0.09)):
    target = {"dataset": "cifar100", "attacks": ["invgrad"], "models": ["resnet20"], "classes": 100, "networks": 14}
    seen = {"dataset": "cifar100", "attacks": ["invgrad"], "judges": "classifier: two", "originals": 8, "images": 90}
    return {
        "targets": [target | {"checkpoints": [10, 15], "right": list(right), "done": 5, "failed": 0, "left": left}],
        "recognised": [seen | {"share": 0.1, "low": 0.05, "high": 0.2}],
        "tests": list(tests),
        "ablation": [],
    }


def test_what_is_missing_is_said(pages):
    page = pages.page(study(outcome("cifar100", 12), outcome("orl_faces"), outcome("dlg", 60, axis="attack")))
    missing = page.partition("## Not there yet")[2].partition("##")[0]
    absent = (
        "table 1: orl_faces",
        "table 2: cafe",
        "fewer stand behind cifar100",
        "figures 7 and 9",
        "votes of people",
    )
    for name in absent:
        assert name in missing
    assert "on cifar100" not in missing  # what waits is behind networks that had not learned
    assert "table 1: cifar100" not in missing
    assert "table 2: dlg" not in missing
    assert "12 model points (**fewer than 56**)" in page
    assert "60 model points, 96" in page
    assert "No test: one-sided" in page


def test_the_answer_comes_first(pages):
    surely, maybe = outcome("cifar100", 60), outcome("dlg", 20, axis="attack")
    surely["correlation"]["ahead"] = {
        "psnr": {"tau": 0.1, "tau_low": 0.05, "tau_high": 0.2},
        "lpips": {"tau": 0.3, "tau_low": -0.1, "tau_high": 0.5},
    }
    maybe["correlation"] |= {"kappa": 0.1, "kappa_low": -0.1, "kappa_high": 0.3, "difficulty_auc_within_model": 0.6}
    page = pages.page(study(surely, maybe))
    assert page.index("## In short") < page.index("## Not there yet") < page.index("## Table 1")
    assert "Not counted: cifar100, dlg, whose judges may agree by chance, or recognised too little" in page
    assert "| **10%** | one judge | 24 | 60 |" in page
    assert "| n/a | **0.100 [-0.100, 0.300]** | 24 | 20 |" in page
    found = study(surely, maybe)
    found["recognised"][0]["share"] = 0.5
    page = pages.page(found)
    assert "the largest tau in 1 of 1 tests (cifar100)" in page
    assert "beyond its interval in cifar100, that over LPIPS in none." in page
    assert "Not counted: dlg, whose judges may agree by chance" in page
    maybe["correlation"] |= {"kappa_low": 0.05}
    assert "how hard each original is by itself in dlg:" in pages.page(found)


def test_variants_that_were_not_tried_are_named(pages):
    page = pages.page(study(outcome("cifar100", 60)) | {"ablation": [tried(1, -0.1)]})
    assert "- figures 7 and 9: 0, 50, 100, 200, 400, 800, lenet" in page


def test_targets_and_shares_are_held_against_what_was_asked(pages):
    page = pages.page(study())
    assert (
        "| 10, 15 | 1.0%, 5.0%, 9.0% | 1.0% | 2 of 3 | 5 of 8 |" in page
    )  # two are right five times as often as chance
    assert "| 0.100 [0.050, 0.200] | **no** |" in page


def test_classifiers_are_never_called_people_and_the_papers_figures_stand_beside(pages):
    page = pages.page(study(outcome("cifar100", 56)))
    assert "**No person judged here**" in page
    assert "human" not in page
    assert "| semsim | 0.500 [0.500, 0.500] |" in page
    assert ".864/.714" in page
    assert "No person" not in pages.page(study(outcome("cifar100", 56, testers="human: 5 people")))


def test_parts_of_the_study_add_up(pages):
    merged = importlib.import_module("generate_semsim_study").merged
    first = study(outcome("cifar100"), outcome("orl_faces", 60)) | {"ablation": [tried(1, -0.1), tried(2, -0.2)]}
    second = study(outcome("cifar100", 60), outcome("dlg", 60, axis="attack"), left=0) | {"ablation": [tried(1, -0.3)]}
    for row in (*second["targets"], *second["recognised"]):
        row["attacks"] = ["invgrad:steps=800"]  # settings were changed since
    whole = merged(merged({}, first), second)
    assert [test["left_out"] for test in whole["tests"] if test["correlation"]] == ["cifar100", "orl_faces", "dlg"]
    assert [row["left"] for row in whole["targets"]] == [0]  # done since, in the place of the older row
    assert len(whole["recognised"]) == 1
    assert [row["tau"] for row in whole["ablation"]] == [-0.3, -0.2]
    assert "| margin | 2 | 9 | -0.200 [-0.200, -0.200] |" in pages.page(whole)
    others = study() | {"ablation": [tried(1, -0.4) | {"testers": "classifier: three"}]}
    assert [row["tau"] for row in merged(whole, others)["ablation"]] == [-0.4]  # other judges do not compare


def test_pilots_stand_in_the_order_of_their_steps(pages):
    rows = [
        {"dataset": "cifar100:split=train", "model": "resnet20", "attack": f"invgrad:steps={steps}", "originals": 21}
        | {"judges": "classifier: two", "share": share}
        for steps, share in ((100, 0.5), (50, 0.126))
    ]
    assert "Pilots" not in pages.page(study(outcome("cifar100", 60)))
    page = pages.page(study(outcome("cifar100", 60)) | {"pilots": rows})
    assert page.index("steps=50` | 21 | 13% |") < page.index("steps=100` | 21 | 50% |")


def test_judges_that_agree_on_nothing_or_tell_nothing_apart_are_called_so(pages):
    test = outcome("cifar100", 60)
    test["correlation"] |= {"kappa": -0.2, "kappa_low": -0.3, "kappa_high": -0.1, "trainings": 28}
    page = pages.page(study(test))
    assert "28 trainings stand behind" in page
    assert "kappa of the judges -0.200 [-0.300, -0.100]. **They do not agree" in page
    assert "no two models" not in page
    test["correlation"] |= {"kappa_low": 0.1, "resolved_pairs": 0}
    page = pages.page(study(test))
    assert "**They tell no two models apart.**" in page
    assert "do not agree" not in page


def test_what_judges_said_before_they_were_changed_stays(pages):
    first = study(outcome("cifar100", 60, testers="classifier: old"))
    page = pages.page(study(outcome("cifar100", 60)) | {"before": first})
    told = page.partition("## The judges were changed")[2]
    assert "given by classifier: old" in told
    assert "| cifar100 | 10.0% | psnr | 0.500 [0.500, 0.500] | 0.500 [0.500, 0.500] |" in told
