"""Plans come back from TOML as they were, and nothing else does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from glasshouse.errors import SettingError, StudyError, about
from glasshouse.plans import from_toml, read, to_toml
from glasshouse.registry import setting


@dataclass(frozen=True, kw_only=True)
class Trip:
    """A plan of every kind of setting."""

    where: str = setting("home", "where to")
    days: int | None = setting(None, "how long")
    speed: float = setting(1.5, "how fast")
    back: bool = setting(True, "whether to return")
    stops: tuple[str, ...] = setting((), "on the way")


@pytest.mark.parametrize("trip", [Trip(), Trip(where='a "b"', days=3, speed=2, back=False, stops=("x", "y"))])
def test_there_and_back(trip, tmp_path):
    (tmp_path / "study.toml").write_text(to_toml(trip, schema=1))
    assert from_toml(tmp_path / "study.toml", Trip, schema=1) == trip
    assert "# how fast" in (tmp_path / "study.toml").read_text()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("schema = 2", "has schema 2"),
        ("days = 3", "add a line 'schema = 1'"),
        ("schema = 1\nday = 3", "line 2: Unknown setting 'day'. Did you mean 'days'"),
        ("schema = 1\ndays = 'three'", "days = 'three' has the wrong type"),
        ("schema = 1\ndays = true", "days = True has the wrong type"),
        ("schema = 1\nback = 1", "back = 1 has the wrong type"),
        ("schema = 1\nstops = [1]", "wrong type"),
        ("schema =", "not a readable plan"),
    ],
)
def test_what_is_no_plan(text, match, tmp_path):
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(StudyError, match=match):
        from_toml(tmp_path / "study.toml", Trip, schema=1)


def test_the_line_of_an_entry_that_is_part_of_another(tmp_path):
    (tmp_path / "study.toml").write_text('schema = 1\nstops = [\n  "sea:depth=3",\n  "sea",\n]\n')
    plan = read(tmp_path / "study.toml", Trip, schema=1)
    with pytest.raises(StudyError, match="line 4: too wet"), plan.located(), about("stops", "sea"):
        raise SettingError("too wet")
