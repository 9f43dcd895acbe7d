"""Candidates hold the truth and what looks most like it, and stay the same for all versions."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.errors import DataError, SettingError, WeightsError
from glasshouse.votes import candidates as module
from glasshouse.votes.candidates import candidates, look


def test_the_truth_and_the_highest_scores():
    classes = ("ant", "bee", "cat", "dog", "eel")
    scores = np.array([0.1, 0.9, 0.0, 0.8, 0.7])
    assert candidates("cat", classes, scores, 3) == ("bee", "cat", "dog")
    assert candidates("bee", classes, scores, 3) == ("bee", "dog", "eel")
    assert candidates("ant", classes, scores, 20) == classes
    with pytest.raises(SettingError, match="candidates=1"):
        candidates("cat", classes, scores, 1)


@pytest.fixture
def colors(tmp_path):
    """A data set of thirty classes, each a shade of its own: neighbours look alike."""
    shades = np.arange(30, dtype=np.uint8) * 8
    pixels = np.zeros((60, 8, 8, 3), np.uint8)
    pixels[..., 0] = np.repeat(shades, 2)[:, None, None]
    pixels[..., 1] = 255 - pixels[..., 0]
    labels = np.repeat(np.arange(30), 2)
    names = np.array([f"shade {number:02d}" for number in range(30)])
    np.savez(tmp_path / "colors.npz", x_train=pixels, y_train=labels, x_test=pixels, y_test=labels, class_names=names)
    return tmp_path / "colors.npz", pixels[::2], [f"shade {number:02d}" for number in range(30)]


def test_the_most_confusable_classes_come_from_looking_at_the_original(colors, monkeypatch):
    def missing():
        raise WeightsError("no weights here")

    monkeypatch.setattr(module.trunks, "alexnet", missing)
    source, pictures, names = colors
    found = look(pictures[15:16], names[15:16], str(source), 5, None)
    assert found.by == "similarity of class thumbnails"
    chosen = candidates("shade 15", found.classes, found.scores[0], 5)
    assert "shade 15" in chosen
    assert chosen == tuple(f"shade {number}" for number in range(13, 18))


def test_few_classes_are_all_candidates(colors):
    source, pictures, names = colors
    found = look(pictures, names, str(source), 30, None)
    assert found.by == "every class"
    assert candidates(names[0], found.classes, found.scores[0], 30) == tuple(names)


def test_without_its_data_set_a_study_stands_for_itself(colors):
    _, pictures, names = colors
    assert look(pictures[:3], names[:3], "nowhere.npz", 20, None).classes == tuple(names[:3])


def test_another_data_set_is_refused(colors):
    source, pictures, _ = colors
    with pytest.raises(DataError, match="no class 'teapot'"):
        look(pictures[:1], ["teapot"], str(source), 5, None)
