"""Image defenses compared: rows are measured once, kept, and say what was done to what."""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest
import torch

from glasshouse import data
from glasshouse.defenses.csvar import CSVAR
from glasshouse.errors import DataError, GlasshouseError, SettingError, StudyError
from glasshouse.models import own
from glasshouse.reports.comparison import COLUMNS, draw_pictures, draw_tradeoff, worst
from glasshouse.studies import adaptive, variants
from glasshouse.studies.adaptive import compare
from glasshouse.studies.comparison import Comparison, ComparisonShelf, deal
from glasshouse.studies.variants import ResizedClient, Variant
from glasshouse.training import Samples

PLAN = Comparison(
    dataset="digits", images=6, gallery=12, train=60, model="resnet20:width=4", epochs=1, steps=2, versions=2
)
VARIANTS = ["none", "csvar", "csvar:block_size=4", "pixelate:factor=4@16"]  # the third leaves nothing to move


def shelf(directory, plan=PLAN) -> ComparisonShelf:
    dealt = deal(plan, None)
    return ComparisonShelf.of(plan, dealt, own.build(plan.model, dealt.spec), directory)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    directory = tmp_path_factory.mktemp("comparison")
    seen = []
    rows = compare(PLAN, VARIANTS, directory, progress=lambda done, total: seen.append((done, total)))
    return directory, rows, seen


def test_every_variant_gets_a_row_in_the_order_asked(measured):
    _, rows, seen = measured
    assert [row["variant"] for row in rows] == VARIANTS
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    json.dumps(rows, allow_nan=False)


def test_what_is_measured_is_kept(measured, monkeypatch):
    directory, rows, _ = measured
    monkeypatch.setattr(adaptive, "measure", None)  # would fail if anything were left to do
    assert compare(PLAN, VARIANTS[:1], directory) == rows[:1]


@pytest.mark.parametrize("change", [lambda text: text.replace("0.5", "0.7"), lambda text: text[:9], lambda text: "3"])
def test_a_damaged_row_is_none(change, tmp_path):
    kept, variant = shelf(tmp_path), Variant.parse("csvar")
    kept.keep(variant, {"accuracy": {"clean": 0.5}})
    assert kept.row(variant) == {"accuracy": {"clean": 0.5}, "variant": "csvar"}
    file = kept.file(variant)
    file.write_text(change(file.read_text()))
    assert kept.row(variant) is None


def test_workers_take_the_variants_that_are_left(tmp_path, monkeypatch):
    """With threads in place of processes, which would only take longer to start."""
    kept = shelf(tmp_path)
    kept.judge.touch()
    begun, together = [], threading.Barrier(2, timeout=30)

    def measure(plan, text, kept, root) -> None:
        begun.append(text)
        together.wait()
        kept.file(Variant.parse(text)).write_text(json.dumps({"accuracy": {}}))

    monkeypatch.setattr(adaptive, "ProcessPoolExecutor", lambda workers, *_, **__: ThreadPoolExecutor(workers))
    monkeypatch.setattr(adaptive, "measure", measure)
    texts = ["none", "csvar", "csvar@16", "csvar@32"]
    assert [row["variant"] for row in compare(PLAN, texts, tmp_path, workers=2)] == texts
    assert sorted(begun) == sorted(texts)
    monkeypatch.setattr(adaptive, "measure", die)
    with pytest.raises(StudyError, match="A worker died"):
        compare(PLAN, ["csvar@48"], tmp_path, workers=2)
    with pytest.raises(SettingError, match="workers=0"):
        compare(PLAN, texts, tmp_path, workers=0)


def die(*work) -> None:
    raise BrokenProcessPool


def test_a_variant_that_fails_says_why_and_the_others_are_measured(measured):
    failed = [row for row in measured[1] if "failed" in row]
    assert [row["variant"] for row in failed] == ["csvar:block_size=4"]
    assert "moves nothing" in failed[0]["failed"]
    assert "accuracy" not in failed[0]


def test_names_of_rows_cover_all_that_decides_them(tmp_path, monkeypatch):
    plain = shelf(tmp_path)

    def file(text: str, kept: ComparisonShelf = plain) -> str:
        return kept.file(Variant.parse(text)).name

    assert file("csvar") == file("csvar:channel_wise=true")  # one defense, written in two ways
    assert len({file(text) for text in ("csvar", "csvar@16", "csvar@32", "csvar:block_size=1", "none")}) == 5
    before = file("csvar")
    for change in ({"steps": 3}, {"seed": 1}, {"model": "resnet20:width=8"}, {"images": 5}, {"train": 61}):
        assert file("csvar", shelf(tmp_path, dataclasses.replace(PLAN, **change))) != before, change
    dealt = deal(PLAN, None)
    dealt.test.images[0, 0, 0, 0] += 0.1  # the same names, another picture
    assert file("csvar", ComparisonShelf.of(PLAN, dealt, own.build(PLAN.model, dealt.spec), tmp_path)) != before
    monkeypatch.setattr(CSVAR, "version", 99)
    assert file("csvar") != before


