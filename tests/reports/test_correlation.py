"""Tables and pictures of metrics against people."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from glasshouse.reports.correlation import (
    COLUMNS,
    DIFFERENCES,
    cells,
    difference_cells,
    draw_matrix,
    draw_scatter,
    model_cells,
    number,
    remarks,
    write_figures,
)
from glasshouse.studies.correlation import correlate
from glasshouse.types import Interval


@pytest.fixture(scope="module")
def found(voted):
    return correlate(voted, metrics=("psnr", "lpips", "other"))


def test_every_row_fits_its_columns(found):
    rows = [cells(one) for one in found.metrics]
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert rows[1][1] == "low"
    assert rows[2][1] == "unknown: taken as high"
    assert "[" in rows[0][2]
    assert "[" not in "".join(cells(found.metrics[0], intervals=False))
    assert {len(difference_cells(one)) for one in found.differences} == {len(DIFFERENCES)}
    assert [row[0] for row in model_cells(found)] == list(found.recognition.models)
    assert number(None) == number(Interval(np.nan, np.nan, np.nan, 3)) == "n/a"


def test_remarks_say_what_all_of_it_rests_on(found):
    told = " ".join(remarks(found))
    for words in (
        "119 images of 6 models, 4 annotators",
        "of 15 pairs",
        "over fewer than 10 models, of which checkpoints of one training are one, are too narrow",
        "Human ceiling",
        "Item difficulty",
        "1 images",
    ):
        assert words in told


def test_pictures_are_drawn(found, tmp_path):
    for path in write_figures(found, tmp_path / "new"):
        picture = np.asarray(Image.open(path).convert("RGB"))
        assert min(picture.shape[:2]) > 200
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20


def test_names_are_no_formulas(voted, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(voted.read_text().replace(",other", ",$\\x$", 1))
    assert draw_matrix(correlate(path, metrics=("$\\x$", "psnr"))).startswith(b"\x89PNG")
    assert draw_scatter(correlate(path, metrics=("$\\x$",))).startswith(b"\x89PNG")
