"""Pictures survive to the bit, and a changed one is noticed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glasshouse.errors import StudyError
from glasshouse.store import Album
from glasshouse.studies.pictures import load_picture, opaque_name, save_picture, to_pixels, to_tensor


@pytest.mark.parametrize("channels", [1, 3])
def test_round_trip_to_the_bit(tmp_path, channels):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, channels), dtype=np.uint8)
    file, sha256 = save_picture(Album.of(tmp_path), "name", pixels)
    assert file == "images/name.png"
    image = load_picture(Album.of(tmp_path), file, sha256)
    assert np.array_equal(to_pixels(image), pixels)
    assert torch.equal(image, to_tensor(pixels))


def test_changed_and_missing_pictures_are_noticed(tmp_path):
    pixels = np.zeros((4, 4, 3), np.uint8)
    file, sha256 = save_picture(Album.of(tmp_path), "name", pixels)
    save_picture(Album.of(tmp_path), "name", pixels + 1)
    with pytest.raises(StudyError, match="was changed"):
        load_picture(Album.of(tmp_path), file, sha256)
    (tmp_path / file).unlink()
    with pytest.raises(StudyError, match="is missing"):
        load_picture(Album.of(tmp_path), file, sha256)


def test_names_are_opaque():
    assert opaque_name("cat", "1") != opaque_name("cat", "2")
    assert "cat" not in opaque_name("cat", "1")
