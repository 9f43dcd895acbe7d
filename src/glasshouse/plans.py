"""Plans as TOML: the fields of a frozen dataclass, each with its meaning beside it, written and read back."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import tomlkit

from glasshouse.errors import GlasshouseError, SettingError, StudyError, UnknownNameError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PlanT = TypeVar("PlanT", bound="DataclassInstance")
HEAD = "A Glasshouse study. The same command, or the same plan, continues it."
KIND = "kind"
LARGEST = 2**63 - 1  # the whole numbers that every reader of TOML knows end here
WORDS = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}


def to_toml(plan: DataclassInstance, *, schema: int, name: str | None = None, head: str = HEAD) -> str:
    """A plan as commented TOML; ``name`` says which kind of plan it is, where one directory may hold several."""
    document = tomlkit.document()
    document.add(tomlkit.comment(head))
    document.add("schema", tomlkit.item(schema))
    if name is not None:
        document.add(KIND, tomlkit.item(name))
    for field in dataclasses.fields(plan):
        value = getattr(plan, field.name)
        if value is None:
            document.add(tomlkit.comment(f"{field.name}: not set ({field.metadata['meaning']})"))
            continue
        item = tomlkit.item(list(value) if isinstance(value, tuple) else value)
        item.comment(field.metadata["meaning"])
        document.add(field.name, item)
    return tomlkit.dumps(document)


@dataclass(frozen=True, slots=True)
class Written(Generic[PlanT]):
    """A plan as somebody wrote it, so that what is wrong with it can be said with its line."""

    path: Path
    text: str
    plan: PlanT

    @contextmanager
    def located(self) -> Iterator[None]:
        """Give errors that speak of a setting, or of one entry of its list, its file and line."""
        try:
            yield
        except GlasshouseError as error:
            if error.setting is None:
                raise
            raise _error(self.path, self.text, error, *error.setting) from error


def from_toml(path: Path, kind: type[PlanT], *, schema: int) -> PlanT:
    """Read a plan of one kind back; anything that is not one is refused with the reason."""
    return read(path, kind, schema=schema).plan


def kind_of(path: Path, known: Collection[str], default: str) -> str:
    """Which kind of plan a file holds; one that says nothing holds the default."""
    text, found = _parsed(path)
    kind = str(found.get(KIND, default))
    if kind not in known:
        raise _error(path, text, UnknownNameError("kind of study", kind, known), KIND)
    return kind


def read(path: Path, kind: type[PlanT], *, schema: int) -> Written[PlanT]:
    """Read a plan of one kind with its text; anything that is not one is refused with reason and line."""
    text, found = _parsed(path)
    found.pop(KIND, None)
    if "schema" not in found:
        raise _error(path, text, f"the plan does not say how to read it: add a line 'schema = {schema}'.", "schema")
    written = found.pop("schema")
    if written != schema:
        raise _error(path, text, f"the plan has schema {written}, this Glasshouse reads {schema}.", "schema")
    hints = get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]
    for key, value in found.items():
        if key not in known:
            raise _error(path, text, UnknownNameError("setting", key, known), key)
        problem = wrong_type(key, value, hints[key])
        if problem:
            raise _error(path, text, problem, key)
    settings: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}
    try:
        return Written(path, text, kind(**settings))
    except SettingError as error:
        raise _error(path, text, error, _named(str(error), settings)) from error


def difference(asked: PlanT, held: PlanT, names: Iterable[str]) -> str:
    """What a plan that is held already has otherwise than one that is asked for; nothing where they are alike."""
    return ", ".join(
        f"{name} = {_value(getattr(held, name))} and not {_value(getattr(asked, name))}"
        for name in names
        if getattr(held, name) != getattr(asked, name)
    )


def names(plan: DataclassInstance, *, but: str) -> list[str]:
    """The settings of a plan, but for one."""
    return [field.name for field in dataclasses.fields(plan) if field.name != but]


def _value(value: object) -> str:
    return "nothing" if value is None else tomlkit.item(list(value) if isinstance(value, tuple) else value).as_string()


def _parsed(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:  # TOML itself names its lines
        raise StudyError(f"{path} is not a readable plan ({error}).") from error


def _error(path: Path, text: str, reason: object, key: str, value: object = None) -> StudyError:
    line = _line(text, key, value)
    return StudyError(f"{path}{f', line {line}' if line else ''}: {reason}")


def _line(text: str, key: str, value: object) -> int | None:
    """Where a setting stands, or an entry of its list, counted from 1; None where the key is written in an odd way."""
    lines = text.splitlines()
    start = re.compile(rf"""\s*\[*["']?{re.escape(key)}["']?\s*[].=]""")
    first = next((number for number, line in enumerate(lines) if start.match(line)), None)
    if first is None or value is None:
        return None if first is None else first + 1
    written = re.escape(str(value))
    for entry in (rf"""["']{written}["']""", rf"(?<![\w.]){written}(?![\w.])"):  # a bare one may be part of another
        for number in range(first, len(lines)):
            if re.search(entry, lines[number]):
                return number + 1
    return first + 1


def _named(reason: str, settings: dict[str, Any]) -> str:
    """The setting that a reason speaks of: the one that it names first."""
    found = [(match.start(), key) for key in settings if (match := re.search(rf"\b{re.escape(key)}\b", reason))]
    return min(found, default=(0, ""))[1]


def _kinds(hint: Any) -> list[type]:
    """The plain types that a setting may have."""
    return [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]


def _in_words(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return "a list of whole numbers" if get_args(hint)[0] is int else "a list of texts in quotes"
    return " or ".join(WORDS[kind] for kind in _kinds(hint))


def wrong_type(key: str, value: object, hint: Any) -> str:
    """What to write instead of a value that does not have the type of its setting, or nothing."""
    return "" if _fits(value, hint) else f"{key} = {value!r} has the wrong type: write {_in_words(hint)}."


def _fits(value: object, hint: Any) -> bool:
    """Whether a TOML value has the type of a setting; lists stand for tuples, whole numbers for numbers."""
    if get_origin(hint) is tuple:
        each = int if get_args(hint)[0] is int else str
        return isinstance(value, list) and all(_is(one, each) for one in value)
    return any(_is(value, kind) for kind in _kinds(hint))


def _is(value: object, kind: type) -> bool:
    """Whether a value is of one plain type; a truth value is a whole number to Python, but to nobody else."""
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    small = not isinstance(value, int) or abs(value) <= LARGEST
    return small and isinstance(value, (int, float) if kind is float else kind)
