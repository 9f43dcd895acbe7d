"""A small study, and its votes."""

from __future__ import annotations

import pytest
from tests.small_study import make_study

from glasshouse.store import DATABASE_FILE, Votes


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path / "study")


@pytest.fixture
def votes(study):
    votes = Votes(study / DATABASE_FILE)
    yield votes
    votes.close()
