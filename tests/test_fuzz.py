"""Plans, options and pictures that nobody would write: each is read or refused in words, and nothing else happens.

``make soak`` makes 10,000 of each kind.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from PIL import Image
from tests.soak import count, piece
from typer.testing import CliRunner

from glasshouse.cli.main import app
from glasshouse.cli.rooms import HOMES, room
from glasshouse.data.images import FORMATS, read_image
from glasshouse.errors import GlasshouseError
from glasshouse.federated.plan import Federation
from glasshouse.federated.plan import from_toml as read_federation
from glasshouse.federated.plan import to_toml as federation_toml
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.plan import Plan
from glasshouse.studies.plan import from_toml as read_audit
from glasshouse.studies.plan import to_toml as audit_toml
from glasshouse.studies.reading import read_plan, to_toml

TRIES = count(200, 10_000)
ODD_NUMBERS = ("0", "-1", "1e999", "-1e999", "nan", "inf", "9" * 40, "1e-300", "0x10", "1_0", "٣", "")
ODD_TEXTS = ("none", "true", "../../etc", "a/b", ":", "=", ",", "a:b=c", "\0", "\ud800", "x" * 9999, "💥", "%s", "{0}")


def tried(strategy: st.SearchStrategy, attempt: Callable[[object], None]) -> Counter[str]:
    """Try what a strategy makes; how many were read, and how many refused. Any other error goes on up."""
    ends: Counter[str] = Counter()

    @seed(piece())
    @settings(
        max_examples=TRIES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def once(made: object) -> None:
        said = None
        try:
            attempt(made)
        except GlasshouseError as error:
            said = str(error)
        assert said is None or said.strip()
        ends["read" if said is None else "refused"] += 1

    once()
    return ends


def counted(ends: Counter[str], record_property: Callable[[str, int], None]) -> None:
    """Tell how many were read and how many refused, for the page."""
    assert ends["read"]
    assert ends["refused"] > TRIES / 4
    for name, number in {
        "tries": ends.total(),
        "read": ends["read"],
        "refused without a traceback": ends["refused"],
    }.items():
        record_property(name, number)


odd = (
    st.sampled_from((*ODD_NUMBERS, *ODD_TEXTS)) | st.text(max_size=12) | st.integers().map(str) | st.floats().map(repr)
)


def changed(draw: Callable, text: str) -> str:
    """A text with some of its characters replaced, or a piece of it moved."""
    for _ in range(draw(st.integers(1, 4))):
        low = draw(st.integers(0, len(text)))
        high = draw(st.integers(low, min(low + 12, len(text))))
        text = text[:low] + draw(odd) + text[high:]
    return text


KINDS = {
    "audit": (Plan, audit_toml(Plan()), lambda folder: read_audit(folder / "study.toml")),
    "grid": (Grid, to_toml(Grid()), read_plan),
    "federations": (Federations, to_toml(Federations(defenses=("none",))), read_plan),
    "federation": (Federation, federation_toml(Federation()), lambda folder: read_federation(folder / "study.toml")),
}


@st.composite
def plans(draw: Callable) -> tuple[str, str]:
    """A kind of plan, and its text with other values, other keys or other characters."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    cls, text, _ = KINDS[kind]
    way = draw(st.integers(0, 3))
    if way == 0:
        return kind, changed(draw, text)
    if way == 1:
        return kind, draw(st.text(max_size=200))
    key = draw(st.sampled_from([field.name for field in fields(cls)]) | st.text(max_size=8))
    lines = [line for line in text.splitlines() if not line.startswith(f"{key} ")]
    value = draw(odd)
    written = draw(st.sampled_from([value, f'"{value}"', f'["{value}"]', f"[{value}]", f"{{a = {value}}}", "[[]]"]))
    return kind, "\n".join([*lines, f"{key} = {written}"])


@pytest.mark.soak
def test_plans(tmp_path, record_property):
    def read(made: tuple[str, str]) -> None:
        kind, text = made
        (tmp_path / "study.toml").write_bytes(text.encode(errors="surrogatepass"))
        KINDS[kind][2](tmp_path)

    counted(tried(plans(), read), record_property)


@st.composite
def specs(draw: Callable) -> tuple[str, str]:
    """A room, and a SPEC of one of its names with odd values, or with other characters."""
    kind = draw(st.sampled_from(sorted(HOMES)))
    name = draw(st.sampled_from(room(kind).names()))
    keys = [one.name for one in room(kind).settings(name)] or ["steps"]
    chosen = draw(st.lists(st.sampled_from(keys), max_size=3))
    spec = name + (":" + ",".join(f"{key}={draw(odd)}" for key in chosen) if chosen else "")
    return kind, changed(draw, spec) if draw(st.integers(0, 3)) == 0 else spec


@pytest.mark.soak
def test_option_strings(record_property):
    counted(tried(specs(), lambda made: room(made[0]).create(made[1])), record_property)


OPTIONS = (
    "--model",
    "--weights",
    "--data",
    "--data-root",
    "--size",
    "--images",
    "--attack",
    "--defense",
    "--metric",
    "--steps",
    "--batch",
    "--bn",
    "--public",
    "--labels",
    "--local-lr",
    "--local-epochs",
    "--local-batch",
    "--observations",
    "--layers",
    "--statistics",
    "--memory",
    "--seed",
    "--engine",
    "--workers",
    "--minutes",
)


@pytest.mark.soak
def test_command_lines(tmp_path, record_property):
    """The directory belongs to somebody else, so that even what could run is refused before any work."""
    (tmp_path / "thesis.tex").write_text("precious")
    codes: Counter[int] = Counter()

    def run(made: list[tuple[str, str]]) -> None:
        words = [word for pair in made for word in pair]
        done = CliRunner().invoke(app, ["audit", *words, "--out", str(tmp_path)])
        codes[done.exit_code] += 1
        if not isinstance(done.exception, (SystemExit, type(None))):
            raise done.exception
        assert done.exit_code == 2

    texts = odd.filter(lambda text: not {"\0", "\ud800"} & set(text))  # no terminal can send such
    tried(st.lists(st.tuples(st.sampled_from(OPTIONS), texts), min_size=1, max_size=3), run)
    assert set(codes) == {1, 2}  # refused by us, and by typer
    record_property("command lines refused without a traceback", codes.total())
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def encoded(kind: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)).save(stream, kind)
    return stream.getvalue()


PICTURES = {kind: encoded(kind) for kind in FORMATS}


@st.composite
def pictures(draw: Callable) -> tuple[str, bytes]:
    """A file of one format with other bytes somewhere, cut short, or of nothing but its first bytes."""
    kind = draw(st.sampled_from(sorted(FORMATS)))
    content = bytearray(PICTURES[kind])
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(content) - 1))
        content[place : place + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    if draw(st.integers(0, 3)) == 0:
        content = content[: draw(st.integers(0, 40))] + draw(st.binary(max_size=60))
    return draw(st.sampled_from(FORMATS[kind])), bytes(content)


@pytest.mark.soak
def test_image_files(tmp_path, record_property):
    def read(made: tuple[str, bytes]) -> None:
        suffix, content = made
        (tmp_path / f"picture{suffix}").write_bytes(content)
        pixels = read_image(tmp_path / f"picture{suffix}")
        assert (pixels.dtype, pixels.ndim) == (np.uint8, 3)

    counted(tried(pictures(), read), record_property)
