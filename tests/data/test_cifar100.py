from __future__ import annotations

import pickle

import numpy as np
import pytest

from glasshouse import data
from glasshouse.data.cifar10 import planes
from glasshouse.data.cifar100 import FOLDER
from glasshouse.errors import DataError


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return {"train": rng.integers(0, 256, (4, 3072), dtype=np.uint8), "test": np.full((2, 3072), 7, np.uint8)}


@pytest.fixture
def root(tmp_path, rows, python2_pickle):
    (tmp_path / FOLDER).mkdir()
    for split, labels in (("train", [0, 99, 5, 5]), ("test", [98, 3])):
        batch = {b"data": rows[split], b"fine_labels": labels, b"coarse_labels": [0] * len(labels)}
        (tmp_path / FOLDER / split).write_bytes(python2_pickle(batch))
    meta = {b"fine_label_names": [b"fine %d" % n for n in range(100)], b"coarse_label_names": [b"coarse"] * 20}
    (tmp_path / FOLDER / "meta").write_bytes(python2_pickle(meta))
    return tmp_path


@pytest.mark.parametrize(("split", "labels"), [("train", [0, 99, 5, 5]), ("test", [98, 3])])
def test_images_and_fine_labels_of_a_split(root, rows, split, labels):
    found = data.load(f"cifar100:split={split}", root=root)
    assert (found.name, found.spec.shape, found.spec.classes) == ("cifar100", (3, 32, 32), 100)
    assert list(found.labels) == labels
    assert found.class_names[99] == "fine 99"
    assert found.ids[1] == f"x_{split}/000001"
    assert "Krizhevsky" in found.terms
    assert np.array_equal(found.read(1), planes(rows[split])[1])


MALFORMED = {
    "not a pickle": b"xyz",
    "not a dictionary": pickle.dumps("text"),
    "no fine labels": pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [0]}, protocol=2),
    "rows too short": pickle.dumps({b"data": np.zeros((1, 99), np.uint8), b"fine_labels": [0]}, protocol=2),
    "too few labels": pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [0]}, protocol=2),
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_batch_is_refused_by_name(root, content):
    (root / FOLDER / "train").write_bytes(content)
    with pytest.raises(DataError, match=rf"{FOLDER}/train|train is not|train asks"):
        data.load("cifar100:split=train", root=root)


def test_malformed_names_are_refused_by_name(root):
    (root / FOLDER / "meta").write_bytes(pickle.dumps({b"names": []}))
    with pytest.raises(DataError, match="meta"):
        data.load("cifar100", root=root)
