"""The page of a grid study stands alone, sorts, slides, and advises no more than its numbers carry."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.small_grid import SMALL

from glasshouse.reports.grid import write_grid_report
from glasshouse.reports.grid_advice import advice, headline
from glasshouse.reports.grid_figures import front
from glasshouse.reports.grid_view import agreement, leaderboard
from glasshouse.studies.audit import Running
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.grid.results import read_results


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    grid = replace(SMALL, title="a <b> study", defenses=("none", "prune:percent=90"), metrics=("mse", "psnr", "ssim"))
    folder = tmp_path_factory.mktemp("grid") / "study"
    carry_out(grid, folder, Running())
    return folder


def test_the_page_stands_alone_and_escapes(directory):
    page = write_grid_report(directory).read_text(encoding="utf-8")
    assert "a &lt;b&gt; study" in page
    assert "a <b> study" not in page
    assert re.findall(r'(?:src|href)="(?!data:image/png|#|\.\./images/[0-9a-f]{24}\.png")', page) == []
    assert page.count('type="range"') == 16  # eight are most recognisable, and all eight hang in the gallery
    assert page.count("<svg") == 1
    assert len(page) < 1_000_000


def test_people_sort_and_slide_by_mouse_and_by_keyboard(directory, browser):
    page, faults = browser.new_page(), []
    page.on("pageerror", lambda fault: faults.append(fault))  # it marks what it is given
    page.goto(write_grid_report(directory).as_uri())
    table = page.locator("table").filter(has=page.get_by_role("button", name="MSE"))
    head = table.locator("th").filter(has=page.get_by_role("button", name="MSE"))

    def values() -> list[float]:
        place = head.evaluate("one => one.cellIndex")
        return [float(cell) for cell in table.locator(f"tbody tr > :nth-child({place + 1})").evaluate_all(
            "cells => cells.map(one => one.dataset.order)"
        )]  # fmt: skip

    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    page.keyboard.press("Enter")  # the button that was pressed has the focus
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())
    slider = page.get_by_role("slider").first
    over = slider.locator("xpath=..").locator("img").last
    before = over.evaluate("one => one.style.clipPath")
    slider.focus()
    page.keyboard.press("End")
    assert over.evaluate("one => one.style.clipPath") != before
    assert "100%" in over.evaluate("one => one.style.clipPath")
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert faults == []


def test_the_leaderboard_has_every_setup_once_the_worst_first(directory):
    found = leaderboard(read_results(directory))
    assert found.heads == ("network", "defense")
    assert "model lenet:width=4" in found.same
    assert len(found.places) == len({place.names for place in found.places}) == 4
    assert found.measures == ("accuracy", "seen", "told apart")
    orders = [place.values[1].order for place in found.places]
    assert orders == sorted(orders, reverse=True)
    assert all(len(place.values) == 6 for place in found.places)


def test_metrics_that_are_functions_of_one_another_agree():
    threat = {"round": "r", "batchnorm": "eval", "batch": 1, "labels": "given"}
    setup = {"dataset": "d", "model": "m", "attack": "a", "threat": threat}
    errors = {"w": 0.1, "x": 0.2, "y": 0.3, "z": 0.4}
    rows = [{**setup, "defense": name, "metric": "mse", "mean": error} for name, error in errors.items()]
    rows += [{**setup, "defense": name, "metric": "psnr", "mean": 9 - error} for name, error in errors.items()]
    found = agreement({"rows": rows, "settings": {"metrics": ["mse", "psnr"]}})
    assert [values for _, values in found] == [["1.00", "1.00"], ["1.00", "1.00"]]


def seen(defense, mean, low, high, accuracy):
    network = {"dataset": "d", "model": "m", "recipe": "none", "training_seed": 0, "epoch": 1}
    return {**network, "defense": defense, "attack": "a", "mean": mean, "low": low, "high": high} | {
        "images": 50,
        "accuracy": accuracy,
        "told": {"mean": mean, "low": low, "high": high, "images": 50},
        "threat": {"tuning": "tuned", "batchnorm": "none"},
    }


def told(*found, paired=True):
    """What is advised of a study whose attacks saw so much."""
    every = list(dict.fromkeys(one["defense"] for one in found))
    settings = {"paired": paired, "recipes": every, "defenses": every}
    parts = advice({"identified": list(found), "rows": [], "targets": [], "settings": settings})
    return [f"{part.title}: {sentence}" for part in parts for sentence in part.sentences]


def test_advice_credits_a_defense_only_where_the_intervals_are_apart():
    bare = seen("none", 0.8, 0.7, 0.9, 0.6)
    text = " ".join(told(bare, seen("csvar", 0.1, 0.0, 0.2, 0.4), seen("prune", 0.7, 0.6, 0.8, 0.6)))
    assert "Do not share undefended" in text
    assert "csvar leaves most accuracy (40%)" in text
    assert "too few images to tell whether these helped: prune" in text
    assert "Not judged" not in text
    assert "80% of 50" in headline({"identified": [bare], "rows": []})


def test_what_a_machine_tells_apart_is_said_where_nothing_is_seen():
    bare = seen("none", 0.0, 0.0, 0.07, 0.6)
    first, *others = told(bare)
    assert "nothing could be seen: 0% (95 % interval 0% to 7%, 50 images)" in first
    assert others == []
    clear = {**bare, "attack": "b", "told": {"mean": 0.5, "low": 0.36, "high": 0.64, "images": 50}}
    assert "Yet 50% (95 % interval 36% to 64%, 50 images) of these reconstructions point" in told(bare, clear)[1]


def test_accuracies_of_trained_networks_are_compared():
    """What a fresh network shows counts; how right it is does not."""
    fresh = [{**seen(name, 0.0, 0.0, 0.1, 0.1), "epoch": 0} for name in ("none", "strong", "weak")]
    trained = [seen("none", 0.8, 0.7, 0.9, 0.9), seen("strong", 0.0, 0.0, 0.1, 0.85), seen("weak", 0.1, 0.0, 0.2, 0.6)]
    assert "strong leaves most accuracy (85%)" in told(*fresh, *trained)[1]


def test_where_defenses_share_networks_accuracy_tells_nothing_of_them():
    found = [seen("none", 0.8, 0.7, 0.9, 0.6), seen("csvar", 0.1, 0.0, 0.2, 0.6), seen("prune", 0.0, 0.0, 0.1, 0.05)]
    (text,) = told(*found, paired=False)[1:]
    assert "(csvar, prune), prune hid most; 0%" in text
    assert "accuracy" not in text


def test_the_caveat_stays_where_the_tuned_and_the_fixed_saw_as_much():
    bare, hidden = seen("none", 0.8, 0.7, 0.9, 0.6), seen("csvar", 0.0, 0.0, 0.1, 0.4)
    tuned = [{**bare, "attack": "b"}, {**hidden, "attack": "b"}]
    fixed = {**hidden, "threat": {**hidden["threat"], "tuning": "fixed settings"}}
    assert "fixed settings" not in told(bare, hidden, *tuned)[1]
    assert "only from attacks at fixed settings" in told(bare, fixed, *tuned)[1]
    assert "only from attacks at fixed settings" in told(*tuned, bare, fixed)[1]


@pytest.mark.parametrize("other", [{"training_seed": 1}, {"epoch": 2}, {"recipe": "crop"}])
def test_a_defense_that_was_attacked_on_fewer_networks_is_not_credited(other):
    bare, hidden = seen("none", 0.8, 0.7, 0.9, 0.6), seen("csvar", 0.1, 0.0, 0.2, 0.4)
    paired = "recipe" not in other
    first, second = told(bare, {**bare, **other}, hidden, paired=paired)
    assert "no defense can be" not in first
    assert second == "d: Not judged, because no attack fits, or one failed or is still to come: csvar."
    assert (
        "than chance explains (csvar)" in told(bare, {**bare, **other}, hidden, {**hidden, **other}, paired=paired)[1]
    )


def test_a_defense_of_which_an_attack_finished_some_images_is_not_credited():
    bare, hidden = seen("none", 0.8, 0.7, 0.9, 0.6), seen("csvar", 0.1, 0.0, 0.2, 0.4)
    assert told(bare, {**hidden, "images": 49})[-1].endswith("still to come: csvar.")


def test_models_are_advised_on_apart():
    """What leaves most accuracy on one model may be compared with others on the same model only."""
    found = [seen("none", 0.8, 0.7, 0.9, 0.6), seen("csvar", 0.1, 0.0, 0.2, 0.6), seen("prune", 0.0, 0.0, 0.2, 0.5)]
    other = [{**one, "model": "n", "accuracy": value} for one, value in zip(found, (0.4, 0.35, 0.2), strict=True)]
    text = told(*found, *other)
    assert [sentence.partition(":")[0] for sentence in text] == ["d, m", "d, m", "d, n", "d, n"]
    assert "csvar leaves most accuracy (60%)" in text[1]
    assert "csvar leaves most accuracy (35%)" in text[3]


def test_of_setups_in_which_as_much_was_seen_the_worst_is_named():
    first, second = ({**seen("none", 1.0, 0.9, 1.0, 0.6), "attack": name} for name in ("rough:steps=2", "exact"))
    rows = [{**first, "metric": "psnr", "mean": 20.0}, {**second, "metric": "psnr", "mean": None}]
    assert headline({"identified": [first, second], "rows": rows}).endswith("d, m, defense none, by exact.")
    assert headline({"identified": [first, second], "rows": rows[:1]}).endswith("defense none, by rough.")


def test_advice_says_when_nothing_can_be_said():
    assert "no defense can be credited" in told(seen("csvar", 0.1, 0.0, 0.2, 0.4))[0]
    assert "Try stronger attacks" in told(seen("none", 0.0, 0.0, 0.1, 0.4))[0]
    assert headline({"identified": []}) == "Nothing was finished yet, so nothing can be said."


def test_the_front_holds_what_nothing_beats_in_both():
    assert front([(0.9, 0.8), (0.5, 0.1), (0.6, 0.9), (0.7, 0.3), (0.4, 0.1)]) == [(0.5, 0.1), (0.7, 0.3), (0.9, 0.8)]
