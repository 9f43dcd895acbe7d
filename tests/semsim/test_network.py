"""Unit vectors, exact zeros, symmetry, and the evidence of the frozen trunk."""

from __future__ import annotations

import pytest
import torch

from glasshouse.errors import ModelError, SettingError
from glasshouse.models.trunks import lpips_weights
from glasshouse.semsim import Embedding, Network, Perceptual, load, save
from glasshouse.semsim.backbones import build
from glasshouse.semsim.network import _without_classifier, structure
from glasshouse.weights import load as load_weights
from glasshouse.weights import where


@pytest.fixture(scope="module", params=["embedding", "perceptual"])
def network(request):
    torch.manual_seed(0)
    made = Embedding("lenet:spread=0.1", 32) if request.param == "embedding" else Perceptual(64)
    return made.eval()


def test_vectors_have_length_one_whatever_the_images(network, rng):
    for shape in ((2, 3, 32, 32), (2, 1, 28, 28), (1, 3, 112, 92)):
        found = network(torch.rand(shape, generator=rng))
        assert torch.allclose(found.norm(dim=1), torch.ones(len(found)), atol=1e-5)


def test_distance_is_a_distance(network, photos):
    with torch.no_grad():
        there, back = network.distances(photos, photos.flip(0)), network.distances(photos.flip(0), photos)
        assert torch.equal(network.distances(photos, photos), torch.zeros(4))
        assert torch.equal(there, back)
        assert 0 < float(there.min()) <= float(there.max()) <= 2
        pairs = zip(photos.split(1), photos.flip(0).split(1), strict=True)
        alone = torch.cat([network.distances(one, other) for one, other in pairs])
    assert torch.allclose(alone, there, atol=1e-5)


def test_l2_and_cosine_are_two_words_for_one_thing(network, photos):
    with torch.no_grad():
        cosine = (network(photos) * network(photos.flip(0))).sum(1)
        found = network.distances(photos, photos.flip(0))
    assert torch.allclose(found, (2 * (1 - cosine)).sqrt(), atol=1e-3)


def test_what_the_trunk_saw_once_gives_the_same_distances(judged):
    torch.manual_seed(1)
    network = Perceptual(64).eval()
    torch.nn.init.normal_(network.weights)
    places = torch.tensor([0, 5, 17, 42])
    with torch.no_grad():
        quick = network.measure(judged.originals, judged.guesses, judged.owners)(places)
        plain = network.distances(judged.originals[judged.owners[places]], judged.guesses[places])
    assert torch.allclose(quick, plain, atol=1e-4)


def test_the_trunk_is_not_trained():
    trained = {name for name, value in Perceptual(64).named_parameters() if value.requires_grad}
    assert trained == {"weights", "head.weight", "balance"}


def test_every_network_says_how_it_is_measured():
    assert Network.__abstractmethods__ == {"features", "measure"}


def test_sizes_and_backbones_that_cannot_be():
    with pytest.raises(SettingError, match="size"):
        Perceptual(4)
    with pytest.raises(SettingError, match="Unknown model 'resnet19'"):
        Embedding("resnet19")
    with pytest.raises(ModelError, match="no linear layer"):
        _without_classifier(torch.nn.Sequential(torch.nn.ReLU()))


def test_structure_is_what_ssim_compares(rng):
    first, second = (torch.rand((1, 3, 32, 32), generator=rng) for _ in range(2))
    found = (structure(first, 32) * structure(second, 32)).sum(1).view(32, 32)
    line = torch.exp(-((torch.arange(7) - 3.0) ** 2) / 4.5)
    weights = torch.outer(line, line) / line.sum() ** 2
    for row, column in ((3, 3), (10, 20), (28, 5)):
        one, other = (
            image.mean(1)[0, row - 3 : row + 4, column - 3 : column + 4].double() for image in (first, second)
        )
        one, other = (patch - (weights * patch).sum() for patch in (one, other))
        spreads = [(weights * patch**2).sum() + 0.03**2 for patch in (one, other)]
        expected = (weights * one * other).sum() / (spreads[0] * spreads[1]).sqrt()
        assert float(found[row, column]) == pytest.approx(float(expected), abs=1e-5)


def test_flat_images_have_no_structure_and_contrast_changes_none(rng):
    image = torch.rand((1, 3, 32, 32), generator=rng)
    assert structure(torch.full((1, 3, 32, 32), 0.4), 16).abs().max() < 1e-4
    same = (structure(image, 32) * structure(0.1 + 0.8 * image, 32)).sum(1)
    assert float(same.mean()) > 0.95


def test_distances_are_those_of_the_vectors(rng):
    network = Perceptual(size=64).eval()
    first, second = (torch.rand((3, 3, 32, 32), generator=rng) for _ in range(2))
    with torch.no_grad():
        expected = (network(first) - network(second)).norm(dim=1)
        torch.testing.assert_close(network.distances(first, second), expected, atol=1e-5, rtol=1e-4)


def test_a_pretrained_network_begins_where_lpips_ended():
    if missing := [name for name in ("alexnet", "lpips_alex") if where(name) is None]:
        pytest.skip(f"no weights of {', '.join(missing)} here")
    importance = Perceptual.pretrained(64).importance().detach()
    places, channels = importance[: 2 * 49], importance[2 * 49 :]
    torch.testing.assert_close(places, torch.full((98,), 0.1))
    published = torch.cat(lpips_weights("alex"))
    assert len(channels) == len(published)
    assert float((channels - published).abs().max()) < 1e-4  # a channel that counts nothing can still learn to
    assert float(importance.min()) > 0


def test_a_network_of_the_paper_may_begin_with_published_weights(tmp_path):
    if where("mobilenet_v2") is None:
        pytest.skip("no weights of mobilenet_v2 here")
    name = "features.1.conv.0.0.weight"
    fresh, begun = (
        next(value for key, value in build("mobilenet_v2", pretrained=published).state_dict().items() if name in key)
        for published in (None, True)
    )
    taught = load_weights("mobilenet_v2")[name]
    assert torch.equal(begun, taught)
    assert not torch.equal(fresh, taught)
    save(build("mobilenet_v2", pretrained=True), tmp_path / "own.safetensors", judges="nobody")
    assert load(tmp_path / "own.safetensors").backbone == "mobilenet_v2"  # and whoever reads it needs no other weights
    with pytest.raises(SettingError, match="resnet18 cannot be trained with published weights: use alexnet, mob"):
        build("resnet18", pretrained=True)
    with pytest.raises(SettingError, match="alexnet cannot be trained from fresh weights"):
        build("alexnet", pretrained=False)


def test_the_haze_blurs_and_changes_no_colour(rng):
    image = torch.rand((1, 3, 64, 64), generator=rng)
    network = Perceptual(64)
    reach = 4
    line = torch.exp(-(torch.arange(-reach, reach + 1) ** 2) / (2 * (64 / 48) ** 2))
    square = torch.outer(line, line)
    padded = torch.nn.functional.pad(image, (reach,) * 4, mode="reflect")
    slow = torch.empty_like(image)
    for row in range(64):
        for column in range(64):
            window = padded[0, :, row : row + 9, column : column + 9]
            slow[0, :, row, column] = (window * square).sum((1, 2)) / square.sum()
    torch.testing.assert_close(network.prepare(image), slow, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(network.prepare(torch.full((1, 1, 9, 9), 0.3)), torch.full((1, 3, 64, 64), 0.3))
    for side in ((32, 32), (112, 92)):
        other = torch.rand((1, 3, *side), generator=rng)
        torch.testing.assert_close(network.prepare(other), network.prepare(Network.prepare(network, other)))
