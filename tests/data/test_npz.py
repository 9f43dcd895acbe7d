from __future__ import annotations

import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse.data.npz import open_npz
from glasshouse.errors import DataError


@pytest.mark.parametrize(("split", "labels"), [("train", [0, 1, 2, 0, 1, 2]), ("test", [2, 1, 0, 1])])
def test_images_labels_and_ids_of_a_split(tmp_path, save_npz, split, labels):
    path = save_npz(tmp_path / "mine.npz")
    found = open_npz(path, split)
    assert list(found.labels) == labels
    assert (found.name, found.class_names, found.spec.shape) == ("mine", ("ant", "bee", "cat"), (3, 8, 8))
    assert found.ids == [f"x_{split}/{number:06d}" for number in range(len(labels))]
    assert found.terms.startswith("unknown")
    assert np.array_equal(found.read(3), np.load(path)[f"x_{split}"][3])


@pytest.mark.parametrize("shape", [(8, 6), (8, 6, 1)])
def test_grey_images_have_one_channel(tmp_path, save_npz, shape):
    found = open_npz(save_npz(tmp_path / "grey.npz", shape=shape), "test")
    assert found.spec.shape == (1, 8, 6)
    assert found.batch([0])[0].shape == (1, 1, 8, 6)


def test_class_names_default_to_numbers(tmp_path, save_npz):
    found = open_npz(save_npz(tmp_path / "mine.npz", class_names=None), "test")
    assert found.class_names == ("0", "1", "2")


@pytest.mark.parametrize("split", ["train", "test"])
def test_plain_images_and_labels_serve_both_splits(tmp_path, split):
    np.savez(tmp_path / "plain.npz", images=np.full((2, 4, 4), 9, np.uint8), labels=[1, 0])
    found = open_npz(tmp_path / "plain.npz", split)
    assert list(found.labels) == [1, 0]
    assert (found.read(0) == 9).all()


BAD_ARRAYS = {
    "images of floats": {"x_test": np.zeros((4, 8, 8, 3), np.float32)},
    "images without height": {"x_test": np.zeros((4, 8), np.uint8)},
    "two channels": {"x_test": np.zeros((4, 8, 8, 2), np.uint8)},
    "no images": {"x_test": np.zeros((0, 8, 8, 3), np.uint8), "y_test": np.zeros(0, int)},
    "pickled images": {"x_test": np.array([None] * 4)},
    "missing images": {"x_test": None},
    "missing labels": {"y_test": None},
    "labels of floats": {"y_test": np.zeros(4)},
    "labels of two dimensions": {"y_test": np.zeros((4, 1), int)},
    "too few labels": {"y_test": np.zeros(3, int)},
    "a negative label": {"y_test": np.array([0, 1, -1, 0])},
    "a label without a name": {"y_test": np.array([0, 1, 3, 0])},
    "one text for class names": {"class_names": np.array("ant")},
    "pickled class names": {"class_names": np.array(["ant", "bee", None])},
}


@pytest.mark.parametrize("changes", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_malformed_arrays_are_refused_by_file_name(tmp_path, save_npz, changes):
    path = save_npz(tmp_path / "broken.npz", **changes)
    with pytest.raises(DataError, match=r"broken\.npz"):
        open_npz(path, "test")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-200])


def flip_compressed(path):
    np.savez_compressed(path, x_test=np.zeros((4, 8, 8, 3), np.uint8), y_test=np.arange(4))
    content = bytearray(path.read_bytes())
    start = content.index(b"x_test.npy") + len(b"x_test.npy")
    content[start + 20 : start + 60] = b"\xff" * 40
    path.write_bytes(content)


def claim_a_petabyte(path):
    header = str({"descr": "|u1", "fortran_order": False, "shape": (10**15,)}).encode().ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_test.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 8)
        archive.writestr("y_test.npy", b"")


BAD_FILES = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("x_test"),
    "a single array": lambda path: path.write_bytes(b"\x93NUMPY\x01\x00v\x00" + b" " * 118),
    "an npy file": lambda path: np.save(path.open("wb"), np.zeros(3)),
    "truncated": truncate,
    "damaged inside": flip_compressed,
    "a claimed petabyte": claim_a_petabyte,
}


@pytest.mark.parametrize("damage", BAD_FILES.values(), ids=BAD_FILES)
def test_a_malformed_file_is_refused_by_name(tmp_path, save_npz, damage):
    path = save_npz(tmp_path / "broken.npz")
    damage(path)
    with pytest.raises(DataError, match=r"broken\.npz"):
        open_npz(path, "test")


def outcome(path):
    try:
        return open_npz(path, "test")
    except DataError as error:
        return str(error)


@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_mutated_files_give_images_or_a_data_error(tmp_path_factory, changes):
    path = tmp_path_factory.getbasetemp() / "mutated.npz"
    np.savez_compressed(path, images=np.arange(64, dtype=np.uint8).reshape(4, 4, 4), labels=np.arange(4))
    content = bytearray(path.read_bytes())
    for place, value in changes:
        content[place % len(content)] = value
    path.write_bytes(content)
    found = outcome(path)
    assert "mutated" in found if isinstance(found, str) else len(found) == 4
