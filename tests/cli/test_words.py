"""Words that several commands read alike."""

from __future__ import annotations

import pytest

from glasshouse.cli.words import kind, listed
from glasshouse.errors import GlasshouseError


def test_lists_of_names():
    assert listed(" a, b,,c ") == ("a", "b", "c")
    assert listed(None) == listed("") == ()


def test_kinds_of_judges():
    assert kind(None) is None
    assert kind("human") == "human"
    with pytest.raises(GlasshouseError, match="human, classifier"):
        kind("cats")
