"""Disks that are full, files that are damaged, places that are read-only, clocks that jump: said in words, and mended.

``make soak`` tries every write and every file instead of a few.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, event
from tests.soak import EVERY, SHARE, first

from glasshouse.errors import StudyError
from glasshouse.federated import Federation
from glasshouse.federated.run import begun
from glasshouse.files import sole_owner
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.grid.program import carry_out


def numbers(out: Path) -> list[dict]:
    found = json.loads((out / "audit.json").read_text())
    return found["rows"] + found["per_image"]


@pytest.fixture(scope="module")
def audited(plan, tmp_path_factory) -> Path:
    """A finished audit; copy it before you change it."""
    directory = tmp_path_factory.mktemp("audit") / "study"
    audit_plan(plan, directory, Running())
    return directory


@pytest.fixture(scope="module")
def whole(audited) -> list[dict]:
    return numbers(audited)


def refusal(run: Callable[[], object]) -> str | None:
    """What a run is refused with; nothing where it is not. Any other error goes on up."""
    try:
        run()
    except StudyError as error:
        return str(error)
    return None


def full_from(write: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has no room from one write on."""
    count, fsync = itertools.count(1), os.fsync

    def fill(handle: int) -> None:
        if next(count) >= write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fill)


@pytest.mark.soak
def test_a_disk_that_is_full_at_any_file(plan, whole, tmp_path, monkeypatch, record_property):
    tried = 0
    for write in itertools.count(1 + first(), EVERY):
        out = tmp_path / str(write)
        with monkeypatch.context() as patch:
            full_from(write, patch)
            said = refusal(lambda out=out: audit_plan(plan, out, Running()))
        if said is None:
            break
        assert "No space left on device" in said
        audit_plan(plan, out, Running())
        assert numbers(out) == whole
        tried += 1
    assert tried
    record_property("writes that found no room", tried)


@pytest.mark.soak
def test_a_disk_that_is_full_at_any_page_of_the_database(plan, whole, tmp_path, record_property):
    pages = range(1 + first(), 60, EVERY)

    def limited(connection, record) -> None:
        connection.execute(f"PRAGMA max_page_count={page}")

    refused = 0
    for page in pages:
        out = tmp_path / str(page)
        event.listen(Engine, "connect", limited)
        try:
            said = refusal(lambda out=out: audit_plan(plan, out, Running()))
        finally:
            event.remove(Engine, "connect", limited)
        assert said is None or "full" in said
        refused += said is not None
        audit_plan(plan, out, Running())
        assert numbers(out) == whole
    assert refused > 1
    record_property("sizes", len(pages))
    record_property("of them too small", refused)


SMALL_DISK = """
mount -t tmpfs -o size=150k none {disk} || exit 77
{audit}; first=$?
mount -o remount,size=50m {disk}
{audit} && cp {disk}/study/audit.json {out}
exit $((first * 10 + $?))
"""


@pytest.mark.soak
@pytest.mark.skipif(not SHARE, reason="starts two commands: make soak")
def test_a_real_disk_that_is_full(plan, whole, tmp_path, record_property):
    disk, out = tmp_path / "disk", tmp_path / "audit.json"
    disk.mkdir()
    words = f"audit --data {plan.dataset} --images 2 --model {plan.model} --attack {plan.attacks[0]} --engine inline"
    words += "".join(f" --defense {one}" for one in plan.defenses) + "".join(f" --metric {one}" for one in plan.metrics)
    audit = f"{sys.executable} -m glasshouse {words} --out {disk}/study"
    script = SMALL_DISK.format(disk=disk, audit=audit, out=out)
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode in (1, 77):
        pytest.skip("no file system may be mounted here")
    assert done.returncode == 20, done.stderr
    assert "No space left" in done.stderr or "full" in done.stderr
    assert "Traceback" not in done.stderr
    found = json.loads(out.read_text())
    assert found["rows"] + found["per_image"] == whole
    record_property("counted", "1 disk of 150 kB")


def damaged_files(directory: Path, dice: random.Random) -> list[Path]:
    """Files of a study, the plan apart, which people write; its results are written anew each time."""
    kept = [path for name in ("images", "models") for path in sorted((directory / name).iterdir())]
    return [*dice.sample(kept, len(kept))[first() :: EVERY], directory / "glasshouse.db"]


def damage(file: Path, dice: random.Random) -> None:
    """Other bytes in the middle of a file."""
    content = bytearray(file.read_bytes())
    start = dice.randrange(len(content) // 2)
    content[start : start + 8] = dice.randbytes(8)
    file.write_bytes(content)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["audit", "study"])
