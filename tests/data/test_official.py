from __future__ import annotations

import numpy as np
import pytest

from glasshouse import data
from glasshouse.data.base import datasets
from glasshouse.data.official import OfficialDataset
from glasshouse.errors import DataError

NAMES = [name for name in datasets.names() if issubclass(datasets.get(name), OfficialDataset)]
BY_HAND = ("celeba", "orl_faces", "stanford_dogs")


def test_the_table_covers_the_published_sets():
    assert set(NAMES) == set(datasets.names()) - {"photos", "faces", "digits"}


@pytest.mark.parametrize("name", NAMES)
def test_without_a_data_root_the_error_says_how_to_give_one(name, monkeypatch):
    monkeypatch.delenv("GLASSHOUSE_DATA", raising=False)
    with pytest.raises(DataError, match=f"'{name}'.*--data-root.*GLASSHOUSE_DATA.*{name}.npz") as caught:
        data.load(name)
    assert datasets.create(name).source in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_set_that_is_not_there_names_its_files(name, tmp_path):
    with pytest.raises(DataError, match=f"'{name}' is not under") as caught:
        data.load(name, root=tmp_path)
    for part in (str(tmp_path), f"{name}.npz", datasets.create(name).layout()):
        assert part in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("split", "labels"), [("train", [0, 1, 2, 0, 1, 2]), ("test", [2, 1, 0, 1])])
def test_a_packed_file_is_read_under_the_name_and_terms_of_the_set(name, split, labels, tmp_path, save_npz):
    save_npz(tmp_path / f"{name}.npz")
    found = data.load(f"{name}:split={split}", root=tmp_path)
    assert (found.name, found.terms) == (name, datasets.create(name).terms)
    assert list(found.labels) == labels


@pytest.mark.parametrize("name", NAMES)
def test_a_malformed_packed_file_is_refused_by_name(name, tmp_path):
    (tmp_path / f"{name}.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match=rf"{name}\.npz"):
        data.load(name, root=tmp_path)


def test_settings_resize_a_packed_file(tmp_path, save_npz):
    save_npz(tmp_path / "imagenette.npz")
    found = data.load("imagenette:size=5,channels=1", root=tmp_path)
    assert (found.spec.shape, found.read(0).shape) == ((1, 5, 5), (5, 5, 1))


def test_the_packed_file_comes_before_the_official_layout(tmp_path, draw, save_npz):
    for number in (9, 10):
        draw(tmp_path / "orl_faces" / "s1" / f"{number}.pgm", 200)
    assert data.load("orl_faces", root=tmp_path).class_names == ("s1",)
    save_npz(tmp_path / "orl_faces.npz")
    assert data.load("orl_faces", root=tmp_path).class_names == ("ant", "bee", "cat")


def test_the_variable_names_the_root(tmp_path, monkeypatch, save_npz):
    save_npz(tmp_path / "mnist.npz", shape=(28, 28))
    monkeypatch.setenv("GLASSHOUSE_DATA", str(tmp_path))
    assert data.load("mnist").spec.shape == (1, 28, 28)


def test_the_chosen_root_comes_before_the_variable(tmp_path, monkeypatch, save_npz):
    (tmp_path / "chosen").mkdir()
    save_npz(tmp_path / "mnist.npz", shape=(28, 28))
    save_npz(tmp_path / "chosen" / "mnist.npz", shape=(14, 14))
    monkeypatch.setenv("GLASSHOUSE_DATA", str(tmp_path))
    assert data.load("mnist", root=tmp_path / "chosen").spec.shape == (1, 14, 14)


@pytest.mark.parametrize("name", BY_HAND)
def test_sets_that_want_consent_are_not_downloaded(name, tmp_path):
    with pytest.raises(DataError, match=f"'{name}' cannot be downloaded automatically") as caught:
        data.load(name, root=tmp_path, download=True)
    assert datasets.create(name).source in str(caught.value)


def test_what_is_there_is_not_downloaded(tmp_path, save_npz):
    save_npz(tmp_path / "celeba.npz")
    assert len(data.load("celeba", root=tmp_path, download=True)) == 4


REAL = {
    "caltech101": (3, 64, 64, 101),
    "cifar10": (3, 32, 32, 10),
    "cifar100": (3, 32, 32, 100),
    "imagenette": (3, 64, 64, 10),
    "mnist": (1, 28, 28, 10),
    "orl_faces": (1, 112, 92, 40),
    "stanford_dogs": (3, 64, 64, 120),
}


@pytest.mark.parametrize("name", REAL)
def test_real_images_have_the_known_shape_and_every_class(name, real_data):
    if not (real_data / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz is not under {real_data}")
    found = data.load(name, root=real_data)
    images, _ = found.batch(found.spread(20, 0))
    assert (*found.spec.shape, found.spec.classes) == REAL[name]
    assert set(found.labels) == set(range(found.spec.classes))
    assert np.unique(images.flatten(1).numpy(), axis=0).shape[0] == 20
    assert images.min() >= 0
    assert 0.5 < images.max() <= 1
