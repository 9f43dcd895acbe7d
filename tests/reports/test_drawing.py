"""Figures become pictures of the size that was asked for, on white."""

from __future__ import annotations

import io

import pytest
from matplotlib.figure import Figure
from PIL import Image

from glasshouse.reports.drawing import png


@pytest.mark.parametrize(("settings", "side"), [({}, 100), ({"dpi": 90}, 90)])
def test_a_figure_on_white(settings, side):
    with Image.open(io.BytesIO(png(Figure(figsize=(2, 1)), **settings))) as picture:
        assert (picture.format, picture.size) == ("PNG", (2 * side, side))
        assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