def test_any_damaged_file_is_noticed_and_made_again(kind, plan, grid, audited, finished, tmp_path, record_property):
    dice = random.Random(1)
    source = {"audit": audited, "study": finished}[kind]
    results = {"audit": numbers, "study": lambda out: json.loads((out / "study.json").read_text())["rows"]}[kind]
    again = {
        "audit": lambda out: audit_plan(plan, out, Running()),
        "study": lambda out: carry_out(grid, out, Running()),
    }[kind]
    mended = refused = 0
    for number, file in enumerate(damaged_files(source, dice)):
        out = Path(shutil.copytree(source, tmp_path / str(number)))
        damage(out / file.relative_to(source), dice)
        said = refusal(lambda out=out: again(out))
        if said is None:
            mended += 1
        else:
            assert "glasshouse.db" in said
            (out / "glasshouse.db").unlink()
            again(out)
            refused += 1
        assert results(out) == results(source)
        shutil.rmtree(out)
    record_property("files mended", mended)
    record_property("refused and made anew when removed", refused)


def test_a_damaged_plan_is_refused(plan, audited, tmp_path):
    out = Path(shutil.copytree(audited, tmp_path / "study"))
    (out / "study.toml").write_bytes(b"\xff" * 40)
    with pytest.raises(StudyError, match="not a readable plan"):
        audit_plan(plan, out, Running())


#: As somebody who may not write where the bits say so: root may, unless it gives that right away.
READ_ONLY = """
import ctypes
class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
class Rights(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]
ctypes.CDLL(None).capset(ctypes.byref(Header(0x20080522, 0)), (Rights * 2)())
from glasshouse.cli.main import main
main()
"""


def allow(directory: Path, *, writing: bool) -> None:
    for path in (directory, *directory.rglob("*")):
        path.chmod((0o755 if path.is_dir() else 0o644) if writing else (0o555 if path.is_dir() else 0o444))


@pytest.mark.soak
def test_read_only_directories(audited, finished, tmp_path, forked, record_property):
    (tmp_path / "empty").mkdir()
    shutil.copytree(audited, tmp_path / "audit")
    shutil.copytree(finished, tmp_path / "study")
    lines = [
        f"audit --images 1 --out {tmp_path}/empty/new --engine inline",
        f"report {tmp_path}/audit",
        f"study run {tmp_path}/study --engine inline --quiet",
        f"study status {tmp_path}/study",
        f"federate --rounds 1 --out {tmp_path}/empty/federation",
        f"annotate invite {tmp_path}/audit --annotators 1",
    ]
    allow(tmp_path, writing=False)
    try:
        ends = {line: forked(READ_ONLY, *line.split()) for line in lines}
    finally:
        allow(tmp_path, writing=True)
    for line, end in ends.items():
        assert end.returncode == 2, (line, end.stderr)
        assert end.stderr.startswith("glasshouse: "), end.stderr
        assert end.stderr.count("\n") == 1
    record_property("counted", f"{len(lines)} commands refused in one line")


@pytest.mark.soak
def test_clocks_that_jump(plan, whole, tmp_path, monkeypatch, record_property):
    """Years forward and back at every look; what lasts is measured by a clock that does not jump."""
    dice = random.Random(2)
    jumps = 0

    def jump() -> float:
        nonlocal jumps
        jumps += 1
        return dice.uniform(-1e9, 4e9)

    with monkeypatch.context() as patch:
        patch.setattr(time, "time", jump)
        _, summary = audit_plan(plan, tmp_path, Running(minutes=10))
        _, again = audit_plan(plan, tmp_path, Running(minutes=10))
    assert (summary.left, again.found) == (0, 4)
    assert numbers(tmp_path) == whole
    record_property("counted", f"{jumps} readings of a clock that jumps, 4 cases alike")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["audit", "study", "federation"])
def test_of_two_runs_at_once_the_second_refuses(kind, plan, grid, tmp_path, record_property):
    runs = {
        "audit": lambda: audit_plan(plan, tmp_path, Running()),
        "study": lambda: carry_out(grid, tmp_path, Running()),
        "federation": lambda: begun(Federation(images=60, clients=2), tmp_path).__enter__(),
    }
    with sole_owner(tmp_path), pytest.raises(StudyError, match="Another run"):
        runs[kind]()
    record_property("counted", "1 run refused")
