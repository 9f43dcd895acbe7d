"""What clients train on: shares, data of their own, and protected directories without any raw image."""

from __future__ import annotations

import dataclasses
import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from glasshouse import data
from glasshouse.collection import open_protected, protect
from glasshouse.collection.protect import read_version
from glasshouse.errors import DataError, SettingError
from glasshouse.federated.clients import Member, network, train_round, weights_of
from glasshouse.federated.digests import data_digest
from glasshouse.federated.holdings import Holding, dealt, open_pool, open_test, owned

DIGITS = tuple(str(digit) for digit in range(10))
KEY = bytes(range(32))


@pytest.fixture(scope="module")
def protected(tmp_path_factory):
    """Sixty digits in four versions, protected from an archive that is gone."""
    home = tmp_path_factory.mktemp("collection")
    train, test = (data.load(f"digits:split={split}") for split in ("train", "test"))
    arrays = {}
    for split, found, count in (("train", train, 60), ("test", test, 20)):
        arrays[f"x_{split}"] = np.stack([found.read(place) for place in range(count)])
        arrays[f"y_{split}"] = np.array(found.labels[:count])
    np.savez(home / "raw.npz", class_names=np.array(DIGITS), **arrays)
    protect(home / "raw.npz", home / "protected", key=KEY, epochs=4, files="npz")
    (home / "raw.npz").unlink()
    return home / "protected"


@pytest.fixture
def plan(small, protected):
    return dataclasses.replace(small, dataset=str(protected), images=None, local_epochs=2, defense="none")


def test_shares_are_disjoint_and_complete(small):
    parts = [dealt(small, client, DIGITS, None).places for client in range(3)]
    assert len({place for part in parts for place in part}) == 120
    assert sum(map(len, parts)) == 120


def test_of_a_set_without_a_test_part_others_are_drawn_than_are_trained_on(small):
    count = len(open_test(dataclasses.replace(small, dataset="faces"), None).labels)
    plan = dataclasses.replace(small, dataset="faces", images=count // 2, test_images=count // 4)
    tested = open_test(plan, None)
    held = [dealt(plan, client, tested.class_names, None).in_epoch(0).images for client in range(plan.clients)]
    images = tested.read(range(len(tested.labels)), 0)
    assert float(torch.cdist(images.flatten(1), torch.cat(held).flatten(1)).min()) > 0


def test_fewer_test_images_are_some_of_all(small):
    every = open_test(small, None)
    some = open_test(dataclasses.replace(small, test_images=7), None)
    assert len(some.labels) == 7 < len(every.labels)
    images = every.read(range(len(every.labels)), 0)
    for label, image in zip(some.labels, some.read(range(7), 0), strict=True):
        same = [place for place, other in enumerate(images) if torch.equal(other, image)]
        assert label in {every.labels[place] for place in same}
    assert some.labels == open_test(dataclasses.replace(small, test_images=7), None).labels
    assert open_test(dataclasses.replace(small, test_images=10**6), None) is every
    with pytest.raises(SettingError, match="test_images"):
        dataclasses.replace(small, test_images=0)


def test_another_version_in_every_epoch_and_no_raw_image_anywhere(plan, protected, monkeypatch):
    holding = dealt(plan, 0, DIGITS, None)
    raw = data.load("digits:split=train").batch(holding.places)[0]
    versions = [holding.in_epoch(epoch).images for epoch in range(4)]
    for number, version in enumerate(versions):
        assert torch.equal(version.flatten(1).sort().values, raw.flatten(1).sort().values)
        assert not torch.equal(version, raw)
        assert all(not torch.equal(version, other) for other in versions[:number])
    assert holding.in_epoch(0).targets.tolist() == [data.load("digits:split=train").labels[n] for n in holding.places]
    read = []
    monkeypatch.setattr("glasshouse.data.load", lambda *given, **options: pytest.fail("raw images were asked for"))
    monkeypatch.setattr(
        "glasshouse.collection.reading.read_version",
        lambda directory, epoch: read.append(epoch) or read_version(directory, epoch),
    )
    begun = weights_of(network(plan, holding.spec))
    train_round(plan, holding, Member.simulated(0, 0), 1, begun)
    assert read == [2, 3]  # the second round's two epochs


def test_a_federation_on_protected_images(plan, carry_out, protected, tmp_path):
    pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")
    rounds = carry_out(plan, tmp_path)
    assert [len(one.heard) for one in rounds.finished()] == [3, 3]


def test_all_versions_count_for_whether_a_federation_may_go_on(plan, protected, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(protected, other)
    lines = (other / "manifest.jsonl").read_text().splitlines()
    last = max(number for number, line in enumerate(lines) if '"epoch": 3' in line)
    lines[last] = re.sub(r'"sha256": "\w{8}', '"sha256": "00000000', lines[last])
    (other / "manifest.jsonl").write_text("\n".join(lines) + "\n")
    before, after = (data_digest(dataclasses.replace(plan, dataset=str(home)), None) for home in (protected, other))
    assert "" != before != after != ""


def test_too_few_versions_are_refused(plan):
    with pytest.raises(
        DataError, match=r"holds 4 versions of each image, but 6 epochs are to come: protect with --epochs 6"
    ):
        dealt(dataclasses.replace(plan, rounds=3), 0, DIGITS, None)


def test_protected_images_are_not_resized(plan):
    with pytest.raises(SettingError, match="resize before protecting"):
        open_pool(plan.dataset, "train", 16, None)


def test_a_protected_folder_keeps_its_classes(tmp_path, rng):
    for name in ("cats/tom", "dogs/rex", "dogs/ace"):
        file = tmp_path / "pets" / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(torch.randint(0, 256, (16, 16, 3), generator=rng).byte().numpy()).save(file)
    protect(tmp_path / "pets", tmp_path / "protected", key=KEY, epochs=1)
    shutil.rmtree(tmp_path / "pets")
    held = open_protected(tmp_path / "protected", "train")
    assert held.ids == ("cats/tom", "dogs/ace", "dogs/rex")
    assert held.labels == (0, 1, 1)
    assert held.class_names == ("cats", "dogs")
    assert held.version(0, [2]).shape == (1, 3, 16, 16)
    with pytest.raises(DataError, match="no protected test images"):
        open_protected(tmp_path / "protected", "test")


def test_classes_are_matched_by_name(tmp_path, small):
    images = np.zeros((4, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", x_train=images, y_train=[0, 1, 1, 0], class_names=["7", "2"])
    held = owned(str(tmp_path / "own.npz"), small, DIGITS, None)
    assert held.labels.tolist() == [7, 2, 2, 7]
    assert held.spec.classes == 10
    with pytest.raises(DataError, match="Class '7' is not one of the federation's"):
        Holding.of(held.pool, [0], ("1", "2"))


def test_labels_that_are_missing_are_said(protected, tmp_path):
    shutil.copytree(protected, tmp_path / "copy")
    (tmp_path / "copy" / "labels.npz").unlink()
    with pytest.raises(DataError, match="does not give the labels"):
        open_protected(tmp_path / "copy", "train")
