from __future__ import annotations

import gzip
import hashlib
import socket
import struct
import tarfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.error import URLError

import numpy as np
import pytest
from torchvision import datasets as vision

from glasshouse import data
from glasshouse.data.cifar10 import FOLDER
from glasshouse.data.download import fetch
from glasshouse.errors import DataError


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *parts):
        """Say nothing."""


def md5(content):
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder, and the address at which a server on this machine publishes it."""
    (tmp_path / "site").mkdir()
    handler = partial(QuietHandler, directory=str(tmp_path / "site"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield tmp_path / "site", f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def mirror(site, monkeypatch):
    """A mirror of MNIST with three images in each split, as torchvision would find it on the web."""
    folder, address = site
    resources = []
    for prefix in ("train", "t10k"):
        parts = {"images-idx3": np.full((3, 28, 28), 9, np.uint8), "labels-idx1": np.array([3, 1, 2], np.uint8)}
        for kind, array in parts.items():
            head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            content = gzip.compress(head + array.tobytes())
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(content)
            resources.append((f"{prefix}-{kind}-ubyte.gz", md5(content)))
    monkeypatch.setattr(vision.MNIST, "resources", resources)
    monkeypatch.setattr(vision.MNIST, "mirrors", [address])
    return folder


def test_a_download_is_read_at_once(tmp_path, mirror):
    found = data.load("mnist", root=tmp_path / "data", download=True)
    assert list(found.labels) == [3, 1, 2]
    assert (found.read(0) == 9).all()


def test_nothing_is_downloaded_unasked(tmp_path, mirror):
    with pytest.raises(DataError, match="--download"):
        data.load("mnist", root=tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_damaged_download_is_refused(tmp_path, mirror):
    (mirror / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(DataError, match=r"MNIST cannot be downloaded") as caught:
        fetch("MNIST", tmp_path / "data")
    assert "corrupted" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_not_there_says_to_copy_the_files(tmp_path, site, monkeypatch):
    monkeypatch.setattr(vision.CIFAR10, "url", f"{site[1]}cifar.tar.gz")
    with pytest.raises(DataError, match=f"CIFAR10 cannot be downloaded.*404.*{tmp_path} by hand"):
        fetch("CIFAR10", tmp_path)


def test_a_site_that_nobody_answers_at_says_to_copy_the_files(tmp_path, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(vision.CIFAR10, "url", f"http://127.0.0.1:{port}/cifar.tar.gz")
    with pytest.raises(DataError, match=f"CIFAR10 cannot be downloaded.*{tmp_path} by hand"):
        fetch("CIFAR10", tmp_path)


def test_an_archive_of_cifar10_is_unpacked_and_read(tmp_path, site, monkeypatch, python2_pickle):
    source, address = site
    batch = {b"data": np.full((2, 3072), 5, np.uint8), b"labels": [1, 0]}
    files = {name: python2_pickle(batch) for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")}
    files["batches.meta"] = python2_pickle({b"label_names": [b"ant", b"bee"]})
    with tarfile.open(source / "cifar-10-python.tar.gz", "w:gz") as archive:
        for name, content in files.items():
            (source / name).write_bytes(content)
            archive.add(source / name, f"{FOLDER}/{name}")
    sums = {name: md5(content) for name, content in files.items()}
    for attribute, value in {
        "url": f"{address}cifar-10-python.tar.gz",
        "tgz_md5": md5((source / "cifar-10-python.tar.gz").read_bytes()),
        "train_list": [[name, sums[name]] for name in files if name.startswith("data")],
        "test_list": [["test_batch", sums["test_batch"]]],
        "meta": {"filename": "batches.meta", "key": "label_names", "md5": sums["batches.meta"]},
    }.items():
        monkeypatch.setattr(vision.CIFAR10, attribute, value)
    found = data.load("cifar10", root=tmp_path / "data", download=True)
    assert (list(found.labels), found.class_names) == ([1, 0], ("ant", "bee"))


@pytest.mark.parametrize(
    ("name", "vision_name", "options"),
    [
        ("caltech101", "Caltech101", {}),
        ("cifar10", "CIFAR10", {}),
        ("cifar100", "CIFAR100", {}),
        ("imagenette", "Imagenette", {"size": "160px"}),
        ("mnist", "MNIST", {}),
    ],
)
@pytest.mark.parametrize("failure", [URLError("no network"), RuntimeError("no network"), OSError("no network")])
def test_every_set_asks_torchvision_and_says_why_it_failed(name, vision_name, options, failure, tmp_path, monkeypatch):
    asked = []

    def refuse(**arguments):
        asked.append(arguments)
        raise failure

    monkeypatch.setattr(vision, vision_name, refuse)
    with pytest.raises(DataError, match=f"{vision_name} cannot be downloaded .*no network.*{tmp_path}"):
        data.load(name, root=tmp_path, download=True)
    assert asked == [{"root": str(tmp_path), "download": True, **options}]
