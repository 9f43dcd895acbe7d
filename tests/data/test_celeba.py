from __future__ import annotations

import numpy as np
import pytest

from glasshouse import data
from glasshouse.errors import DataError, GlasshouseError

#: Image number, person, part (0 train, 1 validation, 2 test).
ROWS = [(1, 30, 2), (2, 4, 2), (3, 4, 2), (4, 9, 2), (5, 30, 2), (6, 30, 2), (7, 77, 0), (8, 77, 1)]


@pytest.fixture
def root(tmp_path, draw):
    folder = tmp_path / "celeba"
    for number, _, _ in ROWS:
        draw(folder / "img_align_celeba" / f"{number:06d}.jpg", (20 * number, 0, 0), size=(6, 9))
    (folder / "identity_CelebA.txt").write_text("".join(f"{n:06d}.jpg {person}\n" for n, person, _ in ROWS))
    (folder / "list_eval_partition.txt").write_text("".join(f"{n:06d}.jpg {part}\n" for n, _, part in ROWS))
    return tmp_path


def test_people_with_most_images_come_first(root):
    found = data.load("celeba", root=root)
    assert found.class_names == ("30", "4", "9")
    assert list(found.labels) == [0, 0, 0, 1, 1, 2]
    assert found.ids == [f"img_align_celeba/{number:06d}" for number in (1, 5, 6, 2, 3, 4)]
    assert found.spec.shape == (3, 9, 6)
    assert "non-commercial" in found.terms
    assert np.allclose(found.read(1), (100, 0, 0), atol=4)


def test_the_folder_may_have_another_name_or_be_the_root(root):
    (root / "celeba").rename(root / "CelebA")
    assert len(data.load("celeba", root=root)) == 6
    assert len(data.load("celeba", root=root / "CelebA")) == 6


def test_train_images_are_those_of_the_train_part(root):
    found = data.load("celeba:split=train", root=root)
    assert found.class_names == ("77",)
    assert found.ids == ["img_align_celeba/000007"]


def test_people_limits_the_classes(root):
    found = data.load("celeba:people=1", root=root)
    assert (len(found), found.spec.classes) == (3, 1)


@pytest.mark.parametrize("people", [0, -1])
def test_a_senseless_number_of_people_is_refused(root, people):
    with pytest.raises(GlasshouseError, match="people"):
        data.load(f"celeba:people={people}", root=root)


LINES = ["", "000001.jpg", "000001.jpg x", "000001.jpg -1", "../../secret.jpg 3", "000001.png 3", "a b c", "1.jpg ²"]


@pytest.mark.parametrize("name", ["identity_CelebA.txt", "list_eval_partition.txt"])
@pytest.mark.parametrize("line", LINES)
def test_a_malformed_line_is_refused_with_file_and_number(root, name, line):
    file = root / "celeba" / name
    file.write_text(f"000001.jpg 2\n{line}\n000002.jpg 2\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"{name}, line 2"):
        data.load("celeba", root=root)


def test_texts_of_other_encodings_are_refused_not_crashed(root):
    (root / "celeba" / "identity_CelebA.txt").write_bytes(b"\xff\xfe\x00 3 4\n")
    with pytest.raises(DataError, match=r"identity_CelebA\.txt, line 1"):
        data.load("celeba", root=root)


def test_a_missing_image_is_skipped_by_name(root):
    (root / "celeba" / "img_align_celeba" / "000005.jpg").unlink()
    found = data.load("celeba", root=root)
    assert len(found) == 5
    assert "000005.jpg" in found.skipped[0]


def test_a_part_without_images_is_refused(root):
    (root / "celeba" / "list_eval_partition.txt").write_text("000001.jpg 1\n")
    with pytest.raises(DataError, match=r"list_eval_partition|celeba"):
        data.load("celeba", root=root)
