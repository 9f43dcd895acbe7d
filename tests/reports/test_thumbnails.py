"""Pictures within a page are exact where they are small, small where there are many, and never of anything else."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from glasshouse.errors import StudyError
from glasshouse.reports.thumbnails import LARGE, SMALL, beside, data_address, inline
from glasshouse.store import Album

NAME = "images/" + 24 * "a" + ".png"


def noise(size: int, channels: int = 3) -> np.ndarray:
    """What takes most room: nothing in it can be told from the rest."""
    return np.random.default_rng(0).integers(0, 256, (size, size, channels), dtype=np.uint8)


def opened(address: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))


@pytest.mark.parametrize(("room", "size"), [(SMALL, 32), (LARGE, 64), (None, 300)])
@pytest.mark.parametrize("channels", [1, 3])
def test_what_fits_is_exact(room, size, channels):
    pixels = noise(size, channels)
    address = data_address(pixels, room)
    assert address.startswith("data:image/png;base64,")
    assert np.array_equal(np.atleast_3d(np.asarray(opened(address))), pixels)


@pytest.mark.parametrize(("room", "size"), [(SMALL, 64), (LARGE, 224)])
@pytest.mark.parametrize("channels", [1, 3])
def test_what_does_not_is_made_smaller_and_still_shows_it(room, size, channels):
    level = np.linspace(0, 255, size)[None, :, None]
    pixels = (0.5 * level + 0.5 * noise(size, channels)).astype(np.uint8)
    address = data_address(pixels, room)
    assert address.startswith("data:image/jpeg;base64,")
    small = opened(address)
    assert small.size == (room.edge, room.edge)
    across = np.atleast_3d(np.asarray(small)).mean(axis=(0, 2))
    assert across[-5:].mean() - across[:5].mean() > 80  # still dark on the left and bright on the right


@pytest.mark.parametrize("size", [32, 48, 224])
def test_a_thousand_images_and_their_reconstructions_stay_under_ten_megabytes(size):
    assert 2_000 * len(data_address(noise(size), SMALL)) < 9_500_000


def test_only_pictures_of_a_study_are_taken(tmp_path):
    for name in ("../secret.png", "images/../../secret.png", "images/short.png", "/etc/passwd"):
        with pytest.raises(StudyError, match="no picture of a study"):
            inline(Album.of(tmp_path), name)
        assert beside(tmp_path, Album.of(tmp_path), name) == ""


def test_whole_pictures_are_linked_where_they_lie_beside_the_page(tmp_path):
    assert beside(tmp_path, Album.of(tmp_path), NAME) == f"../{NAME}"
    assert beside(tmp_path, Album.of(tmp_path / "elsewhere"), NAME) == ""
    assert beside(tmp_path, Album("s3://bucket/pictures"), NAME) == ""
