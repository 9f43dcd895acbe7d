"""Two folders are scored pair by pair, or refused with what is missing."""

from __future__ import annotations

import pytest
from PIL import Image

from glasshouse.errors import DataError
from glasshouse.metrics import create
from glasshouse.studies.folders import score_folders
from glasshouse.studies.pictures import to_pixels, to_png


@pytest.fixture
def folders(tmp_path, photos):
    for name, images in (("truth", photos), ("guess", photos.flip(0))):
        (tmp_path / name).mkdir()
        for number, image in enumerate(images):
            (tmp_path / name / f"{number}.png").write_bytes(to_png(to_pixels(image)))
    return tmp_path / "truth", tmp_path / "guess"


def test_pairs_by_name(folders, photos):
    found = score_folders(*folders)
    assert [one.name for one in found] == ["0.png", "1.png", "2.png", "3.png"]
    expected = create("semsim")(photos, photos.flip(0)).tolist()
    assert [one.semsim for one in found] == pytest.approx(expected, abs=1e-4)
    assert all(0 < one.probability < 1 for one in found)
    assert [one.semsim for one in score_folders(folders[0], folders[0])] == [0.0] * 4


def test_mismatched_folders_are_refused_with_what_is_missing(folders, tmp_path):
    truth, guess = folders
    (guess / "2.png").rename(guess / "two.png")
    with pytest.raises(DataError, match=r"guess lacks 1 of 5 pictures \(2\.png\)"):
        score_folders(truth, guess)
    (truth / "2.png").unlink()
    with pytest.raises(DataError, match=r"truth lacks 1 of 4 pictures \(two\.png\)"):
        score_folders(truth, guess)
    (truth / "two.png").write_bytes((guess / "two.png").read_bytes())
    Image.new("RGB", (5, 7)).save(guess / "two.png")
    with pytest.raises(DataError, match=r"two\.png has 32x32 and 5x7 pixels"):
        score_folders(truth, guess)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no pictures"):
        score_folders(tmp_path / "empty", guess)
    with pytest.raises(DataError, match="There is no folder"):
        score_folders(tmp_path / "nowhere", guess)


@pytest.mark.parametrize("name", ["a\x1b[2J\n.png", "a\udcff.png"])
def test_names_that_would_do_something_to_a_terminal_are_refused(folders, name):
    for folder in folders:
        (folder / "0.png").rename(folder / name)
    with pytest.raises(DataError, match="characters that cannot be printed") as refused:
        score_folders(*folders)
    assert str(refused.value).isprintable()


def test_grey_against_colour(folders):
    truth, guess = folders
    for file in guess.iterdir():
        Image.open(file).convert("L").save(file)
    assert len(score_folders(truth, guess)) == 4
