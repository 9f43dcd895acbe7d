from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from glasshouse import data
from glasshouse.data.imagenette import CLASSES, FOLDERS
from glasshouse.errors import DataError


@pytest.fixture
def root(tmp_path):
    for split, count in (("train", 3), ("val", 2)):
        for label, wnid in enumerate(CLASSES):
            folder = tmp_path / FOLDERS[0] / split / wnid
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (8, 8), (25 * label, 80 * number, 0)).save(folder / f"{wnid}_{number}.JPEG")
    return tmp_path


@pytest.mark.parametrize(("split", "count"), [("train", 3), ("test", 2)])
def test_labels_follow_the_published_order(root, split, count):
    found = data.load(f"imagenette:split={split}", root=root)
    assert list(found.labels) == [label for label in range(10) for _ in range(count)]
    assert found.spec.shape == (3, 8, 8)
    assert found.class_names[4] == "church"
    assert found.ids[count] == "n02102040/n02102040_0"
    assert "non-commercial" in found.terms
    assert np.allclose(found.read(9 * count + 1), (225, 80, 0), atol=4)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_published_size_is_found(root, folder):
    (root / FOLDERS[0]).rename(root / folder)
    assert len(data.load("imagenette", root=root)) == 20


def test_a_damaged_image_is_skipped_by_name(root):
    file = next(root.rglob("val/n03028079/*_1.JPEG"))
    file.write_bytes(file.read_bytes()[:100])
    found = data.load("imagenette", root=root)
    assert len(found) == 19
    assert "n03028079/n03028079_1.JPEG" in found.skipped[0]


@pytest.mark.parametrize("split", ["train", "test"])
def test_folders_without_images_are_refused(tmp_path, split):
    (tmp_path / "imagenette2" / "val" / "n01440764").mkdir(parents=True)
    with pytest.raises(DataError, match="imagenette2"):
        data.load(f"imagenette:split={split}", root=tmp_path)
