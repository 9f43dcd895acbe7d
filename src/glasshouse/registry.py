"""Names to classes, and SPEC strings to objects: ``name`` or ``name:key=value,key=value``.

A registered class is a frozen keyword-only dataclass whose fields are its settings, for Python, TOML and
the command line alike. A module that carries the name it registers is imported on first use only.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from glasshouse.errors import SettingError, UnknownNameError

T = TypeVar("T")
PLUGIN_GROUP = "glasshouse.plugins"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a registered class, as ``glasshouse show`` prints it."""

    name: str
    kind: str
    default: object
    meaning: str


def setting(default: Any, meaning: str, *, later: bool = False) -> Any:
    """Declare a dataclass field with a default and a sentence that says what it means.

    One that was added ``later`` is part of a complete SPEC only where it differs from its default, so that what was
    kept under the SPEC before is found again; its default may never change.
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "later": later})


def secret(meaning: str) -> Any:
    """Declare a field that holds a secret: it is no setting, so no SPEC, table or file ever shows it."""
    return dataclasses.field(default=None, repr=False, metadata={"meaning": meaning, "secret": True})


class Registry(Generic[T]):
    """The known classes of one kind, by name.

    ``package`` is searched for a module of the requested name; plugins are loaded from the entry-point group
    ``glasshouse.plugins``, whose entries are modules that register their classes when imported.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._classes: dict[str, type[T]] = {}
        self._complete = False

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Register a dataclass under a name; its ``name`` attribute is set to it."""

        def add(cls: type[T]) -> type[T]:
            if name in self._classes and self._classes[name].__qualname__ != cls.__qualname__:
                raise SettingError(f"Two {self.kind}s are called '{name}': rename one of them.")
            if not dataclasses.is_dataclass(cls):
                raise SettingError(
                    f"{self.kind} '{name}' is not a dataclass: add @dataclass(frozen=True, kw_only=True)."
                )
            cls.name = name  # type: ignore[attr-defined]
            self._classes[name] = cls
            return cls

        return add

    def names(self) -> tuple[str, ...]:
        """Every known name, plugins included."""
        self._load_all()
        return tuple(sorted(self._classes))

    def get(self, name: str) -> type[T]:
        """Return the class registered under a name."""
        if name not in self._classes:
            if name.isidentifier() and name in self._modules():
                importlib.import_module(f"{self.package}.{name}")
            else:
                self._load_all()
        if name not in self._classes:
            raise UnknownNameError(self.kind, name, self.names())
        return self._classes[name]

    def create(self, spec: str, **settings: Any) -> T:
        """Build an object from a SPEC; keyword settings override those in the SPEC."""
        name, written = parse_spec(spec)
        cls = self.get(name)
        values = {key: _convert(self.kind, name, cls, key, text) for key, text in written.items()}
        unknown = set(settings) - {field.name for field in _fields(cls)}
        if unknown:
            raise UnknownNameError(f"setting of {self.kind} {name}", min(unknown), [f.name for f in _fields(cls)])
        return cls(**{**values, **settings})

    def settings(self, name: str) -> tuple[Setting, ...]:
        """The settings of a registered class with their defaults and meanings."""
        cls = self.get(name)
        hints = get_type_hints(cls)
        return tuple(
            Setting(
                field.name,
                _type_name(hints[field.name]),
                None if field.default is dataclasses.MISSING else field.default,
                field.metadata.get("meaning", ""),
            )
            for field in _fields(cls)
        )

    def _modules(self) -> tuple[str, ...]:
        package = importlib.import_module(self.package)
        return tuple(module.name for module in pkgutil.iter_modules(package.__path__))

    def _load_all(self) -> None:
        if self._complete:
            return
        for module in self._modules():
            importlib.import_module(f"{self.package}.{module}")
        for entry in entry_points(group=PLUGIN_GROUP):
            try:
                entry.load()
            except ImportError as error:
                raise SettingError(
                    f"Plugin '{entry.name}' cannot be imported ({error}): repair or remove it."
                ) from error
        self._complete = True


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Split a SPEC into its name and its written settings."""
    name, colon, rest = spec.strip().partition(":")
    settings: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise SettingError(f"Cannot read '{part}' in '{spec}': write name:key=value,key=value.")
        if key.strip() in settings:
            raise SettingError(f"'{key.strip()}' is given twice in '{spec}': keep one of them.")
        settings[key.strip()] = value.strip()
    if not name:
        raise SettingError(f"Cannot read '{spec}': write a name, or name:key=value,key=value.")
    return name, settings


def to_spec(thing: object) -> str:
    """The shortest SPEC that builds an equal object: its name and the settings that differ from defaults."""
    changed = [
        f"{field.name}={_text(getattr(thing, field.name))}"
        for field in _fields(type(thing))
        if getattr(thing, field.name) != field.default
    ]
    name: str = thing.name  # type: ignore[attr-defined]
    return f"{name}:{','.join(changed)}" if changed else name


def complete_spec(thing: object) -> str:
    """The SPEC with every setting written out, so that it stays true when a default changes.

    A setting that came ``later`` is unsaid at its default, which therefore never changes: what was named before is
    named the same.
    """
    written = (field for field in _fields(type(thing)) if not _unsaid(thing, field))
    settings = [f"{field.name}={_text(getattr(thing, field.name))}" for field in written]
    name: str = thing.name  # type: ignore[attr-defined]
    return f"{name}:{','.join(settings)}" if settings else name


def _unsaid(thing: object, field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("later")) and getattr(thing, field.name) == field.default


def all_settings(thing: object) -> dict[str, Any]:
    """Every setting of a registered object by name, for keys and reports."""
    return {field.name: getattr(thing, field.name) for field in _fields(type(thing))}


def _fields(cls: type) -> Iterator[dataclasses.Field[Any]]:
    return (field for field in dataclasses.fields(cls) if field.init and not field.metadata.get("secret"))


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    """The types of a class's settings; a study of many cases asks often, and they take long to find."""
    return get_type_hints(cls)


def _text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _type_name(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(str(choice) for choice in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_type_name(part) for part in get_args(hint))
    return "none" if hint is type(None) else getattr(hint, "__name__", str(hint))


def _convert(kind: str, name: str, cls: type, key: str, text: str) -> Any:
    hints = _hints(cls)
    known = [field.name for field in _fields(cls)]
    if key not in known:
        raise UnknownNameError(f"setting of {kind} {name}", key, known)
    options = get_args(hints[key]) if get_origin(hints[key]) in (Union, types.UnionType) else (hints[key],)
    for option in sorted(options, key=lambda option: option is not type(None)):  # 'none' would be a text as well
        value = _read(option, text)
        if value is not _UNREADABLE:
            return value
    raise SettingError(f"{key}={text} in {kind} '{name}' is not {_type_name(hints[key])}.")


_UNREADABLE = object()


def _read_bool(text: str) -> object:
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
        text.lower(), _UNREADABLE
    )


def _read_none(text: str) -> object:
    return None if text.lower() == "none" else _UNREADABLE


_READERS: dict[Any, Callable[[str], object]] = {bool: _read_bool, type(None): _read_none}


def _read(hint: Any, text: str) -> object:
    """Read a text as a type, or return the marker for unreadable."""
    if get_origin(hint) is Literal:
        return next((choice for choice in get_args(hint) if str(choice) == text), _UNREADABLE)
    try:
        return _READERS.get(hint, hint)(text)
    except ValueError:
        return _UNREADABLE
