from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from glasshouse import data


@pytest.mark.parametrize(("split", "part"), [("train", slice(1500)), ("test", slice(1500, None))])
def test_each_split_is_its_part_of_scikit_learns_digits(split, part):
    found = data.load(f"digits:split={split}")
    images, labels = found.batch(range(len(found)))
    reference = load_digits()
    assert found.spec.shape == (1, 8, 8)
    assert labels.tolist() == reference.target[part].tolist()
    assert np.abs(images[:, 0].numpy() - reference.images[part] / 16).max() <= 0.5 / 255 + 1e-6


def test_ids_class_names_and_terms():
    found = data.load("digits")
    assert found.ids[0] == "x_test/000000"
    assert found.class_names == tuple("0123456789")
    assert "CC BY 4.0" in found.terms


def test_the_first_classes_alone():
    every, some = data.load("digits"), data.load("digits:classes=3")
    kept = [place for place, label in enumerate(every.labels) if label < 3]
    assert some.spec.classes == 3
    assert some.class_names == ("0", "1", "2")
    assert [some.ids[place] for place in range(len(some))] == [every.ids[place] for place in kept]
    assert some.batch([0])[0].equal(every.batch(kept[:1])[0])
