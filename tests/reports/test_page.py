"""The report stands alone, says what was found, and never calls a machine's judgement human."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser

import pytest

from glasshouse.errors import StudyError
from glasshouse.reports import write_report
from glasshouse.reports.page import render
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.plan import Plan


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "study"
    plan = Plan(
        dataset="photos:size=16",
        images=2,
        model="resnet20:width=4",
        attacks=("invgrad:steps=3",),
        defenses=("none", "prune:percent=90"),
        metrics=("mse", "psnr", "ssim", "fid"),
    )
    result, _ = audit_plan(plan, out, Running())
    write_report(result)
    return out


class Reader(HTMLParser):
    """Collects tags, and what they refer to, and checks that every tag is closed."""

    VOID = frozenset({"meta", "img", "input", "br", "path", "use"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.alts: list[str | None] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.sources += [found[name] for name in ("src", "href") if found.get(name)]
        if tag == "img":
            self.alts.append(found.get("alt"))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_one_file_that_stands_alone(study):
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    reader = read(page)
    assert all(source.startswith(("data:image/png;base64,", "#", "../images/")) for source in reader.sources)
    assert all((study / "report" / source).is_file() for source in reader.sources if source.startswith(".."))
    assert "url(http" not in page
    assert reader.alts
    assert all(reader.alts)
    inlined = [base64.b64decode(source.partition(",")[2]) for source in reader.sources if source.startswith("data:")]
    for one in json.loads((study / "audit.json").read_text())["per_image"]:
        assert (study / one["guess"]).read_bytes() in inlined
        assert (study / one["truth"]).read_bytes() in inlined


def test_says_what_people_need(study):
    text = " ".join(" ".join(read(render(study)).text).split())
    for part in (
        "no people were asked",
        "fixed settings",
        "batch norm in train mode (what clients send)",
        "batch norm in eval mode",
        "running statistics known",
        "prune:percent=90",
        "acts on shared gradient",
        "FID is not defined under 50 images",
        "astronaut",
        "None: every case was finished",
        "95 %",
    ):
        assert part in text, part
    assert re.search(r"torch 2\.\d+", text)


def test_light_dark_and_print(study):
    page = render(study)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert "currentColor" in page


def test_nothing_is_wider_than_the_screen(study, browser):
    """A long SPEC has no place to break, and a table is wider than a telephone: both must stay in their boxes."""
    page = browser.new_page()
    page.goto((study / "report" / "index.html").as_uri())
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        ends = "[...document.querySelectorAll('.gallery img')].map(one => one.getBoundingClientRect().right)"
        assert max(page.evaluate(ends)) <= width
    page.close()


def test_names_are_escaped(study, tmp_path):
    found = json.loads((study / "audit.json").read_text())
    for image in found["images"]:
        image["class_name"] = "<script>alert(1)</script>"
    found["settings"]["model"] = "<b>model</b>"
    (tmp_path / "audit.json").write_text(json.dumps(found))
    (tmp_path / "images").symlink_to(study / "images")
    page = render(tmp_path)
    assert "<script>alert" not in page
    assert "<b>model</b>" not in page


def test_failures_and_pending_are_shown(study, tmp_path):
    found = json.loads((study / "audit.json").read_text())
    setup = {key: found["rows"][0][key] for key in ("defense", "attack", "model", "dataset", "seed", "threat")}
    found["failures"] = [{**setup, "images": [1], "reason": "it was too hard"}]
    found["pending"] = 3
    found["skipped"] = ["cat/bad.png: is empty"]
    found["left_out"] = ["idlg: it needs a smooth network"]
    for row in found["rows"]:
        row["attack_spec"] = "invgrad:steps=3,tv=0.123"
        row["threat"]["tuning"] = "tuned"
    (tmp_path / "audit.json").write_text(json.dumps(found))
    (tmp_path / "images").symlink_to(study / "images")
    page = render(tmp_path)
    assert "it was too hard" in page
    assert "3 cases are still pending" in page
    assert "cat/bad.png: is empty" in page
    assert "Left out, because they cannot work here" in page
    assert "<li>idlg: it needs a smooth network</li>" in page
    assert '<small class="reason">invgrad:steps=3,tv=0.123</small>' in page  # what tuning chose


def test_a_directory_without_results_is_refused(tmp_path):
    with pytest.raises(StudyError, match="holds no audit"):
        write_report(tmp_path)


@pytest.mark.parametrize("file", ["/etc/hostname", "../secret.png", "images/../../secret.png", "images/secret.txt"])
def test_no_file_but_a_study_picture_is_ever_embedded(study, tmp_path, file):
    found = json.loads((study / "audit.json").read_text())
    for one in found["per_image"]:
        one["guess"] = file
    (tmp_path / "audit.json").write_text(json.dumps(found))
    (tmp_path / "images").symlink_to(study / "images")
    with pytest.raises(StudyError, match="no picture of a study"):
        render(tmp_path)
