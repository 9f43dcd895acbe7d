from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from glasshouse import data
from glasshouse.data.cifar10 import FOLDER, planes
from glasshouse.errors import DataError

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return {file: rng.integers(0, 256, (3, 3072), dtype=np.uint8) for file in FILES}


@pytest.fixture
def root(tmp_path, rows, python2_pickle):
    (tmp_path / FOLDER).mkdir()
    for number, file in enumerate(FILES):
        batch = {b"data": rows[file], b"labels": [number, number + 1, 9], b"batch_label": file.encode()}
        (tmp_path / FOLDER / file).write_bytes(python2_pickle(batch))
    meta = {b"label_names": [name.encode() for name in NAMES], b"num_vis": 3072}
    (tmp_path / FOLDER / "batches.meta").write_bytes(python2_pickle(meta))
    return tmp_path


def test_the_fake_files_are_python_2_pickles(root):
    content = (root / FOLDER / "test_batch").read_bytes()
    assert content[:2] == b"\x80\x02"
    assert b"U\x06labels" in content
    assert pickle.loads(content, encoding="latin1")["labels"] == [5, 6, 9]


def test_a_row_is_three_colour_planes(rows):
    row, image = rows["test_batch"][1], planes(rows["test_batch"])[1]
    assert image.shape == (32, 32, 3)
    assert [image[5, 7, channel] for channel in range(3)] == [row[channel * 1024 + 5 * 32 + 7] for channel in range(3)]


def test_test_split(root, rows):
    found = data.load("cifar10", root=root)
    images, labels = found.batch(range(3))
    assert (found.name, len(found), found.spec.shape, found.spec.classes) == ("cifar10", 3, (3, 32, 32), 10)
    assert labels.tolist() == [5, 6, 9]
    assert list(found.class_names) == NAMES
    assert found.ids == [f"x_test/{number:06d}" for number in range(3)]
    assert "Krizhevsky" in found.terms
    assert np.array_equal((images * 255).round().byte().numpy().reshape(3, 3072), rows["test_batch"])


def test_train_split_is_the_five_batches_in_order(root, rows):
    found = data.load("cifar10:split=train", root=root)
    assert list(found.labels) == [label for number in range(5) for label in (number, number + 1, 9)]
    assert np.array_equal(found.read(13), planes(rows["data_batch_5"])[1])


BATCH = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}
MALFORMED = {
    "empty": b"",
    "not a pickle": b"these are not the bytes of a pickle",
    "not a dictionary": pickle.dumps([1, 2], protocol=2),
    "a key is missing": pickle.dumps({b"data": BATCH[b"data"]}, protocol=2),
    "rows too short": pickle.dumps({**BATCH, b"data": np.zeros((2, 3000), np.uint8)}, protocol=2),
    "rows not an array": pickle.dumps({**BATCH, b"data": [1, 2]}, protocol=2),
    "rows not bytes": pickle.dumps({**BATCH, b"data": np.zeros((2, 3072), np.float32)}, protocol=2),
    "too many labels": pickle.dumps({**BATCH, b"labels": [0, 1, 2]}, protocol=2),
    "label out of range": pickle.dumps({**BATCH, b"labels": [0, 10]}, protocol=2),
    "label not a number": pickle.dumps({**BATCH, b"labels": [0, None]}, protocol=2),
    "more than arrays": pickle.dumps(os.getcwd),
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_batch_is_refused_by_name(root, content):
    (root / FOLDER / "test_batch").write_bytes(content)
    with pytest.raises(DataError, match="test_batch"):
        data.load("cifar10", root=root)


NAMELESS = {
    "empty": b"",
    "no names": pickle.dumps({}),
    "names not texts": pickle.dumps({b"label_names": [1, 2]}),
    "not a dictionary": pickle.dumps(3),
}


@pytest.mark.parametrize("content", NAMELESS.values(), ids=NAMELESS)
def test_malformed_names_are_refused_by_name(root, content):
    (root / FOLDER / "batches.meta").write_bytes(content)
    with pytest.raises(DataError, match=r"batches\.meta"):
        data.load("cifar10", root=root)


@pytest.mark.parametrize("file", ["data_batch_4", "batches.meta"])
def test_a_missing_file_is_named(root, file):
    (root / FOLDER / file).unlink()
    with pytest.raises(DataError, match=file):
        data.load("cifar10:split=train", root=root)


def test_a_truncated_file_is_named(root):
    file = root / FOLDER / "data_batch_2"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match="data_batch_2"):
        data.load("cifar10:split=train", root=root)
