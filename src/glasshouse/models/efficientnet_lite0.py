"""EfficientNet-lite0 as TensorFlow trained it, for judges to look through."""

from __future__ import annotations

from functools import lru_cache

from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.weights import load

#: How often, kernel, stride of the first, growth inside, channels out.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
FEATURES = 1280
MIDDLE = 5  # stages, up to where places are still told apart


class Same(nn.Conv2d):
    """A convolution that pads as TensorFlow does: what is odd goes to the right and below."""

    def forward(self, images: Tensor) -> Tensor:
        """The convolution of padded images."""
        pads = []
        for size, kernel, stride in zip(images.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(images, pads))


def _unit(inputs: int, outputs: int, kernel: int, stride: int = 1, *, groups: int = 1) -> list[nn.Module]:
    convolution = Same(inputs, outputs, kernel, stride, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs, eps=1e-3), nn.ReLU6()]


class Block(nn.Module):
    """Widen, look around in every channel by itself, narrow; the input is added where it fits."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, growth: int) -> None:
        super().__init__()
        inner = inputs * growth
        widen = _unit(inputs, inner, 1) if growth > 1 else []
        around = _unit(inner, inner, kernel, stride, groups=inner)
        self.layers = nn.Sequential(*widen, *around, *_unit(inner, outputs, 1)[:-1])
        self.adds = stride == 1 and inputs == outputs

    def forward(self, images: Tensor) -> Tensor:
        """The block's output."""
        found: Tensor = self.layers(images)
        return found + images if self.adds else found


class EfficientNetLite0(nn.Module):
    """Features (N, 1280) of images (N, 3, H, W) in [0, 1]; ``classifier`` is ImageNet's."""

    def __init__(self) -> None:
        super().__init__()
        layers, inputs = _unit(3, 32, 3, 2), 32
        for times, kernel, stride, growth, outputs in STAGES:
            for number in range(times):
                layers.append(Block(inputs, outputs, kernel, 1 if number else stride, growth))
                inputs = outputs
        self.layers = nn.Sequential(*layers, *_unit(inputs, FEATURES, 1))
        self.classifier = nn.Linear(FEATURES, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Features, averaged over places."""
        found: Tensor = self.layers((images * 255 - 127) / 128)
        return found.mean((2, 3))

    def middle(self, images: Tensor) -> Tensor:
        """Maps (N, 112, H / 16, W / 16) of the fifth of the seven stages."""
        blocks = [place for place, layer in enumerate(self.layers) if isinstance(layer, Block)]
        last = blocks[sum(times for times, *_ in STAGES[:MIDDLE]) - 1]
        found: Tensor = self.layers[: last + 1]((images * 255 - 127) / 128)
        return found


@lru_cache(maxsize=1)
def efficientnet_lite0() -> EfficientNetLite0:
    """With its ImageNet weights, which are named otherwise but come in the order of the layers."""
    network = EfficientNetLite0()
    theirs = load("efficientnet_lite0")
    convolutions, norms = ["_conv_stem"], ["_bn0"]
    for number in range(sum(stage[0] for stage in STAGES)):
        block = f"_blocks.{number}."
        kinds = [kind for kind in ("expand", "depthwise", "project") if f"{block}_{kind}_conv.weight" in theirs]
        convolutions += [f"{block}_{kind}_conv" for kind in kinds]
        norms += [f"{block}_bn{place}" for place in range(3 - len(kinds), 3)]
    named: dict[type[nn.Module], list[str]] = {
        Same: [*convolutions, "_conv_head"],
        nn.BatchNorm2d: [*norms, "_bn1"],
    }
    for kind, names in named.items():
        ours = (module for module in network.layers.modules() if isinstance(module, kind))
        for module, name in zip(ours, names, strict=True):
            module.load_state_dict({key: theirs[f"{name}.{key}"] for key in module.state_dict()})
    network.classifier.load_state_dict({key: theirs[f"_fc.{key}"] for key in ("weight", "bias")})
    return network.requires_grad_(False).eval()
