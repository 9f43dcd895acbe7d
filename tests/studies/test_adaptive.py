"""Image defenses compared: rows are measured once, kept, and say what was done to what."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from glasshouse import data
from glasshouse.errors import DataError, SettingError
from glasshouse.models import own
from glasshouse.reports.comparison import COLUMNS, draw_pictures, draw_tradeoff, worst
from glasshouse.studies import adaptive
from glasshouse.studies.adaptive import compare
from glasshouse.studies.comparison import Comparison, Shelf, deal
from glasshouse.studies.variants import Variant
from glasshouse.training import Samples

PLAN = Comparison(
    dataset="digits", images=6, gallery=12, train=60, model="resnet20:width=4", epochs=1, steps=2, versions=2
)
VARIANTS = ["none", "csvar", "pixelate:factor=4@16"]


def shelf(directory, plan=PLAN) -> Shelf:
    dealt = deal(plan, None)
    return Shelf.of(plan, dealt, own.build(plan.model, dealt.spec), directory)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    directory = tmp_path_factory.mktemp("comparison")
    seen = []
    rows = compare(PLAN, VARIANTS, directory, progress=lambda done, total: seen.append((done, total)))
    return directory, rows, seen


def test_every_variant_gets_a_row_in_the_order_asked(measured):
    _, rows, seen = measured
    assert [row["variant"] for row in rows] == VARIANTS
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    json.dumps(rows, allow_nan=False)


def test_what_is_measured_is_kept(measured, monkeypatch):
    directory, rows, _ = measured
    monkeypatch.setattr(adaptive, "ProcessPoolExecutor", None)  # would fail if anything were left to do
    monkeypatch.setattr(adaptive, "measure", None)
    assert compare(PLAN, VARIANTS[:1], directory) == rows[:1]


def test_undefended_images_are_what_they_are(measured):
    none, csvar, _ = (worst(row) for row in measured[1])
    assert none.lpips["mean"] == 0
    assert none.psnr is None
    assert none.identified["mean"] == csvar.identified["mean"] == 1  # region moments give a shuffled image away
    assert csvar.lpips["mean"] > 0
    assert len(csvar.cells()) == len(COLUMNS)


def test_pictures_and_trade_off_are_drawn(measured):
    directory, rows, _ = measured
    assert draw_tradeoff(rows).startswith(b"\x89PNG")
    stems = [shelf(directory).file(Variant.parse(row["variant"])).stem for row in rows]
    assert draw_pictures(directory, list(zip(rows, stems, strict=True)), 4).startswith(b"\x89PNG")


def test_time_is_kept(tmp_path, monkeypatch):
    shelf(tmp_path).judge.touch()  # as if trained
    assert compare(PLAN, VARIANTS, tmp_path, minutes=0) == []


@pytest.mark.parametrize("text", ["gaussian", "csvar@", "csvar@x", "csvar@0"])
def test_what_is_no_defense_of_images_is_refused(tmp_path, text):
    with pytest.raises(SettingError):
        compare(PLAN, [text], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_enlarged_defenses_act_on_enlarged_images(rng):
    images, labels = data.load("photos", size=32).batch([0, 1, 2])
    samples = Samples(images, labels)
    variant = Variant.parse("pixelate:factor=7@224")
    changed = variant.protect(variant.defense, samples, rng)
    large = torch.nn.functional.interpolate(images, size=(224, 224), mode="bilinear", align_corners=False)
    expected = torch.nn.functional.avg_pool2d(large, 7)  # squares of 7 are exactly what averaging down sees
    torch.testing.assert_close(changed, expected)
    assert Variant.parse("csvar").moves_blocks
    assert not Variant.parse("csvar@224").moves_blocks


def test_a_data_set_without_test_images_is_refused(tmp_path):
    with pytest.raises(DataError, match="practise on the very images"):
        compare(dataclasses.replace(PLAN, dataset="faces"), ["none"], tmp_path / "new")
    assert not (tmp_path / "new").exists()
