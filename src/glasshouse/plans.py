"""Plans as TOML: the fields of a frozen dataclass, each with its meaning beside it, written and read back."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import tomlkit

from glasshouse.errors import StudyError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PlanT = TypeVar("PlanT", bound="DataclassInstance")
HEAD = "A Glasshouse study. The same command, or the same plan, continues it."


def to_toml(plan: DataclassInstance, *, schema: int) -> str:
    """A plan as commented TOML."""
    document = tomlkit.document()
    document.add(tomlkit.comment(HEAD))
    document.add("schema", tomlkit.item(schema))
    for field in dataclasses.fields(plan):
        value = getattr(plan, field.name)
        if value is None:
            document.add(tomlkit.comment(f"{field.name}: not set ({field.metadata['meaning']})"))
            continue
        item = tomlkit.item(list(value) if isinstance(value, tuple) else value)
        item.comment(field.metadata["meaning"])
        document.add(field.name, item)
    return tomlkit.dumps(document)


def from_toml(path: Path, kind: type[PlanT], *, schema: int) -> PlanT:
    """Read a plan of one kind back; anything that is not one is refused with the reason."""
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudyError(f"{path} is not a readable plan ({error}).") from error
    written = found.pop("schema", None)
    if written != schema:
        raise StudyError(f"{path} has schema {written}, this Glasshouse reads {schema}.")
    known = {field.name for field in dataclasses.fields(kind)}
    if set(found) - known:
        raise StudyError(f"{path} has unknown settings: {', '.join(sorted(set(found) - known))}.")
    hints = get_type_hints(kind)
    for key, value in found.items():
        if not _fits(value, hints[key]):
            raise StudyError(f"{path}: {key} = {value!r} has the wrong type.")
    settings: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}
    return kind(**settings)


def _fits(value: object, hint: Any) -> bool:
    """Whether a TOML value has the type of a setting; lists stand for tuples, whole numbers for numbers."""
    if get_origin(hint) is tuple:
        each = int if get_args(hint)[0] is int else str
        return isinstance(value, list) and all(isinstance(one, each) and not isinstance(one, bool) for one in value)
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    if isinstance(value, bool):  # which is a whole number to Python
        return bool in kinds
    return any(isinstance(value, (int, float) if kind is float else kind) for kind in kinds)
