"""SSIM as a metric; its arithmetic is tested in functional."""

from __future__ import annotations

from glasshouse.metrics import create
from glasshouse.types import ImageSpec


def test_identical_images_score_one(photos):
    assert create("ssim")(photos, photos).allclose(photos.new_ones(len(photos)))


def test_not_defined_under_its_window():
    metric = create("ssim")
    assert "under 11 px" in metric.why_not(ImageSpec(1, 8, 8, 10), 5)
    assert metric.why_not(ImageSpec(1, 11, 11, 10), 5) is None
