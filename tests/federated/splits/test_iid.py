"""Every client gets the same mixture."""

from __future__ import annotations

import pytest

from glasshouse.errors import DataError
from glasshouse.federated import splits


def test_every_image_has_one_owner_and_parts_are_even():
    parts = splits.create("iid")([0, 1] * 51, 4, seed=0)
    assert sorted(place for part in parts for place in part) == list(range(102))
    assert sorted(map(len, parts)) == [25, 25, 26, 26]
    assert all(part == sorted(part) for part in parts)


def test_the_seed_decides():
    split = splits.create("iid")
    assert split([0] * 50, 3, seed=1) == split([0] * 50, 3, seed=1)
    assert split([0] * 50, 3, seed=1) != split([0] * 50, 3, seed=2)


def test_too_few_images_are_refused():
    with pytest.raises(DataError, match="2 images are too few for 3 clients"):
        splits.create("iid")([0] * 2, 3, seed=0)
