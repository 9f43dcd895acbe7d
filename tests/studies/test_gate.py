"""The gate opens and closes for the right reasons."""

from __future__ import annotations

import pytest

from glasshouse.errors import SettingError, StudyError
from glasshouse.studies.gate import judge, read_results


def row(defense: str, metric: str, mean: float | None, images: int = 4) -> dict:
    found = {"defense": defense, "attack": "a", "metric": metric, "mean": mean, "images": images, "reason": "why not"}
    return {**found, "low": 0.0, "high": 1.0}


def identified(defense: str, seen: float, told: float) -> dict:
    return {**row(defense, "", seen), "told": {"mean": told, "low": told / 2, "high": 1.0, "images": 4}}


RESULTS = {
    "rows": [
        row("none", "psnr", 30.0),
        row("prune", "psnr", 12.0),
        row("none", "lpips", 0.1),
        row("prune", "lpips", 0.6),
    ],
    "identified": [identified("none", 1.0, 1.0), identified("prune", 0.0, 0.5)],
    "failures": [],
    "pending": 0,
}


@pytest.mark.parametrize(
    ("limits", "recognised", "defense", "passed"),
    [
        ((), "5%", None, False),
        ((), "5%", "prune", True),
        ((), "1.0", None, True),
        (("psnr=31",), None, None, True),
        (("psnr=29",), None, None, False),
        (("lpips=0.05",), None, None, True),
        (("lpips=0.3",), None, None, False),
        (("lpips=0.3", "psnr=15"), "0%", "prune", True),
        (("lpips=0.3", "psnr=10"), None, "prune", False),
    ],
)
def test_limits(limits, recognised, defense, passed):
    answer, line = judge(RESULTS, max_recognised=recognised, limits=limits, defense=defense)
    assert answer is passed
    assert line.startswith("open: " if passed else "closed: ")


@pytest.mark.parametrize(
    ("told", "defense", "confident", "passed"),
    [
        ("5%", None, False, False),
        ("49%", "prune", False, False),
        ("0.5", "prune", False, True),
        ("50%", "prune", True, False),
        ("100%", None, True, True),
    ],
)
def test_what_is_told_apart_has_a_limit_of_its_own(told, defense, confident, passed):
    answer, line = judge(RESULTS, max_told=told, defense=defense, confident=confident)
    assert answer is passed
    assert ("50% of 4 images told apart by machine" if defense else "100% of 4 images told apart by machine") in line
    assert judge(RESULTS, max_recognised="0%", defense="prune")[0]


def test_machine_judgement_is_never_called_human():
    _, line = judge(RESULTS, max_recognised="5%", limits=())
    assert "by machine" in line
    assert "no people were asked" in line


def test_an_identical_image_never_passes_a_psnr_limit():
    results = {**RESULTS, "rows": [row("none", "psnr", None)]}
    assert judge(results, max_recognised=None, limits=("psnr=90",))[0] is False


def test_missing_values_and_unfinished_studies_keep_the_gate_closed():
    missing = {**RESULTS, "rows": [row("none", "lpips", None, images=0)]}
    assert judge(missing, max_recognised=None, limits=("lpips=0.1",)) == (False, "closed: lpips has no value (why not)")
    assert judge({**RESULTS, "pending": 2}, max_recognised="100%", limits=())[0] is False
    assert judge({**RESULTS, "failures": [{}]}, max_recognised="100%", limits=())[0] is False


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_recognised": None, "limits": ()}, "no limit"),
        ({"max_recognised": "many", "limits": ()}, "not a share"),
        ({"max_recognised": "200%", "limits": ()}, "--max-recognised 200% is not a share"),
        ({"max_told": "-1%"}, "--max-told -1% is not a share"),
        ({"max_recognised": None, "limits": ("psnr=much",)}, "METRIC=VALUE"),
        ({"max_recognised": None, "limits": ("psnr",)}, "METRIC=VALUE"),
        ({"max_recognised": None, "limits": ("mse=1",)}, "no metric 'mse'"),
        ({"max_recognised": "5%", "limits": (), "defense": "soteria"}, "no rows for defense 'soteria'"),
    ],
)
def test_bad_limits(settings, message):
    with pytest.raises(SettingError, match=message):
        judge(RESULTS, **settings)


@pytest.mark.parametrize("text", [None, "{", "[]", "{}"])
def test_unreadable_results(tmp_path, text):
    if text is not None:
        (tmp_path / "audit.json").write_text(text)
    with pytest.raises(StudyError, match="run"):
        read_results(tmp_path)


def test_few_images_prove_little():
    answer, line = judge(RESULTS, max_recognised="5%", limits=(), defense="prune", confident=True)
    assert answer is False
    assert "95 % interval 0% to 100%" in line
