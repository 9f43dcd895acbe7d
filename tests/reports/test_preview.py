"""The picture of what CSVAR does."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from glasshouse.errors import DataError
from glasshouse.reports.preview import write_preview


@pytest.mark.parametrize("shape", [(40, 48, 3), (20, 20), (3, 3, 3)])
def test_draws_any_image(tmp_path, shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "in.png")
    write_preview(tmp_path / "in.png", tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.width > 800
        assert np.asarray(picture.convert("L")).std() > 10


def test_embedded_photographs_go_by_name(tmp_path):
    from pathlib import Path

    write_preview(Path("cat"), tmp_path / "out.png", size=32)
    assert (tmp_path / "out.png").is_file()


def test_what_is_no_image_is_refused(tmp_path):
    (tmp_path / "note.png").write_text("not a picture")
    for name, match in (
        ("nothing.png", r"There is no file .*nothing\.png.*\(astronaut, cat,"),
        ("", "is a folder: give one image file"),
        ("note.png", "is not an image in"),
    ):
        with pytest.raises(DataError, match=match):
            write_preview(tmp_path / name, tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()
