"""Names, SPECs and settings."""

from __future__ import annotations

import pickle
import sys
import types
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasshouse import registry as module
from glasshouse.cli.rooms import HOMES, room
from glasshouse.defenses import create as create_defense
from glasshouse.errors import GlasshouseError, SettingError, UnknownNameError
from glasshouse.registry import Registry, all_settings, complete_spec, parse_spec, to_spec

BUILDABLE = [(kind, name) for kind in HOMES for name in room(kind).names()]


@pytest.mark.parametrize(("kind", "name"), BUILDABLE)
def test_defaults_build_and_settings_round_trip(kind, name):
    registry = room(kind)
    built = registry.create(name)
    assert to_spec(built) == name
    again = registry.create(complete_spec(built))
    assert all_settings(again) == all_settings(built)
    assert registry.get(name) is type(built)


def test_spec_with_settings():
    assert parse_spec("prune:percent=90,at=both") == ("prune", {"percent": "90", "at": "both"})
    attack = room("attacks").create("invgrad:tv=1e-4,steps=20")
    assert (attack.tv, attack.steps) == (1e-4, 20)
    assert to_spec(room("attacks").create("invgrad:steps=20")) == "invgrad:steps=20"


def test_keyword_settings_override_the_spec():
    assert room("attacks").create("invgrad:steps=20", steps=7).steps == 7


def test_a_word_of_a_name_is_near_enough():
    with pytest.raises(UnknownNameError, match="Did you mean 'block_size'"):
        create_defense("csvar:blok=3")


def test_chains_of_defenses():
    chain = create_defense("gaussian:sigma=0.1/prune:percent=90")
    assert chain.spec == "gaussian:sigma=0.1/prune:percent=90.0"
    assert chain.versions == (1, 1)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("invgard", "Did you mean 'invgrad'"),
        ("invgrad:stesp=3", "Did you mean 'steps'"),
        ("invgrad:steps", "write name:key=value"),
        ("invgrad:=3", "write name:key=value"),
        ("invgrad:steps=3,steps=4", "given twice"),
        ("invgrad:steps=many", "is not int"),
        ("invgrad:steps=0", "out of range"),
        ("invgrad:tv=nan", "out of range"),
        (":steps=3", "write a name"),
        ("", "write a name"),
        ("base", "Unknown attack"),
    ],
)
def test_bad_specs_teach(spec, message):
    with pytest.raises(SettingError, match=message):
        room("attacks").create(spec)


def test_unknown_keyword_setting():
    with pytest.raises(UnknownNameError, match="steps"):
        room("attacks").create("invgrad", stesp=3)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        name, settings = parse_spec(text)
    except SettingError:
        return
    assert name
    assert all(key and value for key, value in settings.items())


@given(st.dictionaries(st.sampled_from(["steps", "tv", "lr", "restarts"]), st.text(max_size=6), max_size=3))
def test_any_setting_is_read_or_refused(settings):
    written = ",".join(f"{key}={value}" for key, value in settings.items())
    try:
        room("attacks").create(f"invgrad:{written}" if written else "invgrad")
    except GlasshouseError:
        return


@dataclass(frozen=True, kw_only=True)
class Thing:
    flag: bool = False
    maybe: int | None = None
    word: str = "a"


def small_registry() -> Registry[object]:
    registry: Registry[object] = Registry("thing", "glasshouse.functional")
    registry.register("thing")(Thing)
    return registry


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("thing:flag=yes,maybe=none", Thing(flag=True)), ("thing:flag=0,maybe=4,word=b", Thing(maybe=4, word="b"))],
)
def test_booleans_nones_and_texts(spec, expected):
    assert small_registry().create(spec) == expected


def test_type_errors_name_the_type():
    with pytest.raises(SettingError, match="maybe=x in thing 'thing' is not int or none"):
        small_registry().create("thing:maybe=x")
    with pytest.raises(SettingError, match="flag=perhaps"):
        small_registry().create("thing:flag=perhaps")


def test_two_of_one_name_are_refused():
    registry = small_registry()

    @dataclass(frozen=True, kw_only=True)
    class Other:
        pass

    with pytest.raises(SettingError, match="Two things are called 'thing'"):
        registry.register("thing")(Other)


def test_only_dataclasses_register():
    with pytest.raises(SettingError, match="is not a dataclass"):
        small_registry().register("plain")(type("Plain", (), {}))


def test_plugins_are_found_by_entry_point(monkeypatch):
    registry = small_registry()
    plugin = types.ModuleType("a_glasshouse_plugin")
    plugin.__dict__["registry"] = registry
    exec(  # what a third party's module does when imported
        "from dataclasses import dataclass\n"
        "@registry.register('extra')\n@dataclass(frozen=True, kw_only=True)\nclass Extra: pass",
        plugin.__dict__,
    )
    monkeypatch.setitem(sys.modules, "a_glasshouse_plugin", plugin)
    entry = EntryPoint("plugin", "a_glasshouse_plugin", module.PLUGIN_GROUP)
    monkeypatch.setattr(module, "entry_points", lambda group: [entry] if group == module.PLUGIN_GROUP else [])
    assert registry.names() == ("extra", "thing")


def test_a_plugin_that_cannot_be_imported_is_named(monkeypatch):
    registry = small_registry()
    entry = EntryPoint("broken", "no_such_module_anywhere", module.PLUGIN_GROUP)
    monkeypatch.setattr(module, "entry_points", lambda group: [entry])
    with pytest.raises(SettingError, match="Plugin 'broken' cannot be imported"):
        registry.names()


def test_an_unknown_name_travels_between_processes():
    assert "Did you mean 'size'" in str(UnknownNameError("setting", "siz", ["block_size", "size"]))
    error = UnknownNameError("attack", "invgard", ["invgrad"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
