"""The audit of a protected set: all parts with intervals, strict JSON, and galleries that cannot be right refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from glasshouse.collection import protect
from glasshouse.collection.protect import read_version
from glasshouse.data.crops import photo_crops
from glasshouse.data.images import read_image
from glasshouse.errors import DataError, SettingError, StudyError
from glasshouse.studies import protected as module
from glasshouse.studies.protected import ProtectedAudit, ProtectedResult, audit_protected
from glasshouse.studies.shuffled import Protected
from glasshouse.types import ImageSpec

KEY = bytes(range(32))
PLAN = ProtectedAudit(images=6, gallery=10, steps=2)
DRAWN = np.random.default_rng(0).permutation(10)  # the seed draws who is attacked, not the order of names
METHODS = ("region moments", "region moments, negatives allowed", "learned inverse", "learned linker")


def save(path: Path, pixels: np.ndarray) -> Path:
    np.savez(path, x_train=pixels)
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Ten crops of photographs in ``set.npz``, of which ``protected`` holds two versions."""
    home = tmp_path_factory.mktemp("protected")
    crops = photo_crops(ImageSpec(3, 16, 16, 1), 10, 0)
    save(home / "set.npz", (crops * 255).round().byte().permute(0, 2, 3, 1).numpy())
    protect(home / "set.npz", home / "protected", key=KEY, epochs=2)
    return home


@pytest.fixture(scope="module")
def result(home) -> ProtectedResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEWEST", 30)
        return audit_protected(home / "protected", home / "set.npz", home / "out", PLAN)


class StopHereError(Exception):
    """Carries what the attacker would hold."""


@pytest.fixture
def knowledge(monkeypatch, tmp_path):
    """What the attacker holds, without the attack."""

    def stop(held, budget, *, progress):
        raise StopHereError(held)

    def find(protected: Path, gallery: Path, plan: ProtectedAudit = PLAN) -> Protected:
        with pytest.raises(StopHereError) as caught:
            audit_protected(protected, gallery, tmp_path / "out", plan)
        return caught.value.args[0]

    monkeypatch.setattr(module, "attack", stop)
    return find


# --- results ---


def test_every_part_is_there_with_its_interval(result):
    names = [part.name for part in result.parts]
    assert names == [
        "original",
        "protected image",
        "A thumbnail",
        "B channels un-mixed",
        "C jigsaw",
        "D learned inverse",
        "E versions combined",
        "baseline: blur",
        "baseline: down-sampled",
        "baseline: pixels shuffled",
        *(f"re-identified: {name}" for name in METHODS),
        *(f"F linked: {name}" for name in METHODS),
    ]
    for part in result.parts[1:10]:
        assert {"psnr", "ssim", "lpips", "semsim"} <= set(part.scores)
    for part in result.parts:
        for interval in part.scores.values():
            assert interval.images == 6
            assert interval.low <= interval.mean <= interval.high


def test_what_the_shuffle_keeps_gives_every_image_away(result):
    shares = {part.name: part.scores["share"].mean for part in result.parts if "share" in part.scores}
    for what in ("re-identified", "F linked"):
        assert shares[f"{what}: region moments"] == 1
        assert shares[f"{what}: region moments, negatives allowed"] == 1


def test_the_jigsaw_shows_more_than_what_was_sent(result):
    scores = {part.name: part.scores for part in result.parts}
    assert scores["C jigsaw"]["psnr"].mean > scores["protected image"]["psnr"].mean + 1
    solved, unmixed = (scores[name]["blocks in place"].mean for name in ("C jigsaw", "B channels un-mixed"))
    assert solved > 2 * unmixed
    assert "blocks in place" not in scores["protected image"]


def strict(text: str):
    def refuse(name: str):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_file_is_strict_json_of_schema_1(result):
    found = strict((result.directory / "protected.json").read_text())
    assert found == json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert found["schema"] == 1
    assert found["left_out"] == {}
    facts = {"images": 6, "gallery": 10, "versions": 2, "shape": [3, 16, 16], "region": 4, "steps": 2, "seed": 0}
    assert {name: found[name] for name in facts} == facts
    assert found["block_size"] is None
    assert found["channel_wise"] is True
    assert found["not_defined"] == {}
    assert [part["part"] for part in found["parts"]] == [part.name for part in result.parts]


