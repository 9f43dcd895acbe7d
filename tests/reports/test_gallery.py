"""Pages show every reconstruction, what people said of it and how CSVAR cuts it, and let all of it be taken along."""

from __future__ import annotations

import csv
import io
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image
from tests.small_grid import SMALL

from glasshouse.reports import gallery as room
from glasshouse.reports import walls, write_report
from glasshouse.reports.grid import write_grid_report
from glasshouse.reports.grid_view import leaderboard
from glasshouse.store import DATABASE_FILE, Location, Vote, Votes
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.grid.lines import lines
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.grid.results import read_results
from glasshouse.studies.plan import Plan
from glasshouse.votes.bundle import Voter, enrol
from glasshouse.votes.items import Questions, prepare

QUICK = Plan(
    dataset="photos:size=16",
    images=1,
    model="lenet:width=4",
    attacks=("invgrad:steps=1",),
    metrics=("mse",),
    defenses=("none",),
)
DEFENSES = ("none", "csvar", "prune:percent=90", "gaussian:sigma=0.1")


def vote(directory):
    """Three people see what is undefended, and one of them what is not."""
    votes = Votes(directory / DATABASE_FILE)
    prepare(directory, votes, Questions())
    people = enrol(votes, [Voter(name, "human") for name in ("Ada", "Ben", "Cy")])
    cast = []
    for item in votes.items():
        wrong = next(answer for answer in item.answers if answer != item.truth)
        for number, person in enumerate(people.values()):
            hidden = any(defense in item.condition for defense in DEFENSES[1:])
            seen = number == 0 or not hidden
            cast.append(Vote(item.id, person, item.truth if seen else wrong))
    votes.record(cast)
    votes.close()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery") / "study"
    carry_out(replace(SMALL, images=4, defenses=DEFENSES), folder, Running())
    vote(folder)
    return folder


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voted") / "audit"
    plan = replace(QUICK, images=3, metrics=("mse", "psnr"), defenses=("none", "csvar"))
    audit_plan(plan, folder, Running())
    vote(folder)
    return folder


def test_a_network_that_learned_nothing_was_trained_with_nothing(study):
    line = lines(study)[0]
    assert line.batchnorm == "none"
    fresh, taught = (room.note(replace(line, epoch=epoch)) for epoch in (0, 3))
    assert "before training, seed 0, behind" in fresh
    assert f"trained with {line.recipe}, seed 0, 3 epochs, behind" in taught
    assert "batch norm" not in fresh


@pytest.fixture(scope="module")
def report(study):
    return write_grid_report(study)


@pytest.fixture
def page(report, browser):
    opened, faults = browser.new_page(), []
    opened.on("pageerror", lambda fault: faults.append(fault))
    opened.goto(report.as_uri())
    yield opened
    opened.close()
    assert faults == []


def test_the_gallery_shows_what_is_chosen_by_keyboard_too(page):
    figures = page.locator("#every figure")
    assert (figures.count(), figures.locator("visible=true").count()) == (32, 24)
    page.get_by_role("button", name="Show more").focus()
    page.keyboard.press("Enter")
    assert figures.locator("visible=true").count() == 32
    assert not page.get_by_role("button", name="Show more").is_visible()
    page.get_by_label("defense").select_option("csvar")
    assert figures.locator("visible=true").count() == 8
    assert page.get_by_role("status").inner_text() == "8 of 8 reconstructions"
    assert all("behind csvar" in text for text in figures.locator("visible=true").locator("small").all_inner_texts())
    links = figures.locator("visible=true").locator("a").evaluate_all("all => all.map(one => one.href)")
    assert all(Path(urlsplit(link).path).is_file() for link in links)


def test_a_screen_reader_tells_sliders_apart(page):
    sliders = page.locator("#every input")
    assert len(set(sliders.evaluate_all("all => all.map(one => one.ariaLabel)"))) == 32
    sliders.first.focus()
    page.keyboard.press("End")
    assert sliders.first.get_attribute("aria-valuetext") == "100 % of the private image"
    page.get_by_role("button", name="Show more").press("Enter")
    assert page.evaluate("document.activeElement.type") == "range"  # the first of those that came


def test_the_original_lies_under_its_reconstruction(page):
    """A style variable holds each original once, whatever the number of its reconstructions."""
    under = page.locator("#every .slide").evaluate_all("all => all.map(one => getComputedStyle(one).backgroundImage)")
    assert len(set(under)) == 4
    assert all(one.startswith('url("data:image/') for one in under)


def test_what_was_only_trained_has_a_page_too(tmp_path):
    """No image was attacked yet, so that there is none to show a shuffle of."""
    carry_out(replace(SMALL, defenses=("none", "csvar")), tmp_path, Running(minutes=0))
    page = write_grid_report(tmp_path).read_text(encoding="utf-8")
    assert "Nothing was finished yet" in page
    assert "heat maps" not in page


def test_every_data_set_hangs_there_and_one_image_with_too_many_guesses(study, monkeypatch):
    first = lines(study)
    second = [replace(line, dataset="other", image=line.image + 4) for line in first]
    monkeypatch.setattr(room, "MOST", 33)
    found = room.gallery(study, Location.of(study).album, [*first, *second])
    assert len(found.exhibits) == 32
    assert found.choices["dataset"] == ("digits:size=16", "other")
    monkeypatch.setattr(room, "MOST", 5)
    assert len(room.gallery(study, Location.of(study).album, first).exhibits) == 5


