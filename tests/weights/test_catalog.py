from __future__ import annotations

import re

import pytest
import torch

from glasshouse import weights
from glasshouse.weights import CATALOG

#: Tensors and numbers in each set of weights; those of MobileNetV2 include its batch norm counters.
SIZES = {
    "alexnet": (10, 2_469_696),
    "vgg16": (26, 14_714_688),
    "lpips_alex": (5, 1_152),
    "lpips_vgg": (5, 1_472),
    "inception_fid": (376, 21_802_784),
    "mobilenet_v2": (314, 3_539_036),
    "efficientnet_lite0": (296, 4_694_073),
}


def test_the_table_covers_the_catalog():
    assert set(SIZES) == set(CATALOG)


@pytest.mark.parametrize("name", CATALOG)
def test_every_entry_is_pinned_and_says_its_terms(name):
    entry = CATALOG[name]
    assert entry.name == name
    assert re.search(r"BSD|Apache|MIT", entry.terms)
    assert len(entry.what) > 10
    assert re.fullmatch(r"[0-9a-f]{64}", entry.packaged.sha256)
    assert re.fullmatch(r"\d+(\.\d+)+", entry.packaged.version)
    assert entry.packaged.member.partition("/")[0] == entry.packaged.package.replace("-", "_")


@pytest.mark.parametrize("name", [name for name, entry in CATALOG.items() if entry.published])
def test_published_files_carry_their_hash_in_the_name(name):
    source = CATALOG[name].published
    assert source.url.startswith("https://")
    assert re.fullmatch(r"[0-9a-f]{8,}", source.hash_prefix)
    assert source.url.endswith(f"-{source.hash_prefix}.pth")


@pytest.mark.parametrize("name", SIZES)
def test_weights_that_are_here_are_whole(name):
    if weights.where(name) is None:
        pytest.skip(f"the weights '{name}' are not here: run 'glasshouse weights install'")
    tensors = weights.load(name)
    floats = [value for value in tensors.values() if value.is_floating_point()]
    assert (len(tensors), sum(value.numel() for value in tensors.values())) == SIZES[name]
    assert all(value.dtype == torch.float32 and bool(value.isfinite().all()) for value in floats)
