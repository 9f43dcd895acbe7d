"""The linker: a few steps tell versions and originals apart far better than chance, from public images alone."""

from __future__ import annotations

import pytest
import torch

from glasshouse.attacks.unshuffling.linker import DIMENSIONS, Linker, Training, embed, learn
from glasshouse.attacks.unshuffling.thumbnail import nearest
from glasshouse.errors import SettingError

FEW = Training(steps=25, batch=32, width=8)


def test_it_beats_chance_on_images_it_never_saw(world):
    linker = learn(world.practice(), FEW)
    first, second = (embed(linker.protected, version) for version in world.versions)
    own = torch.arange(len(world.truth))
    linked = float((nearest(second, first) == own).float().mean())
    found = float((nearest(first, embed(linker.raw, world.truth)) == own).float().mean())
    chance = 1 / len(own)
    assert linked > 10 * chance
    assert found > 10 * chance
    untrained = learn(world.practice(), Training(steps=1, batch=32, width=8))
    blind = nearest(embed(untrained.protected, world.versions[0]), embed(untrained.raw, world.truth))
    assert float((blind == own).float().mean()) < found / 2


def test_same_seed_same_result_and_the_global_generator_is_left_alone(world):
    short = {"steps": 2, "batch": 8, "width": 4}
    state = torch.get_rng_state()
    one, two, other = (
        embed(learn(world.practice(), Training(**short, seed=seed)).protected, world.versions[0]) for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("size", [(8, 8), (28, 28), (30, 23)])
@pytest.mark.parametrize("channels", [1, 3])
def test_embeddings_are_unit_vectors_whatever_the_size(size, channels):
    torch.manual_seed(0)
    images = torch.rand(5, channels, *size)
    linker = Linker(channels, 4).eval()
    found = embed(linker.raw, images)
    assert found.shape == (5, DIMENSIONS)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(5))
    torch.testing.assert_close(embed(linker.raw, images, at_once=2), found)
    assert not torch.equal(embed(linker.protected, images), found)


def test_progress_ends_at_one(world):
    shares: list[float] = []
    learn(world.practice(), Training(steps=3, batch=8, width=4), progress=shares.append)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])


@pytest.mark.parametrize("name", ["steps", "batch", "width"])
def test_bad_settings(name):
    with pytest.raises(SettingError, match=f"{name}=0 is out of range"):
        Training(**{name: 0})
