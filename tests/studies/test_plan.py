"""Plans round-trip through commented TOML and refuse nonsense."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasshouse.errors import SettingError, StudyError
from glasshouse.studies.plan import Plan, from_toml, to_toml

texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1, max_size=20)


@given(
    model=texts,
    images=st.integers(1, 1000),
    attacks=st.lists(texts, max_size=3).map(tuple),
    steps=st.none() | st.integers(1, 9),
    size=st.none() | st.integers(1, 64),
)
def test_round_trip(tmp_path_factory, model, images, attacks, steps, size):
    plan = Plan(model=model, images=images, attacks=attacks, steps=steps, size=size)
    path = tmp_path_factory.mktemp("plan") / "study.toml"
    path.write_text(to_toml(plan), encoding="utf-8")
    assert from_toml(path) == plan


def test_every_setting_is_explained():
    text = to_toml(Plan())
    for field in dataclasses.fields(Plan):
        assert f"{field.name}" in text
        assert field.metadata["meaning"] in text


def test_metrics_may_change_but_nothing_else():
    assert not Plan(metrics=("mse",)).hindrance(Plan())
    assert Plan(seed=1).hindrance(Plan()) == "seed = 0 and not 1"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"images": 0}, "images=0"),
        ({"batch": 9}, "batch=9"),
        ({"labels": "guessed"}, "labels=guessed"),
        ({"batchnorm": ("both",)}, "bn=both"),
        ({"steps": 0}, "steps=0"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(SettingError, match=message):
        Plan(**settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('schema = 1\nimages = "1"', "wrong type"),
        ("schema = 1\nattacks = 3", "wrong type"),
        ("not toml [", "readable plan"),
        ("schema = 9", "schema 9"),
        ('schema = 1\ncolour = "red"', "line 2: Unknown setting 'colour'"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(StudyError, match=message):
        from_toml(path)
