"""LPIPS against the authors' package with the same backbone."""

from __future__ import annotations

import lpips as reference
import pytest
import torch
from torch import nn

from glasshouse import weights
from glasshouse.errors import WeightsError
from glasshouse.metrics import create
from glasshouse.metrics.lpips import TRUNKS

NAMES = {"alex": ("alexnet", "lpips_alex"), "vgg": ("vgg16", "lpips_vgg")}


@pytest.mark.parametrize("net", ["alex", "vgg"])
def test_against_the_lpips_package(net, photos, rng, monkeypatch):
    if any(weights.where(name) is None for name in NAMES[net]):
        pytest.skip("the weights are not here: run 'glasshouse weights install'")
    for draw in ("kaiming_normal_", "kaiming_uniform_", "normal_"):  # of weights that are not kept
        monkeypatch.setattr(nn.init, draw, lambda tensor, *_, **__: tensor)
    theirs = reference.LPIPS(net=net, pnet_rand=True, verbose=False)
    pairs = zip(_convolutions(theirs.net), _convolutions(TRUNKS[net]()), strict=True)
    for first, second in pairs:
        first.load_state_dict(second.state_dict())
    truth = nn.functional.interpolate(photos, size=(64, 64), mode="bilinear")
    guess = (truth + 0.2 * torch.randn(truth.shape, generator=rng)).clamp(0, 1)
    with torch.no_grad():
        expected = theirs(truth, guess, normalize=True).flatten()
    mine = create(f"lpips:net={net}")
    torch.testing.assert_close(mine(truth, guess), expected, rtol=1e-4, atol=1e-6)


def _convolutions(network: nn.Module) -> list[nn.Module]:
    return [module for module in network.modules() if isinstance(module, nn.Conv2d)]


def test_small_images_are_enlarged(photos):
    if weights.where("alexnet") is None:
        pytest.skip("the weights are not here: run 'glasshouse weights install'")
    small = nn.functional.interpolate(photos, size=(8, 8), mode="area")
    assert create("lpips")(small, small.flip(3)).isfinite().all()


def test_missing_weights_say_what_to_do(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path))
    TRUNKS["alex"].cache_clear()
    try:
        with pytest.raises(WeightsError, match="glasshouse weights install"):
            create("lpips")(photos, photos)
    finally:
        TRUNKS["alex"].cache_clear()
