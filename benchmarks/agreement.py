"""Whether the engine's derivatives are autograd's.

A ReLU whose input is zero to rounding may fall to either side, for autograd in single precision as well, and then the
derivative is that of another linear piece. So single precision is compared three times: plainly, beside autograd's own
difference from its double precision; on the piece that the engine is on, where autograd in double precision sends every
ReLU where the engine's went; and by how often a piece changes, beside how often the model's own forward pass lands on
another one when images come eight at a time, or laid out channels last, instead of one by one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from clock import row
from matching import SPEC, derivative, victim
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from glasshouse.attacks.engine.functions import Rectifier
from glasshouse.attacks.engine.matcher import Loop, Stacked
from glasshouse.attacks.engine.objectives import Cosine, Objective
from glasshouse.attacks.engine.tape import Tape
from glasshouse.functional.gradients import parameter_gradients, parameter_names
from glasshouse.functional.intervals import share_interval

MODELS = ("lenet", "resnet20", "convnet8:width=16", "resnet20:width=64")
STARTS = 4  # random images at which derivatives are compared, for each of the victim's
CROWD, TOGETHER = 800, 8  # random images at which pieces are compared, so many in one pass
SINGLE, DOUBLE = 1e-4, 1e-9  # what is wanted in each precision
RELUS = (F.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_)


class Sides(TorchFunctionMode):
    """ReLUs that go where the engine's went in its last step: image by image, in the order of the model's code."""

    def __init__(self, engine: Tape) -> None:
        super().__init__()
        images = zip(*(side.split(1) for side in sides(engine)), strict=True)
        self.taken = iter([one for image in images for one in image])

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The input where the engine's was above zero; any other function as it is."""
        return args[0] * next(self.taken) if func in RELUS else func(*args, **(kwargs or {}))


class SameSides(Loop):
    """Autograd of autograd on the linear piece of the engine's last step."""

    def __init__(self, loop: Loop, engine: Tape) -> None:
        super().__init__(loop.model, loop.group)
        self.engine = engine

    def step(self, images: Tensor, labels: Tensor, target: Stacked, objective: Objective) -> tuple[Tensor, Tensor]:
        """Objectives and derivatives."""
        with Sides(self.engine):
            return super().step(images, labels, target, objective)


class Watched(TorchFunctionMode):
    """Notes where ReLUs are above zero, in the order of the model's code."""

    def __init__(self) -> None:
        super().__init__()
        self.above: list[Tensor] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The function as it is."""
        if func in RELUS:
            self.above.append(args[0] > 0)
        return func(*args, **(kwargs or {}))


def sides(engine: Tape) -> list[Tensor]:
    """Where the ReLUs of a step were above zero."""
    return [entry.node.y > 0 for entry in engine.entries if isinstance(entry.node, Rectifier)]


def run() -> list[dict[str, object]]:
    """Measure every model."""
    torch.set_num_threads(1)
    rectified = [name for name in MODELS if name != "lenet"]
    return [found for name in MODELS for found in agreement(name)] + [pieces(name) for name in rectified]


def agreement(name: str) -> list[dict[str, object]]:
    """Relative differences of the derivative from autograd's in double precision, at the same images."""
    model = victim(name)[0]
    double = copy.deepcopy(model).double()
    single_loop, double_loop = Loop(model, 1), Loop(double, 1)
    single_engine, double_engine = Tape(model, 1), Tape(double, 1)
    plain, direct, itself, same, exact, other, count = [], [], [], [], [], 0, 0
    for start in range(STARTS):
        found, finest = derivative(single_engine, model, start), derivative(double_engine, double, start)
        reference = derivative(double_loop, double, start)
        plain.append(differences(found, reference))
        single = derivative(single_loop, model, start)
        direct.append(differences(found, single))
        itself.append(differences(single, reference))
        same.append(differences(found, derivative(SameSides(double_loop, single_engine), double, start)))
        exact.append(differences(finest, reference))
        pairs = list(zip(sides(single_engine), sides(double_engine), strict=True))
        other += sum(int((first != second).sum()) for first, second in pairs)
        count += sum(first.numel() for first, _ in pairs)
    what = f"{name}: relative difference of the derivative"
    beside = f"by rounding {other} of {count} ReLUs change sides"
    aside = compared(f"{what}, single precision, every ReLU on the same side", same, SINGLE, beside)
    return [
        compared(f"{what}, single precision, from autograd in single precision", direct, SINGLE, "no double precision"),
        compared(f"{what}, single precision", plain, SINGLE, f"autograd from itself: {spread(itself, SINGLE)}"),
        *([aside] if count else []),
        compared(f"{what}, double precision", exact, DOUBLE, "from autograd in double precision"),
    ]


