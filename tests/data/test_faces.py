from __future__ import annotations

import numpy as np
from skimage.data import lfw_subset

from glasshouse import data


def test_faces_are_a_hundred_faces_and_a_hundred_others():
    found = data.load("faces")
    assert (len(found), found.spec.shape, found.spec.classes) == (200, (1, 25, 25), 2)
    assert list(found.labels) == [0] * 100 + [1] * 100
    assert found.class_names == ("face", "not a face")
    assert "CC0" in found.terms


def test_pixels_are_those_of_scikit_image():
    images, _ = data.load("faces").batch(range(200))
    assert np.abs(images[:, 0].numpy() - lfw_subset()).max() <= 0.5 / 255 + 1e-6


def test_ids_are_unique():
    found = data.load("faces")
    assert found.ids[7] == "lfw/000007"
    assert len(set(found.ids)) == len(found)
