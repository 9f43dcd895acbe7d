"""The wheel holds all that a run needs and no more; the base needs no extra, and what needs one says which."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "glasshouse"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
#: What only extras may bring, by the extra.
BROUGHT = {
    "federated": {"flwr", "ray"},
    "annotate": {"fastapi", "starlette", "uvicorn", "psycopg", "pyarrow"},
    "ray": {"ray"},
    "dp": {"opacus"},
    "torchmetrics": {"torchmetrics"},
}


def built(folder: Path) -> Path:
    """A wheel of the tree as it is, made aside, so that nothing of an earlier build gets into it."""
    tree = folder / "tree"
    shutil.copytree(SOURCE, tree / "src" / "glasshouse", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    with zipfile.ZipFile(built(tmp_path)) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        metadata = next(wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    files = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert names == {path.relative_to(SOURCE.parent).as_posix() for path in files}
    assert {"glasshouse/py.typed", "glasshouse/reports/templates/report.html"} <= names
    assert {f"Provides-Extra: {extra}" for extra in EXTRAS} <= set(metadata.splitlines())


def closure(wanted: list[str]) -> set[str]:
    """The names of all packages that requirements bring, as far as they are installed here."""
    found: dict[tuple[str, str], None] = {}
    queue = [Requirement(one) for one in wanted]
    while queue:
        one = queue.pop()
        for extra in {"", *one.extras}:
            if (one.name, extra) in found:
                continue
            found[one.name, extra] = None
            inner = EXTRAS.get(extra, []) if one.name == "glasshouse" else requires(one.name) or []
            queue += [new for new in map(Requirement, inner) if not new.marker or new.marker.evaluate({"extra": extra})]
    return {re.sub(r"[-_.]+", "-", name).lower() for name, _ in found}


def test_the_base_brings_neither_ray_nor_the_web_nor_other_extras():
    base = closure(PROJECT["dependencies"])
    assert "torch" in base
    assert base & set().union(*BROUGHT.values()) == set()
    for extra, packages in BROUGHT.items():
        assert packages <= closure([f"glasshouse[{extra}]"])
        assert packages <= closure(["glasshouse[all]"])


def test_every_extra_that_is_asked_for_is_there():
    named = {
        extra
        for path in SOURCE.rglob("*.py")
        for extra in re.findall(r"checks\.from_extra\(\"(\w+)\"", path.read_text(encoding="utf-8"))
    }
    assert {"annotate", "dp", "federated"} <= named <= set(EXTRAS)


#: Runs command lines one after another in a Python where no extra is installed; prints how each ended.
BARE = """
import io, json, sys
from contextlib import redirect_stderr
blocked, lines = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(blocked))
from glasshouse.cli.main import main
ends = []
for line in lines:
    sys.argv = ["glasshouse", *line.split()]
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            main()
    except SystemExit as end:
        ends.append([end.code, said.getvalue()])
print(json.dumps(ends))
"""
COMMANDS = {
    "audit --model mlp --images 1 --attack fc_inversion --defense none --metric psnr --engine inline": None,
    "audit --model mlp --images 1 --attack fc_inversion --engine ray --out o": "Engine 'ray' needs ray, which is not "
    "installed: {ray}",
    "annotate invite audit --annotators 1": None,
    "annotate export audit votes.csv": None,
    "annotate export audit votes.parquet": "Parquet needs pyarrow, which is not installed: {annotate}",
    "annotate serve audit": "The page needs uvicorn, which is not installed: {annotate}",
    "annotate status audit --database postgresql+psycopg://localhost/x": "PostgreSQL needs psycopg, which is not "
    "installed: {annotate}",
    "federate --rounds 1": "A federation needs flwr, which is not installed: {federated}",
    "train net.safetensors --data digits --images 20 --epochs 1 --defense dp_sgd": "dp_sgd needs opacus, which is not "
    "installed: {dp}",
}


def test_without_extras_commands_run_or_say_which_to_install(tmp_path):
    blocked = sorted(set().union(*BROUGHT.values()) | {"pydantic"})
    command = [sys.executable, "-c", BARE, json.dumps([blocked, list(COMMANDS)])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for (line, says), (code, said) in zip(COMMANDS.items(), json.loads(done.stdout.splitlines()[-1]), strict=True):
        assert (code, said) == ((2, refusal(says)) if says else (0, said)), line


def refusal(says: str) -> str:
    """The one line in which a command says what to install."""
    install = {extra: f"pip install 'glasshouse[{extra}]'." for extra in EXTRAS}
    return f"glasshouse: {says.format(**install)}\n"


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("GLASSHOUSE_SOAK"), reason="a fresh environment takes minutes: make soak")
def test_the_wheel_audits_in_a_fresh_environment(tmp_path, record_property):
    wheel = built(tmp_path)
    venv.create(tmp_path / "fresh", with_pip=True)
    binaries, home = tmp_path / "fresh" / "bin", tmp_path / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def tried(*words: str | Path) -> subprocess.CompletedProcess[str]:
        line = [binaries / words[0], *words[1:]]
        return subprocess.run(line, cwd=home, env=environment, capture_output=True, text=True, check=False)

    def run(*words: str | Path) -> str:
        done = tried(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    installed = {one["name"].lower() for one in json.loads(run("python", "-m", "pip", "list", "--format=json"))}
    assert "glasshouse" in installed
    assert installed & set().union(*BROUGHT.values()) == set()
    assert "site-packages" in run("python", "-c", "import glasshouse; print(glasshouse.__file__)")
    run("glasshouse", "weights", "install")
    run("glasshouse", "audit", "--images", "2", "--steps", "20", "--out", "audit")
    found = json.loads((home / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert found["pending"] == 0
    assert found["rows"]
    assert (home / "audit" / "report" / "index.html").is_file()
    refused = {line: refusal(says) for line, says in COMMANDS.items() if says}
    for line, said in refused.items():
        assert tried("glasshouse", *line.split()).stderr == said
    counted = f"{len(installed)} packages, {len(found['per_image'])} scores, {len(refused)} commands named their extra"
    record_property("counted", counted)
