"""A case's key covers what changes the result, and only that."""

from __future__ import annotations

import dataclasses
import json

import pytest

from glasshouse.studies.case import AS_WRITTEN, Case
from glasshouse.studies.conditions import Conditions

CASE = Case(
    dataset="photos",
    model="lenet",
    defense="none",
    attack="invgrad",
    architecture="lenet:width=12,spread=0.5",
    defense_spec="none",
    attack_spec="invgrad:steps=1000",
    weights="w",
    round="0",
    batchnorm="eval",
    has_batchnorm=False,
    labels="recovered",
    images=(0, 1),
    pictures="p",
    seed=0,
    versions=(1, 1),
)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Case)])
def test_every_field_but_the_words_moves_the_key(field):
    value = getattr(CASE, field)
    other = {str: lambda: f"{value}x", int: lambda: value + 1, bool: lambda: not value, tuple: lambda: (*value, 7)}
    other[Conditions] = lambda: Conditions(observations=2)
    changed = dataclasses.replace(CASE, **{field: other[type(value)]()})
    assert (changed.key() == CASE.key()) == (field in AS_WRITTEN)


def test_described_is_json_and_the_key_is_stable():
    assert json.loads(json.dumps(CASE.described())) == CASE.described()
    assert CASE.key() == "24691abd0c55ca8f8dc247fb87c8dbea"


def test_seeds_differ_by_purpose_and_ignore_what_they_should():
    other = dataclasses.replace(CASE, attack_spec="dlg", versions=(2, 1))
    assert CASE.random_seed("defense", "attack_spec", "versions") == other.random_seed(
        "defense", "attack_spec", "versions"
    )
    assert CASE.random_seed("attack") != other.random_seed("attack")
    assert CASE.random_seed("attack") != CASE.random_seed("defense")
