from __future__ import annotations

import logging

import numpy as np
import pytest
from PIL import Image

from glasshouse.data.folder import open_files, open_folder
from glasshouse.errors import DataError


def test_the_class_is_the_sub_folder(tmp_path, draw):
    for name, value in (("dog/b.png", 20), ("ant/deep/c.png", 30), ("ant/a.png", 10)):
        draw(tmp_path / name, value)
    found = open_folder(tmp_path)
    assert found.ids == ["ant/a", "ant/deep/c", "dog/b"]
    assert (found.class_names, list(found.labels)) == (("ant", "dog"), [0, 0, 1])
    assert [int(found.read(place).max()) for place in range(3)] == [10, 30, 20]
    assert (found.name, found.spec.shape, found.spec.classes) == (tmp_path.name, (1, 8, 8), 2)
    assert found.terms.startswith("unknown")


def test_a_flat_folder_with_symbolic_links_is_one_class(tmp_path, draw):
    folder = tmp_path / "flat"
    draw(folder / "b.png", 20)
    (folder / "a.png").symlink_to(draw(tmp_path / "elsewhere" / "x.png", 10))
    found = open_folder(folder)
    assert (found.ids, found.class_names, list(found.labels)) == (["a", "b"], ("image",), [0, 0])
    assert int(found.read(0).max()) == 10


def test_a_dangling_link_is_left_out(tmp_path, draw):
    draw(tmp_path / "a.png")
    (tmp_path / "b.png").symlink_to(tmp_path / "nowhere.png")
    assert open_folder(tmp_path).ids == ["a"]


def test_loose_files_beside_folders_are_a_class_of_their_own(tmp_path, draw):
    draw(tmp_path / "loose.png")
    draw(tmp_path / "dog" / "a.png")
    found = open_folder(tmp_path)
    assert (found.class_names, dict(zip(found.ids, found.labels, strict=True))) == (
        ("image", "dog"),
        {"dog/a": 1, "loose": 0},
    )


def test_grey_and_colour_mixed_give_colour(tmp_path, draw):
    draw(tmp_path / "grey.png", 99)
    draw(tmp_path / "colour.png", (1, 2, 3))
    found = open_folder(tmp_path)
    assert found.spec.channels == 3
    assert np.array_equal(found.batch([0, 1])[0][0, :, 0, 0].mul(255).round(), [1, 2, 3])
    assert (found.read(1) == 99).all()


def test_different_sizes_want_the_size_option(tmp_path, draw):
    draw(tmp_path / "a.png")
    draw(tmp_path / "b.png", size=(9, 8))
    with pytest.raises(DataError, match=r"2 different sizes.*--size"):
        open_folder(tmp_path)
    found = open_folder(tmp_path, size=6)
    assert found.spec.shape == (1, 6, 6)
    assert found.batch([0, 1])[0].shape == (2, 1, 6, 6)


def test_a_grey_image_is_no_further_size(tmp_path, draw):
    for name, value, size in (("a.png", 7, (8, 8)), ("b.png", (7, 7, 7), (8, 8)), ("c.png", 7, (9, 8))):
        draw(tmp_path / name, value, size=size)
    with pytest.raises(DataError, match="2 different sizes"):
        open_folder(tmp_path)


def test_ten_bad_images_in_a_thousand_are_named_and_left_out(tmp_path, caplog):
    good = Image.new("L", (2, 2), 50)
    bad = {f"{number:04d}.png": number for number in range(50, 1000, 100)}
    for number in range(1000):
        path = tmp_path / f"{number:04d}.png"
        if path.name in bad:
            path.write_bytes(b"" if number % 200 == 50 else b"not an image at all")
        else:
            good.save(path)
    with caplog.at_level(logging.WARNING):
        found = open_folder(tmp_path)
    assert len(found) == 990
    assert [line.partition(":")[0] for line in found.skipped] == sorted(bad)
    assert [name for name in bad if name in caplog.text] == list(bad)
    assert not {f"{number:04d}" for number in bad.values()} & set(found.ids)


def test_labels_and_images_stay_together_when_files_are_skipped(tmp_path, draw):
    for label, name in enumerate("abcd"):
        draw(tmp_path / name / "x.png", 10 * label)
    (tmp_path / "b" / "x.png").write_bytes(b"")
    found = open_folder(tmp_path)
    assert [(label, int(found.read(place).max())) for place, label in enumerate(found.labels)] == [
        (0, 0),
        (2, 20),
        (3, 30),
    ]


def test_other_files_are_ignored(tmp_path, draw):
    draw(tmp_path / "a.png")
    (tmp_path / "readme.txt").write_text("no image")
    found = open_folder(tmp_path)
    assert (found.ids, found.skipped) == (["a"], ())


def test_a_folder_without_images_is_refused_by_name(tmp_path):
    (tmp_path / "readme.txt").write_text("no image")
    with pytest.raises(DataError, match=rf"no images under {tmp_path}.*\.png"):
        open_folder(tmp_path)


def test_a_folder_of_bad_images_is_refused_with_the_first(tmp_path):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=r"None of the 2 files .*a\.png"):
        open_folder(tmp_path)


def test_no_files_at_all_are_refused_by_folder(tmp_path):
    with pytest.raises(DataError, match=str(tmp_path)):
        open_files("mine", tmp_path, [], [], ["a"])
