"""The words and numbers of the report."""

from __future__ import annotations

import pytest

from glasshouse.reports import figures, view


def seen(
    defense: str, which: list[int], attack: str = "a", low: float = 0.0, high: float = 1.0, tuning: str = "tuned"
) -> dict:
    share = {"images": 3, "mean": len(which) / 3, "low": low, "high": high}
    return {"defense": defense, "attack": attack, "which": which, **share, "threat": {"tuning": tuning}}


@pytest.mark.parametrize(
    ("identified", "expected"),
    [
        ([], "Nothing was finished"),
        ([seen("prune", [0])], "not attacked"),
        ([seen("none", [])], "saw nothing, even undefended"),
        ([seen("none", []), seen("prune", [1])], "saw little, with or without"),
        ([seen("none", [0]), seen("prune", [])], "too few images to tell whether prune helped"),
        ([seen("none", [0], low=0.5), seen("prune", [], high=0.4)], "prune hid more of them than chance explains."),
        (
            [seen("none", [0], low=0.5), seen("prune", [], high=0.4, tuning="fixed settings")],
            "than chance explains, but only from attacks at fixed settings: tune them",
        ),
        ([seen("none", [0]), seen("prune", [1])], "Behind prune no fewer could be seen"),
        ([seen("none", [0]), seen("prune", []), seen("prune", [0], "b")], "Behind prune no fewer could be seen"),
    ],
)
def test_verdicts(identified, expected):
    head, lines = view.verdict({"identified": identified})
    assert expected in head
    assert len(lines) == len({one["defense"] for one in identified})


def test_the_worst_attack_counts():
    _, lines = view.verdict({"identified": [seen("none", [0], "weak"), seen("none", [0, 1], "strong")]})
    assert "2 of 3 images could be seen (worst attack: strong" in lines[0]


def test_cells():
    row = {"images": 3, "mean": 12.345, "low": 11.0, "high": 13.0, "reason": None}
    assert view.cell(row) == view.Cell("12.3", "11.0 to 13.0")
    assert view.cell({**row, "mean": None}).text == "identical"
    assert view.cell({**row, "mean": None, "reason": "1 of 3 identical, the others 20"}).text.startswith("1 of 3")
    assert view.cell({**row, "low": None}) == view.Cell("12.3", reason="one value for the whole set")
    assert view.cell({**row, "low": None, "images": 1}) == view.Cell("12.3", reason="one image: no interval")
    assert view.with_interval(row, ".0f") == "12 [11, 13]"
    assert view.with_interval({**row, "low": None, "high": None}, ".0f") == "12"
    assert view.cell({**row, "images": 0, "reason": "why"}) == view.Cell("n/a", reason="why")
    assert view.cell(None).text == "n/a"
    assert [view.short(value) for value in (0.00012, 0.5, 31.26)] == ["0.00012", "0.500", "31.3"]


def test_worst_image_prefers_the_perceptual_metric():
    rows = [
        {"metric": "psnr", "value": 40.0, "image": 0},
        {"metric": "lpips", "value": 0.3, "image": 1},
        {"metric": "lpips", "value": 0.1, "image": 2},
    ]
    assert view.worst_image({"per_image": rows})["image"] == 2
    assert view.worst_image({"per_image": rows[:1]})["image"] == 0
    assert view.worst_image({"per_image": [*rows[:1], {"metric": "psnr", "value": None, "image": 5}]})["image"] == 5
    assert view.worst_image({"per_image": []}) is None


def test_no_scatter_without_two_metrics():
    assert figures.scatter({"settings": {"metrics": ["mse"]}, "per_image": [], "floor": []}) == ""
    assert figures.scatter({"settings": {"metrics": ["mse", "psnr"]}, "per_image": [], "floor": []}) == ""
