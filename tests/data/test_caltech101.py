from __future__ import annotations

import numpy as np
import pytest

from glasshouse import data
from glasshouse.data.caltech101 import FOLDERS
from glasshouse.errors import DataError


@pytest.fixture
def root(tmp_path, draw):
    for label, name in enumerate(("BACKGROUND_Google", "accordion", "wild_cat")):
        for number in range(1, 7):
            draw(tmp_path / FOLDERS[0] / name / f"image_{number:04d}.jpg", (60 * label, 30 * number, 0))
    return tmp_path


def test_every_fifth_image_of_a_class_is_for_tests(root):
    test, train = (data.load(f"caltech101:split={split}", root=root) for split in ("test", "train"))
    assert test.ids == [f"{name}/image_{number}" for name in ("accordion", "wild_cat") for number in ("0001", "0006")]
    assert len(train) == 8
    assert not set(train.ids) & set(test.ids)


def test_the_background_is_no_class(root):
    found = data.load("caltech101", root=root)
    assert found.class_names == ("accordion", "wild_cat")
    assert list(found.labels) == [0, 0, 1, 1]
    assert "CC BY 4.0" in found.terms
    assert np.allclose(found.read(3), (120, 180, 0), atol=4)


def test_the_folder_as_it_is_unpacked_by_hand(root):
    expected = data.load("caltech101", root=root).ids
    (root / FOLDERS[0]).rename(root / FOLDERS[1])
    assert data.load("caltech101", root=root).ids == expected


def test_settings_resize_the_images(root):
    found = data.load("caltech101:size=5,channels=1", root=root)
    assert found.spec.shape == (1, 5, 5)
    assert found.read(0).shape == (5, 5, 1)


def test_grey_images_become_colour_beside_colour_ones(root, draw):
    draw(root / FOLDERS[0] / "accordion" / "image_0001.jpg", 77)
    found = data.load("caltech101", root=root)
    assert found.spec.channels == 3
    assert np.allclose(found.read(0), 77, atol=2)


def test_a_damaged_image_is_skipped_by_name(root):
    (root / FOLDERS[0] / "wild_cat" / "image_0006.jpg").write_bytes(b"")
    found = data.load("caltech101", root=root)
    assert len(found) == 3
    assert len(found.skipped) == 1
    assert "wild_cat/image_0006.jpg" in found.skipped[0]


def test_folders_without_images_are_refused(tmp_path):
    (tmp_path / "101_ObjectCategories" / "accordion").mkdir(parents=True)
    with pytest.raises(DataError, match="101_ObjectCategories"):
        data.load("caltech101", root=tmp_path)
