"""The page of a protected set's audit: alone, complete, escaped, and honest about what is not defined."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from glasshouse.errors import StudyError
from glasshouse.reports.protected import cells, number, worst, write_protected_report
from glasshouse.store import Album
from glasshouse.studies.pictures import opaque_name, save_picture
from glasshouse.studies.protected import ProtectedResult
from glasshouse.studies.shuffled import Part
from glasshouse.types import Interval

HOSTILE = "<script>alert('1')</script>"


def scored(**means: float) -> dict[str, Interval]:
    return {name.replace("_", " "): Interval(mean, mean - 0.05, mean + 0.05, 6) for name, mean in means.items()}


PARTS = (
    Part("original", {}),
    Part("protected image", scored(psnr=14.5, ssim=0.2, lpips=0.6, semsim=0.9)),
    Part("A thumbnail", scored(psnr=18.25, ssim=0.3, lpips=0.7, semsim=0.2)),
    Part("C jigsaw", scored(psnr=21.125, ssim=0.8, lpips=0.15, semsim=0.3, blocks_in_place=0.63)),
    Part("baseline: blur", scored(psnr=22.0, ssim=0.9, lpips=0.05, semsim=0.05)),
    Part("re-identified: region moments", scored(share=0.95)),
    Part("re-identified: learned linker", scored(share=0.5)),
    Part("F linked: learned linker", scored(share=0.75)),
)


@pytest.fixture
def make(tmp_path):
    """A result with one picture of each of some parts."""

    def build(parts: tuple[Part, ...] = PARTS, **changed) -> ProtectedResult:
        shown = changed.pop("shown", ("original", "C jigsaw"))
        pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        pictures = {name: [save_picture(Album.of(tmp_path), opaque_name(name, "0"), pixels)[0]] for name in shown}
        facts = {
            "protected": "some/where",
            "images": 6,
            "gallery": 200,
            "versions": 2,
            "shape": [3, 16, 16],
            "region": 4,
            "not_defined": {},
            "block_size": None,
            "channel_wise": True,
            "steps": 2,
            "seed": 0,
            "pictures": pictures,
        }
        return ProtectedResult(tmp_path, {**facts, **changed}, parts)

    return build


class Reader(HTMLParser):
    """Collects text, sources and tags, and checks that every tag is closed."""

    VOID = frozenset({"meta", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.sources: list[str] = []
        self.alts: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        found = dict(attrs)
        self.sources += [found[name] for name in ("src", "href") if name in found]
        self.alts += [found["alt"]] if tag == "img" else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(path: Path) -> tuple[Reader, str]:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert reader.open == []
    return reader, " ".join(" ".join(reader.words).split())


def test_it_stands_alone_and_says_what_counts(make):
    result = make()
    path = write_protected_report(result)
    assert path == result.directory / "report" / "index.html"
    reader, text = read(path)
    assert len(reader.sources) == 2
    assert all(source.startswith("data:image/png;base64,") for source in reader.sources)
    assert reader.alts == ["original, image 1", "C jigsaw, image 1"]
    for part in (
        "6 shuffled images of 16x16 pixels in 2 versions each",
        "Regions of 4 pixels; blocks adaptive; channels shuffled independently; seed 0",
        "Best picture: C jigsaw, LPIPS 0.15 [0.1, 0.2], PSNR 21.1 [21.1, 21.2] dB",
        "Nearest by SemSim: A thumbnail, 0.2 [0.15, 0.25] (0 is the original itself)",
        "Originals found among 200 images: 95% [90%, 100%] by region moments (chance 0.5 %)",
        "Versions of one image linked across epochs: 75% [70%, 80%] by learned linker (chance 16.7 %)",
        "No person has judged these pictures",
        "Blocks put back by how they fit at their seams.",
        "63% [58%, 68%]",
        "baseline: blur",
    ):
        assert part in text, part


def test_settings_of_the_shuffle_are_told(make):
    _, text = read(write_protected_report(make(block_size=2, channel_wise=False, versions=1)))
    assert "blocks of 2 pixels; channels shuffled together" in text
    assert "in 1 version each" in text


def test_names_are_escaped(make):
    parts = (
        *PARTS,
        Part(f"B {HOSTILE}", scored(psnr=10, ssim=0, lpips=0.01, semsim=0.01)),
        Part(f"re-identified: {HOSTILE}", scored(share=1)),
    )
    hostile = {"shown": (HOSTILE,), "protected": HOSTILE, "not_defined": {"ssim": HOSTILE}}
    path = write_protected_report(make(parts, **hostile))
    reader, text = read(path)
    assert HOSTILE not in path.read_text(encoding="utf-8")
    assert text.count(HOSTILE) == 7  # best picture, nearest picture, best method, picture row, two table rows, reason
    assert reader.alts == [f"{HOSTILE}, image 1"]


def test_what_counts_is_the_worst_attack_and_no_baseline(make):
    found = worst(make())
    assert found["sharpest"].startswith("C jigsaw")
    assert found["identified"].endswith("by region moments")
    alone = worst(make(PARTS[:5]))
    assert set(alone) == {"sharpest", "nearest"}
    _, text = read(write_protected_report(make(PARTS[:5])))
    assert "linked across epochs" not in text
    assert "Originals found" not in text


def test_cells_follow_the_columns(make):
    assert cells(PARTS[3], make()) == [
        "21.1 [21.1, 21.2]",
        "0.8 [0.75, 0.85]",
        "0.15 [0.1, 0.2]",
        "0.3 [0.25, 0.35]",
        "63% [58%, 68%]",
    ]
    assert cells(PARTS[1], make())[4] == ""


def test_a_metric_that_is_not_defined_is_na_with_its_reason(make):
    small = tuple(Part(one.name, {name: x for name, x in one.scores.items() if name != "ssim"}) for one in PARTS)
    result = make(small, not_defined={"ssim": "SSIM is not defined under 11 px"})
    assert cells(result.parts[1], result) == ["14.5 [14.4, 14.6]", "n/a", "0.6 [0.55, 0.65]", "0.9 [0.85, 0.95]", ""]
    assert "SSIM is not defined under 11 px." in read(write_protected_report(result))[1]


def test_numbers():
    assert number(Interval(0.123456, 0.1, 0.2, 3)) == "0.123 [0.1, 0.2]"
    assert number(Interval(1, 0.609, 1, 6), percent=True) == "100% [61%, 100%]"
    assert number(Interval(math.inf, math.inf, math.inf, 3)) == "infinite"


def test_no_file_but_a_studys_own_picture_is_embedded(make):
    with pytest.raises(StudyError, match="may be hostile"):
        write_protected_report(make(pictures={"original": ["../../etc/passwd"]}))
