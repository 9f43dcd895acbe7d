from __future__ import annotations

import pytest
import torch
from skimage import data as pictures

from glasshouse import data


def test_photos_are_ten_distinct_colour_images_of_32_px():
    found = data.load("photos")
    images, labels = found.batch(range(10))
    assert (len(found), found.spec.shape, found.spec.classes) == (10, (3, 32, 32), 10)
    assert images.shape == (10, 3, 32, 32)
    assert labels.tolist() == list(range(10))
    assert len({image.numpy().tobytes() for image in images}) == 10
    assert images.flatten(1).std(dim=1).min() > 0.02


def test_ids_are_the_class_names():
    found = data.load("photos")
    assert tuple(found.ids) == found.class_names
    assert found.class_names[:2] == ("astronaut", "cat")
    assert "CC0" in found.terms


@pytest.mark.parametrize(("spec", "shape"), [("photos:size=64", (3, 64, 64)), ("photos:channels=1", (1, 32, 32))])
def test_settings_change_the_images(spec, shape):
    found = data.load(spec)
    assert found.spec.shape == shape
    assert found.batch([0])[0].shape == (1, *shape)


def test_a_grey_photograph_has_three_equal_channels():
    found = data.load("photos")
    camera = found.batch([found.class_names.index("camera")])[0][0]
    assert torch.equal(camera[0], camera[1])
    assert torch.equal(camera[0], camera[2])


def test_the_mean_colour_is_that_of_the_full_photograph():
    astronaut = torch.from_numpy(pictures.astronaut()).float().mean((0, 1)) / 255
    small = data.load("photos").batch([0])[0][0].mean((1, 2))
    assert torch.allclose(small, astronaut, atol=0.01)


def test_train_and_test_are_the_same():
    train, test = (data.load(f"photos:split={split}").batch([3])[0] for split in ("train", "test"))
    assert torch.equal(train, test)