def pieces(name: str) -> dict[str, object]:
    """How often the engine, and how often autograd's own forward pass, is on another piece than one image at a time."""
    model = victim(name)[0]
    turned = copy.deepcopy(model).to(memory_format=torch.channels_last)
    images = torch.rand((CROWD, *SPEC.shape), generator=torch.Generator().manual_seed(0))
    alone = patterns(model, images, 1)
    engine = share_interval(moved(alone, engine_patterns(model, images)), CROWD)
    together = share_interval(moved(alone, patterns(model, images, TOGETHER)), CROWD)
    last = share_interval(moved(alone, patterns(turned, images.to(memory_format=torch.channels_last), TOGETHER)), CROWD)
    double = share_interval(moved(alone, patterns(copy.deepcopy(model).double(), images.double(), TOGETHER)), CROWD)
    text = ", ".join(
        f"{who} {100 * one.mean:.1f} % ({100 * one.low:.1f} to {100 * one.high:.1f})"
        for who, one in {
            "the engine": engine,
            f"autograd's forward pass {TOGETHER} at a time": together,
            "the same channels last": last,
            "the same in double precision": double,
        }.items()
    )
    what = f"{name}: images of {CROWD} on another linear piece than autograd's of one image at a time"
    return row(what, text, "no more than autograd's own", engine.low <= max(together.high, last.high))


def patterns(model: nn.Module, images: Tensor, together: int) -> list[Tensor]:
    """Where each ReLU of a forward pass is above zero, for all images."""
    parts = []
    for own in images.split(together):
        with torch.no_grad(), Watched() as watched:
            model(own)
        parts.append(watched.above)
    return [torch.cat(one) for one in zip(*parts, strict=True)]


def engine_patterns(model: nn.Module, images: Tensor) -> list[Tensor]:
    """Where each ReLU of the engine's steps is above zero, for all images."""
    engine = Tape(model, 1)
    labels = torch.zeros(TOGETHER, dtype=torch.long)
    own = parameter_gradients(model, images[:1], labels[:1])
    names = parameter_names(model)
    target = engine.pack({key: torch.stack([one] * TOGETHER) for key, one in zip(names, own, strict=True)})
    parts = []
    for batch in images.split(TOGETHER):
        engine.step(batch, labels, target, Cosine())
        parts.append(sides(engine))
    return [torch.cat(one) for one in zip(*parts, strict=True)]


def moved(first: Sequence[Tensor], second: Sequence[Tensor]) -> int:
    """At how many images any ReLU is on another side."""
    each = [(a != b).flatten(1).any(1) for a, b in zip(first, second, strict=True)]
    return int(torch.stack(each).any(0).sum())


def compared(what: str, parts: Sequence[Tensor], wanted: float, beside: str) -> dict[str, object]:
    """A row of differences, which should be small at every image."""
    reached = bool(torch.cat(list(parts)).max() < wanted)
    return row(what, f"{spread(parts, wanted)}; {beside}", f"{wanted:.0e}", reached)


def spread(parts: Sequence[Tensor], wanted: float) -> str:
    """The median and the largest difference, and how many images are within what is wanted."""
    every = torch.cat(list(parts))
    held = int((every < wanted).sum())
    return f"median {every.median():.1e}, largest {every.max():.1e}, {held} of {len(every)} within {wanted:.0e}"


def differences(found: Tensor, reference: Tensor) -> Tensor:
    """The largest difference of each image, relative to its largest value: (N,)."""
    return (found - reference).abs().amax((1, 2, 3)) / reference.abs().amax((1, 2, 3))
