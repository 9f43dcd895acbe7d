from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse import data
from glasshouse.data.base import array_set, data_root, datasets
from glasshouse.errors import DataError, SettingError
from glasshouse.registry import to_spec


def a_set(labels, *, shape=(4, 4)):
    pixels = np.arange(len(labels) * np.prod(shape), dtype=np.uint8).reshape(len(labels), *shape)
    return array_set("mine", pixels, labels, [str(n) for n in range(max(labels) + 1)], "terms", "x")


@pytest.mark.parametrize("name", datasets.names())
def test_every_data_set_builds_with_defaults_and_says_its_source_and_terms(name):
    one = datasets.create(name)
    assert (one.name, one.size, one.channels, one.split) == (name, None, None, "test")
    assert len(one.source) > 10
    assert len(one.terms) > 10


@pytest.mark.parametrize("name", datasets.names())
def test_settings_round_trip(name):
    one = datasets.create(f"{name}:size=64,channels=1,split=train")
    assert datasets.create(to_spec(one)) == one
    assert to_spec(one) == f"{name}:size=64,channels=1,split=train"


@pytest.mark.parametrize("settings", ["size=0", "size=5000", "size=-3", "channels=2", "channels=0", "split=val"])
def test_senseless_settings_are_refused(settings):
    with pytest.raises(SettingError, match=settings.partition("=")[0]):
        datasets.create(f"photos:{settings}")


def test_batch_scales_to_the_unit_interval():
    images, labels = a_set([0, 1, 2]).batch([2, 0])
    assert (images.dtype, images.shape, labels.tolist()) == (torch.float32, (2, 1, 4, 4), [2, 0])
    assert torch.allclose(images[0, 0], torch.arange(32, 48).reshape(4, 4) / 255)


def test_fitted_changes_spec_and_images_only():
    before = a_set([0, 1, 1], shape=(6, 4))
    after = before.fitted(3, 3)
    assert (after.spec.shape, after.spec.classes) == ((3, 3, 3), 2)
    assert after.batch([0, 2])[0].shape == (2, 3, 3, 3)
    assert (after.labels, after.ids, after.terms) == (before.labels, before.ids, before.terms)


def test_fitted_to_nothing_is_the_same_set():
    before = a_set([0, 1])
    assert before.fitted(None, None) is before


def test_fitted_to_colour_keeps_the_size():
    assert a_set([0], shape=(6, 4)).fitted(None, 3).batch([0])[0].shape == (1, 3, 6, 4)


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_spread_takes_one_of_each_class_in_turn(labels, share, seed):
    images = a_set(labels)
    count = 1 + int(share * (len(labels) - 1))
    places = images.spread(count, seed)
    assert len(set(places)) == len(places) == count
    assert set(places) <= set(range(len(labels)))
    assert places == images.spread(count, seed)
    assert images.spread(len(labels), seed)[:count] == places
    taken, there = Counter(labels[place] for place in places), Counter(labels)
    most = max(taken.values())
    assert all(taken[label] >= min(most - 1, there[label]) for label in there)


def test_spread_draws_by_the_seed():
    images = a_set([0, 1] * 20)
    assert len({tuple(images.spread(6, seed)) for seed in range(5)}) == 5
    turns = [images.labels[place] for place in images.spread(6, 0)]
    assert turns in ([0, 1] * 3, [1, 0] * 3)


@pytest.mark.parametrize(("count", "why"), [(0, "at least 1"), (-1, "at least 1"), (4, "more than the 3")])
def test_spread_refuses_a_count_that_is_not_there(count, why):
    with pytest.raises(SettingError, match=f"images={count} .*{why}"):
        a_set([0, 1, 0]).spread(count, 0)


def test_data_root_is_the_chosen_then_the_variable(monkeypatch):
    monkeypatch.setenv("GLASSHOUSE_DATA", "/there")
    assert data_root() == Path("/there")
    assert data_root(Path("/here")) == Path("/here")
    monkeypatch.delenv("GLASSHOUSE_DATA")
    assert data_root() is None


@pytest.mark.parametrize(
    ("pixels", "labels", "reason"),
    [
        (np.zeros((2, 4, 4), np.int16), [0, 0], "dtype int16"),
        (np.zeros((2, 16), np.uint8), [0, 0], r"shape \(2, 16\)"),
        (np.zeros((2, 4, 4, 4), np.uint8), [0, 0], r"shape \(2, 4, 4, 4\)"),
        (np.zeros((0, 4, 4), np.uint8), [], "not empty"),
        (np.zeros((2, 4, 4), np.uint8), [0], "2 images but 1 labels"),
        (np.zeros((2, 4, 4), np.uint8), [0, 2], "from 0 to 2, but there are 2 classes"),
        (np.zeros((2, 4, 4), np.uint8), [-1, 0], "from -1 to 0"),
    ],
)
def test_arrays_that_are_no_images_are_refused(pixels, labels, reason):
    with pytest.raises(DataError, match=f"mine.*{reason}"):
        array_set("mine", pixels, labels, ("a", "b"), "terms", "x")


def test_the_room_exports_what_others_use():
    assert data.load("digits").batch([0])[0].shape == (1, 1, 8, 8)
    assert "photos" in data.datasets.names()
