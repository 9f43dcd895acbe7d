from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from glasshouse import data
from glasshouse.errors import DataError

TRAIN = [("n02085620-Chihuahua/a.jpg", 1), ("n02085936-Maltese_dog/b.jpg", 3), ("n02085620-Chihuahua/c.jpg", 1)]
TEST = [("n02085936-Maltese_dog/d.jpg", 3), ("n02086646-Blenheim/e.jpg", 2)]


def save_list(path, rows):
    names = np.empty((len(rows), 1), object)
    names[:, 0] = [name for name, _ in rows]
    savemat(path, {"file_list": names, "labels": np.array([[label] for _, label in rows], np.uint8)})


@pytest.fixture
def root(tmp_path, draw):
    folder = tmp_path / "stanford_dogs"
    for number, (name, _) in enumerate(TRAIN + TEST):
        draw(folder / "Images" / name, (40 * number, 0, 0))
    save_list(folder / "train_list.mat", TRAIN)
    save_list(folder / "test_list.mat", TEST)
    return tmp_path


def test_train_list(root):
    found = data.load("stanford_dogs:split=train", root=root)
    assert list(found.labels) == [0, 2, 0]
    assert found.class_names == ("Chihuahua", "breed 1", "Maltese_dog")
    assert found.ids == ["n02085620-Chihuahua/a", "n02085936-Maltese_dog/b", "n02085620-Chihuahua/c"]
    assert found.spec.shape == (3, 8, 8)
    assert "Khosla" in found.terms


def test_test_list(root):
    found = data.load("stanford_dogs", root=root)
    assert list(found.labels) == [2, 1]
    assert np.allclose(found.read(1), (160, 0, 0), atol=4)


def test_the_folder_may_have_another_name_or_be_the_root(root):
    (root / "stanford_dogs").rename(root / "StanfordDogs")
    assert len(data.load("stanford_dogs", root=root)) == 2
    assert len(data.load("stanford_dogs", root=root / "StanfordDogs")) == 2


def test_a_missing_image_is_skipped_by_name(root):
    (root / "stanford_dogs" / "Images" / TEST[1][0]).unlink()
    found = data.load("stanford_dogs", root=root)
    assert list(found.labels) == [2]
    assert "n02086646-Blenheim/e.jpg" in found.skipped[0]


def lists(**arrays):
    return lambda path: savemat(path, arrays)


def as_cells(*names):
    cells = np.empty((len(names), 1), object)
    cells[:, 0] = names
    return cells


MALFORMED = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("n02085620-Chihuahua/a.jpg 1\n" * 20),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "version 7.3": lambda path: path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF" * 99),
    "no labels": lists(file_list=as_cells("n1-a/a.jpg")),
    "no files": lists(labels=np.ones((1, 1))),
    "empty lists": lists(file_list=np.empty((0, 1), object), labels=np.ones((0, 1))),
    "an empty name": lists(file_list=as_cells(""), labels=np.ones((1, 1))),
    "fewer labels than files": lists(file_list=as_cells("n1-a/a.jpg", "n1-a/b.jpg"), labels=np.ones((1, 1))),
    "label zero": lists(file_list=as_cells("n02086646-Blenheim/e.jpg"), labels=np.zeros((1, 1))),
    "outside": lists(file_list=as_cells("../../secret.jpg"), labels=np.ones((1, 1))),
    "absolute": lists(file_list=as_cells("/etc/secret.jpg"), labels=np.ones((1, 1))),
}


@pytest.mark.parametrize("damage", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_list_is_refused_by_name(root, damage):
    damage(root / "stanford_dogs" / "test_list.mat")
    with pytest.raises(DataError, match=r"test_list\.mat"):
        data.load("stanford_dogs", root=root)
