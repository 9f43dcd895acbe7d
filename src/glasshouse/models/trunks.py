"""Published feature networks that metrics look through, with their real weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.torchvision_cpu import allow_cpu_torchvision
from glasshouse.weights import load

allow_cpu_torchvision()
from torchvision import models as vision  # noqa: E402 - needs the line above
from torchvision.models import inception  # noqa: E402

ALEXNET_TAPS = (1, 4, 7, 9, 11)


class Slices(nn.Module):
    """A chain of layers that returns its activations at several places."""

    def __init__(self, layers: nn.Sequential, taps: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = layers
        self.taps = taps

    def forward(self, images: Tensor) -> list[Tensor]:
        """The activations after the tapped layers, first to last."""
        found = []
        for number, layer in enumerate(self.layers):
            images = layer(images)
            if number in self.taps:
                found.append(images)
        return found


@lru_cache(maxsize=1)
def alexnet() -> Slices:
    """AlexNet's five rectified convolutions with ImageNet weights."""
    return _trunk(vision.alexnet, ALEXNET_TAPS, "alexnet")


@lru_cache(maxsize=1)
def vgg16() -> Slices:
    """VGG16's last rectified convolution of each of five stages with ImageNet weights."""
    return _trunk(vision.vgg16, (3, 8, 15, 22, 29), "vgg16")


@lru_cache(maxsize=2)
def lpips_weights(net: str) -> list[Tensor]:
    """How much each channel of the five layers of alex or vgg counts to people (LPIPS 0.1), (channels,) each."""
    heads = load(f"lpips_{net}")
    return [heads[f"lin{number}.model.1.weight"].flatten() for number in range(5)]


@lru_cache(maxsize=1)
def mobilenet_v2() -> nn.Sequential:
    """MobileNetV2's convolutions (N, 1280, H / 32, W / 32) with ImageNet weights."""
    return _filled(vision.mobilenet_v2, "mobilenet_v2").requires_grad_(False).eval()


def empty_alexnet() -> Slices:
    """The same with fresh weights, for those who bring their own."""
    with torch.device("meta"):  # the classifier, which is cut off, would take a second to fill
        layers = vision.alexnet(weights=None).features
    layers.to_empty(device="cpu").apply(_reset)
    return _cut(layers, ALEXNET_TAPS)


def _reset(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d):
        layer.reset_parameters()


def _filled(build: Callable[[], Any], name: str) -> nn.Sequential:
    """The convolutions of a network with published weights; to draw others first would take a second and more."""
    with torch.device("meta"):
        layers: nn.Sequential = build().features
    weights = {key.removeprefix("features."): value for key, value in load(name).items() if "classifier" not in key}
    layers.to_empty(device="cpu").load_state_dict(weights)
    return layers


def _trunk(build: Callable[[], Any], taps: tuple[int, ...], name: str) -> Slices:
    return _cut(_filled(build, name), taps)


def _cut(layers: nn.Sequential, taps: tuple[int, ...]) -> Slices:
    """The layers up to the last tap, frozen."""
    return Slices(nn.Sequential(*list(layers)[: taps[-1] + 1]), taps).requires_grad_(False).eval()


class _MixedA(inception.InceptionA):  # type: ignore[misc]
    def _forward(self, x: Tensor) -> list[Tensor]:
        outputs: list[Tensor] = super()._forward(x)
        return [*outputs[:-1], self.branch_pool(_average(x))]


class _MixedC(inception.InceptionC):  # type: ignore[misc]
    def _forward(self, x: Tensor) -> list[Tensor]:
        outputs: list[Tensor] = super()._forward(x)
        return [*outputs[:-1], self.branch_pool(_average(x))]


class _MixedE(inception.InceptionE):  # type: ignore[misc]
    def _forward(self, x: Tensor) -> list[Tensor]:
        outputs: list[Tensor] = super()._forward(x)
        return [*outputs[:-1], self.branch_pool(_average(x))]


class _MixedLast(inception.InceptionE):  # type: ignore[misc]
    def _forward(self, x: Tensor) -> list[Tensor]:
        outputs: list[Tensor] = super()._forward(x)
        return [*outputs[:-1], self.branch_pool(F.max_pool2d(x, 3, 1, 1))]


def _average(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


class InceptionFID(nn.Module):
    """The Inception-v3 that FID was defined with: torchvision's, but for how its mixed blocks pool."""

    def __init__(self) -> None:
        super().__init__()
        network = vision.inception_v3(weights=None, aux_logits=False, init_weights=False)
        for name, block, inputs in (
            ("Mixed_5b", _MixedA, (192, 32)),
            ("Mixed_5c", _MixedA, (256, 64)),
            ("Mixed_5d", _MixedA, (288, 64)),
            ("Mixed_6b", _MixedC, (768, 128)),
            ("Mixed_6c", _MixedC, (768, 160)),
            ("Mixed_6d", _MixedC, (768, 160)),
            ("Mixed_6e", _MixedC, (768, 192)),
            ("Mixed_7b", _MixedE, (1280,)),
            ("Mixed_7c", _MixedLast, (2048,)),
        ):
            setattr(network, name, block(*inputs))
        network.fc = nn.Identity()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Features (N, 2048) of images (N, 3, H, W) in [0, 1]."""
        return self.look(F.interpolate(images, size=(299, 299), mode="bilinear", align_corners=False))

    def look(self, images: Tensor) -> Tensor:
        """The same of images at the size that they have."""
        features: Tensor = self.network((images * 255 - 128) / 128)
        return features

    def middle(self, images: Tensor) -> Tensor:
        """Maps (N, 768, about H / 18, W / 18) of the first five mixed blocks."""
        found = (images * 255 - 128) / 128
        for name, layer in self.network.named_children():
            found = layer(found)
            if name == "Mixed_6b":
                break
        return found


@lru_cache(maxsize=1)
def inception_fid() -> InceptionFID:
    """FID's Inception-v3 with its weights; the file lists the convolutions in torchvision's own order."""
    trunk = InceptionFID()
    tensors = load("inception_fid")
    blocks = [module for module in trunk.modules() if isinstance(module, inception.BasicConv2d)]
    with torch.no_grad():
        for number, block in enumerate(blocks):
            block.conv.weight.copy_(tensors[f"{number:03d}.weight"])
            block.bn.weight.fill_(1)
            block.bn.bias.copy_(tensors[f"{number:03d}.beta"])
            block.bn.running_mean.copy_(tensors[f"{number:03d}.mean"])
            block.bn.running_var.copy_(tensors[f"{number:03d}.var"])
    return trunk.requires_grad_(False).eval()