def test_a_model_that_does_not_exist_costs_no_time(tmp_path):
    with pytest.raises(GlasshouseError, match="resnet21"):
        compare(dataclasses.replace(PLAN, model="resnet21"), ["none"], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_undefended_images_are_what_they_are(measured):
    none, csvar, _ = (worst(row) for row in measured[1] if "failed" not in row)
    assert none.member["mean"] == csvar.member["mean"] == none.group["mean"] == csvar.group["mean"] == 1
    assert none.lpips["mean"] == 0
    assert none.psnr is None
    assert none.identified["mean"] == csvar.identified["mean"] == 1  # region moments give a shuffled image away
    assert csvar.lpips["mean"] > 0
    assert none.semsim["mean"] < 1e-3 < csvar.semsim["mean"]
    assert csvar.cells()[COLUMNS.index("nearest picture: SemSim")].endswith(f", {csvar.nearest}")
    assert csvar.nearest[:2] in {"pr", "A ", "B ", "C ", "D ", "E "}
    assert len(csvar.cells()) == len(COLUMNS)


def test_pictures_and_trade_off_are_drawn(measured):
    directory, rows, _ = measured
    rows = [row for row in rows if "failed" not in row]
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


def test_a_file_with_one_part_only_is_refused_by_what_it_shows(tmp_path):
    """Its training and test images have other names and are the same."""
    images, labels = data.load("digits").batch(range(40))
    pixels = (images[:, 0] * 255).round().byte().numpy()
    np.savez(tmp_path / "plain.npz", images=pixels, labels=labels.numpy())
    with pytest.raises(DataError, match="practise on the very images"):
        deal(dataclasses.replace(PLAN, dataset=str(tmp_path / "plain.npz"), train=30), None)


def test_public_images_that_are_attacked_as_well_are_left_out(tmp_path):
    images, labels = data.load("digits").batch(range(40))
    pixels, labels = (images[:, 0] * 255).round().byte().numpy(), labels.numpy()
    near = np.where(pixels[30:33] < 255, pixels[30:33] + 1, 255)  # no byte the same, and a copy to the eye
    parts = {"x_train": np.concatenate([pixels[:33], near]), "y_train": np.concatenate([labels[:33], labels[30:33]])}
    np.savez(tmp_path / "both.npz", **parts, x_test=pixels[30:], y_test=labels[30:])
    dealt = deal(dataclasses.replace(PLAN, dataset=str(tmp_path / "both.npz"), gallery=10), None)
    assert len(dealt.public.images) == len(dealt.public.targets) == 30
    assert torch.cdist(dealt.public.images.flatten(1), dealt.client.images.flatten(1)).min() > 0.16


def test_enlarged_images_are_protected_some_at_a_time_without_repeating_a_shuffle(rng, monkeypatch):
    monkeypatch.setattr(variants, "AT_ONCE", 2)
    images = (torch.arange(1024).view(1, 1, 32, 32) / 1024).repeat(4, 1, 1, 1)
    images[:, 0, 0, 0] += torch.arange(4) * 1e-4
    samples = Samples(images, torch.zeros(4, dtype=torch.long))
    variant = Variant.parse("csvar@32")
    defense = variant.defense.with_key(rng)
    made = variant.protect(defense, samples, rng)
    assert torch.equal(made, defense.on_images(images, rng=rng))
    for one, two in itertools.combinations(made, 2):
        assert float((one != two).float().mean()) > 0.5
    client = ResizedClient(variant, rng)
    assert not torch.equal(client.samples(samples).images, client.samples(samples).images)  # another epoch


def test_groups_of_enlarged_images_do_not_mix(rng, monkeypatch):
    monkeypatch.setattr(variants, "AT_ONCE", 4)
    samples = Samples(torch.rand(10, 1, 16, 16, generator=rng), torch.zeros(10, dtype=torch.long))
    variant = Variant.parse("csvar_exchange:k=2@32")
    groups = variant.partners(variant.defense.with_key(rng), samples)
    assert groups.shape == (10,)
    assert sorted(groups.unique(return_counts=True)[1].tolist()) == [2, 2, 2, 2, 2]
    assert not set(groups[:4].tolist()) & set(groups[4:].tolist())


def test_each_defense_is_attacked_at_its_own_regions():
    sides = {"csvar": 8, "visual_mixer:region=4": 4, "csvar@224": 2, "visual_mixer@64": 4}
    assert {text: Variant.parse(text).region(32, 32) for text in sides} == sides
