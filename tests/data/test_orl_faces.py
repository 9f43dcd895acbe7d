from __future__ import annotations

import numpy as np
import pytest

from glasshouse import data
from glasshouse.errors import DataError


@pytest.fixture
def root(tmp_path, draw):
    for person in (1, 2, 10):
        for number in range(1, 11):
            draw(tmp_path / "orl_faces" / f"s{person}" / f"{number}.pgm", 10 * person + number, size=(5, 7))
    (tmp_path / "orl_faces" / "README").write_text("The ORL Database of Faces")
    return tmp_path


def test_images_nine_and_ten_are_for_tests(root):
    found = data.load("orl_faces", root=root)
    assert found.ids == ["s1/9", "s1/10", "s2/9", "s2/10", "s10/9", "s10/10"]
    assert list(found.labels) == [0, 0, 1, 1, 2, 2]
    assert np.array_equal(found.read(4), np.full((7, 5, 1), 109))


def test_people_are_in_order_of_their_numbers(root):
    found = data.load("orl_faces:split=train", root=root)
    assert found.class_names == ("s1", "s2", "s10")
    assert (len(found), found.spec.shape) == (24, (1, 7, 5))
    assert "AT&T" in found.terms


def test_the_folder_may_have_its_other_name(root):
    (root / "orl_faces").rename(root / "att_faces")
    assert len(data.load("orl_faces", root=root)) == 6


def test_a_truncated_portrait_is_skipped_by_name(root):
    file = root / "orl_faces" / "s2" / "9.pgm"
    file.write_bytes(file.read_bytes()[:-5])
    found = data.load("orl_faces", root=root)
    assert len(found) == 5
    assert "s2/9.pgm" in found.skipped[0]


def test_people_without_portraits_are_refused(tmp_path):
    (tmp_path / "orl_faces" / "s1").mkdir(parents=True)
    with pytest.raises(DataError, match="orl_faces"):
        data.load("orl_faces", root=tmp_path)