def test_pictures_are_kept_as_they_are(result, home):
    raw = np.load(home / "set.npz")["x_train"]
    sent = dict(read_version(home / "protected", 0))
    pictures = result.facts["pictures"]
    assert list(pictures) == [
        "original",
        "protected image",
        "A thumbnail",
        "B channels un-mixed",
        "C jigsaw",
        "D learned inverse",
        "E versions combined",
    ]
    for place, number in enumerate(DRAWN[:6]):
        assert np.array_equal(read_image(home / "out" / pictures["original"][place]), raw[number])
        assert np.array_equal(
            read_image(home / "out" / pictures["protected image"][place]), sent[f"x_train/{number:06d}"]
        )
    assert len({file for files in pictures.values() for file in files}) == 7 * 6


def test_same_seed_same_result(result, home, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FEWEST", 30)
    again = audit_protected(home / "protected", home / "set.npz", tmp_path / "out", PLAN)
    assert again.to_json() == result.to_json()


# --- what the attacker holds ---


def test_the_attacker_gets_versions_gallery_and_settings_but_not_the_key(home, knowledge):
    held = knowledge(home / "protected", home / "set.npz")
    raw = np.load(home / "set.npz")["x_train"]
    assert len(held.versions) == 2
    for epoch, version in enumerate(held.versions):
        sent = dict(read_version(home / "protected", epoch))
        pixels = (version.permute(0, 2, 3, 1) * 255).round().byte().numpy()
        assert all(np.array_equal(one, sent[f"x_train/{n:06d}"]) for one, n in zip(pixels, DRAWN[:6], strict=True))
    assert np.array_equal((held.gallery.permute(0, 2, 3, 1) * 255).round().byte().numpy(), raw[DRAWN])
    assert (held.blocks, held.block_size, held.channel_wise, held.eight_bit) == (True, None, True, True)
    public = held.practice.public.images
    assert len(public) == module.FEWEST  # four of the gallery, crops of photographs besides
    assert torch.equal(public[:4], held.gallery[6:])
    attacked = {image.numpy().tobytes() for image in held.gallery[:6]}
    assert not attacked & {image.numpy().tobytes() for image in public}
    one, two, again = (held.practice.protect(held.practice.public, 2) for _ in range(3))
    assert len({version.numpy().tobytes() for version in (*one, *two, *again)}) == 6


def test_settings_of_the_shuffle_are_known_and_practised(home, tmp_path, knowledge):
    protect(home / "set.npz", tmp_path / "p", key=KEY, epochs=1, block_size=2, channel_wise=False)
    held = knowledge(tmp_path / "p", home / "set.npz")
    assert len(held.versions) == 1
    assert (held.block_size, held.channel_wise) == (2, False)
    public = held.practice.public
    colors, others = (
        {tuple(color) for color in images.permute(0, 2, 3, 1).reshape(-1, 3).tolist()}
        for images in (public.images, held.practice.protect(public, 1)[0])
    )
    assert others == colors  # channels moved together


def test_folders_with_other_shapes_other_files_and_bad_ones(tmp_path, knowledge):
    rng = np.random.default_rng(0)
    for name, shape in (("a/0", (20, 24, 3)), ("a/1", (20, 24, 3)), ("a/2", (24, 20, 3)), ("b/3", (20, 24))):
        path = tmp_path / "in" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(path)
    protect(tmp_path / "in", tmp_path / "p", key=KEY, epochs=1)
    Image.fromarray(rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(tmp_path / "in" / "a" / "new.png")
    (tmp_path / "in" / "bad.png").write_bytes(b"")
    held = knowledge(tmp_path / "p", tmp_path / "in")
    assert held.versions[0].shape == (2, 3, 20, 24)  # the commonest shape
    assert held.gallery.shape == (3, 3, 20, 24)


def test_shapes_that_are_left_out_are_counted(tmp_path):
    rng = np.random.default_rng(0)
    for name, shape in (("0", (20, 24, 3)), ("1", (20, 24, 3)), ("2", (24, 20, 3)), ("3", (20, 24))):
        (tmp_path / "in").mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(tmp_path / "in" / f"{name}.png")
    found, left_out = module._originals(tmp_path / "in", {"0", "1", "2", "3"}, PLAN)
    assert set(found) == {"0", "1"}
    assert left_out == {"24x20x3": 1, "20x24x1": 1}


def test_images_beyond_those_attacked_are_in_the_gallery(home, knowledge):
    held = knowledge(home / "protected", home / "set.npz", ProtectedAudit(images=2, gallery=5, versions=1, steps=1))
    assert held.versions[0].shape[0] == 2
    assert len(held.versions) == 1
    assert held.gallery.shape[0] == 5


# --- bad input ---


def refused(error, match, protected: Path, gallery: Path, out: Path) -> None:
    with pytest.raises(error, match=match):
        audit_protected(protected, gallery, out, PLAN)
    assert not (out / "protected.json").exists()


def test_galleries_that_are_not_the_originals_are_refused(home, tmp_path):
    raw = np.load(home / "set.npz")["x_train"]
    (tmp_path / "empty").mkdir()
    refused(DataError, "has the name of a protected one", home / "protected", tmp_path / "empty", tmp_path / "out")
    other = save(tmp_path / "other.npz", 255 - raw)  # the same names: every NPZ file has them
    refused(DataError, "x_train/.*not what was protected", home / "protected", other, tmp_path / "out")
    small = save(tmp_path / "small.npz", np.ascontiguousarray(raw[:, :12]))
    refused(DataError, "not what was protected", home / "protected", small, tmp_path / "out")
    refused(DataError, "neither a directory nor", home / "protected", tmp_path / "missing", tmp_path / "out")


def test_directories_that_are_not_protected_sets_are_refused(home, tmp_path):
    refused(DataError, "is this a protected", tmp_path / "nowhere", home / "set.npz", tmp_path / "out")
    (tmp_path / "manifest.jsonl").write_text('{"some": "thing"}\n')
    refused(DataError, "is not the manifest", tmp_path, home / "set.npz", tmp_path.parent / "out")
    lines = (home / "protected" / "manifest.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "manifest.jsonl").write_text("".join(line for line in lines if "finished" not in line))
    refused(DataError, "is not finished", tmp_path, home / "set.npz", tmp_path.parent / "out")


def test_a_version_that_lacks_an_image_is_refused(home, tmp_path):
    (tmp_path / "p").mkdir()
    for path in (home / "protected").iterdir():
        if path.is_dir():
            (tmp_path / "p" / path.name).symlink_to(path)
    lines = (home / "protected" / "manifest.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"epoch": 1' not in line or "x_train/000002" not in line]
    assert len(kept) == len(lines) - 1
    (tmp_path / "p" / "manifest.jsonl").write_text("".join(kept))
    refused(DataError, "lacks 'x_train/000002' in epoch 1", tmp_path / "p", home / "set.npz", tmp_path / "out")


def test_originals_are_never_written_into_the_protected_set_or_over_a_study(home, tmp_path):
    for out in (home / "protected", home / "protected" / "audit", home / "out" / ".." / "protected"):
        refused(StudyError, "lies in the protected data set", home / "protected", home / "set.npz", out)
    (tmp_path / "study.toml").touch()
    refused(StudyError, "holds another study", home / "protected", home / "set.npz", tmp_path)


def test_images_that_are_too_small_are_refused(tmp_path):
    tiny = save(tmp_path / "tiny.npz", np.random.default_rng(0).integers(0, 256, (3, 7, 30), dtype=np.uint8))
    protect(tiny, tmp_path / "p", key=KEY, epochs=1)
    refused(DataError, "7x30 px: give images of at least 8 px", tmp_path / "p", tiny, tmp_path / "out")


@pytest.mark.parametrize("name", ["images", "versions", "steps"])
def test_bad_settings(name):
    with pytest.raises(SettingError, match=f"{name}=0"):
        ProtectedAudit(**{name: 0})


def test_the_gallery_holds_at_least_the_images():
    with pytest.raises(SettingError, match="gallery=5 is out of range: use a finite number of at least 6"):
        ProtectedAudit(images=6, gallery=5)