def test_a_lost_picture_costs_no_other(study, tmp_path):
    shutil.copytree(study, tmp_path / "copy")
    lost = lines(study)[0]
    (tmp_path / "copy" / lost.guess).unlink()
    found = room.gallery(tmp_path / "copy", Location.of(tmp_path / "copy").album, lines(study))
    assert [one.guess == "" for one in found.exhibits].count(True) == 1


def test_too_many_reconstructions_are_those_of_the_first_images(study, monkeypatch):
    monkeypatch.setattr(room, "MOST", 17)
    found = room.gallery(study, Location.of(study).album, lines(study))
    assert (len(found.exhibits), len(found.truths), found.left_out) == (16, 2, 16)
    assert set(found.choices) == {"recipe", "epoch", "defense"}


def test_people_stand_beside_the_machine(study, audit):
    grid = write_grid_report(study).read_text(encoding="utf-8")
    found = leaderboard(read_results(study), lines(study))
    people = {place.names[-1]: place.values[found.measures.index("recognised by people")] for place in found.places}
    assert {name: one.cell.text for name, one in people.items()} == {
        "none": "100% of 4",
        "csvar": "0% of 4",
        "prune:percent=90": "0% of 4",
        "gaussian:sigma=0.1": "0% of 4",
    }
    assert "100% of 4" in grid
    assert "recognised by 3 of 3 people" in grid
    assert "recognised by 1 of 3 people" in grid
    assert "No person was asked" not in grid
    page = write_report(audit).read_text(encoding="utf-8")
    assert "recognised by people" in page
    assert ">3 of 3</td>" in page
    assert ">0 of 3</td>" in page
    assert "no people were asked" not in page


def test_csvar_is_shown_where_it_defends(study, audit, tmp_path):
    for page in (write_grid_report(study), write_report(audit)):
        assert "heat maps of their variance" in page.read_text(encoding="utf-8")
    audit_plan(QUICK, tmp_path, Running())
    assert "heat maps" not in write_report(tmp_path).read_text(encoding="utf-8")


def test_images_behind_the_first_are_smaller_and_counted(audit, monkeypatch):
    monkeypatch.setattr(walls, "FIRST", 1)
    page = write_report(audit).read_text(encoding="utf-8")
    assert "<summary>2 more images</summary>" in page
    monkeypatch.setattr(walls, "PICTURES", 6)  # two images, each with what became of it behind two defenses
    page = write_report(audit).read_text(encoding="utf-8")
    assert "<summary>1 more images</summary>" in page
    assert "1 more images are not shown here" in page


def saved(page, name: str, place: int = 0) -> bytes:
    with page.expect_download() as download:
        page.get_by_role("button", name=name).nth(place).press("Enter")
    return download.value.path().read_bytes()


def test_tables_are_taken_along_as_csv(page, study):
    table = list(csv.reader(io.StringIO(saved(page, "Save “Leaderboard” as CSV").decode("utf-8-sig"))))
    assert table[0][2:6] == ["accuracy", "accuracy: interval or note", "seen", "seen: interval or note"]
    assert len(table) == 1 + 8
    assert {row[1] for row in table[1:]} == set(DEFENSES)


#: What a cell says, and what is written where a spreadsheet would take it for a formula.
CELLS = {
    "=HYPERLINK(1)": "'=HYPERLINK(1)",
    "-2+3+cmd|' /C calc'!A0": "'-2+3+cmd|' /C calc'!A0",
    "-.5+HYPERLINK(1)": "'-.5+HYPERLINK(1)",
    "\uff1d1+1": "'\uff1d1+1",
    "@SUM(1)": "'@SUM(1)",
    "-0.5": "-0.5",
    "-1.5e-3 to 2": "-1.5e-3 to 2",
    "+3 %": "+3 %",
    'a "b", c': 'a "b", c',
}


def test_no_spreadsheet_takes_a_name_for_a_formula(page):
    cell = page.locator("#leaderboard tbody td").first
    for text, written in CELLS.items():
        cell.evaluate("(one, text) => { one.textContent = text; }", text)
        table = list(csv.reader(io.StringIO(saved(page, "Save “Leaderboard” as CSV").decode("utf-8-sig"))))
        assert table[1][0] == written


def test_figures_are_taken_along_as_svg_and_png(page):
    drawn = saved(page, "Save “Accuracy beside leakage” as SVG").decode()
    assert 'xmlns="http://www.w3.org/2000/svg"' in drawn
    assert "accuracy of the network" in drawn
    picture = Image.open(io.BytesIO(saved(page, "Save “Accuracy beside leakage” as PNG"))).convert("L")
    assert picture.width > 600
    dark, bright = picture.getextrema()
    assert (dark < 100, bright) == (True, 255)  # ink on white paper
    heat = Image.open(io.BytesIO(saved(page, "Save “What CSVAR does to these images” as PNG")))
    assert heat.format == "PNG"
