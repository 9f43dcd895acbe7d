"""Input validation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glasshouse import checks
from glasshouse.errors import AttackError, DataError, SettingError
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 8, 8, 10)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.rand(3, 8, 8), "shape"),
        (torch.rand(0, 3, 8, 8), "non-empty"),
        (torch.ones(1, 3, 8, 8, dtype=torch.uint8), "divide 8-bit images by 255"),
        (torch.full((1, 3, 8, 8), float("nan")), "NaN"),
        (torch.full((1, 3, 8, 8), 2.0), r"scale it to \[0, 1\]"),
        (torch.full((1, 3, 8, 8), -1.0), r"scale it to \[0, 1\]"),
    ],
)
def test_bad_images(images, message):
    with pytest.raises(DataError, match=message):
        checks.images("images", images)


def test_pairs_must_have_one_shape():
    with pytest.raises(DataError, match="differ in shape"):
        checks.pairs(torch.rand(1, 3, 8, 8), torch.rand(1, 3, 9, 9))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([1]), "one label for each"),
        (torch.tensor([0.5, 1.0]), "whole numbers"),
        (torch.tensor([0, 10]), "use 0 to 9"),
        (torch.tensor([-1, 1]), "use 0 to 9"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(DataError, match=message):
        checks.labels(labels, SPEC, 2)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.rand(2, 3, 8, 8), "bug in the attack"),
        (torch.full((1, 3, 8, 8), float("nan")), "diverged to NaN"),
        (torch.full((1, 3, 8, 8), 1.5), "outside"),
    ],
)
def test_bad_reconstructions(images, message):
    with pytest.raises(AttackError, match=message):
        checks.reconstruction("some", images, SPEC, 1)


def test_ranges_and_choices():
    checks.at_least("x", 1, 1)
    checks.between("x", 1, 0, 1)
    checks.whole("x", np.int64(1), 0, 1)
    checks.one_of("x", "a", ("a", "b"))
    for call in (
        lambda: checks.at_least("x", 0.5, 1),
        lambda: checks.at_least("x", float("inf"), 1),
        lambda: checks.between("x", 2, 0, 1),
        lambda: checks.whole("x", True, 0, 1),
        lambda: checks.whole("x", 1.0, 0, 1),
        lambda: checks.whole("x", "1", 0, 1),
        lambda: checks.whole("x", 2, 0, 1),
        lambda: checks.one_of("x", "c", ("a", "b")),
    ):
        with pytest.raises(SettingError, match="x="):
            call()


def test_names_that_cannot_be_printed():
    checks.printable("folder", ["plain.png", "Grüße 雪.png"])
    with pytest.raises(DataError, match=r"folder: the name 'a\\x1b\[2J' holds characters that cannot be printed"):
        checks.printable("folder", ["plain.png", "a\x1b[2J"])
