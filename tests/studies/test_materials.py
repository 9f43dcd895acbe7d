"""The images of a study and the others they are told from."""

from __future__ import annotations

import pytest
import torch

from glasshouse.errors import DataError, SettingError
from glasshouse.studies.materials import GALLERY, from_dataset, from_tensors


def load(source: str, count: int, seed: int = 0):
    return from_dataset(source, count, seed, size=None, root=None, download=False)


def test_a_hundred_others_and_never_the_attacked_ones():
    for source, count in (("digits", 5), ("photos", 3), ("faces", 4)):
        found = load(source, count)
        assert found.gallery.shape == (GALLERY, *found.spec.shape)
        same = (found.gallery[:, None] == found.images[None]).flatten(2).all(2)
        assert not bool(same.any())


def test_same_seed_same_images():
    assert torch.equal(load("digits", 5).images, load("digits", 5).images)
    assert not torch.equal(load("digits", 5).images, load("digits", 5, seed=1).images)


def test_tensors_are_checked(photos):
    found = from_tensors(photos, torch.tensor([0, 1, 2, 3]), 0)
    assert found.spec.classes == 4
    with pytest.raises(DataError, match="labels"):
        from_tensors(photos, torch.tensor([0, 1]), 0)
    with pytest.raises(DataError, match="labels"):
        from_tensors(photos, torch.tensor([0, 1, 2, -3]), 0)
    with pytest.raises(DataError, match="images"):
        from_tensors(photos * 300, torch.tensor([0, 1, 2, 3]), 0)


def test_too_many_images_are_refused():
    with pytest.raises(SettingError, match="images=11 is more than the 10 that photos has"):
        load("photos", 11)
