"""R-GAP: undo a convolutional network layer by layer, from its last to its first, by solving linear equations."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_input

from glasshouse import checks
from glasshouse.attacks.base import InversionAttack, attacks, best
from glasshouse.attacks.fc_inversion import layer_input
from glasshouse.attacks.labels import known_labels
from glasshouse.attacks.targets import mean_gradient
from glasshouse.errors import CapabilityError, ModelError
from glasshouse.functional.gradients import cosine_distance, parameter_gradients, parameter_names
from glasshouse.models import Classifier, normalization
from glasshouse.registry import setting
from glasshouse.types import ImageSpec, Observation, Progress, Reconstruction

LAYERS = (nn.Conv2d, nn.Linear, nn.LeakyReLU, nn.Flatten)
LARGEST = 8192  # unknowns of one layer: its equations take half a gigabyte
PASSES = 30
CONSISTENT = 1e-12  # an untouched gradient in single precision has a thousandth of this misfit
LENGTHS = torch.linspace(-30, 0.5, 1221, dtype=torch.float64)  # logarithms of |softmax - one-hot|, at most sqrt(2)


@attacks.register("rgap")
@dataclass(frozen=True, kw_only=True)
class RGAP(InversionAttack):
    """The input of each layer from its output and its gradient, both linear in the input, by least squares."""

    paper: ClassVar[str] = "Zhu and Blaschko 2021, R-GAP: Recursive Gradient Attack on Privacy"
    version: ClassVar[int] = 2

    gradient_weight: float = setting(
        1.0, "weight of the gradient's equations; at 1 an average one counts like one of the forward pass"
    )
    damping: float = setting(1e-10, "added to the diagonal of the normal equations, relative to its mean")

    def __post_init__(self) -> None:
        checks.at_least("gradient_weight", self.gradient_weight, 0)
        checks.at_least("damping", self.damping, 1e-14)

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse batches, and networks that cannot be undone layer by layer."""
        super().refuse(model, seen)
        if seen.batch_size > 1:
            raise CapabilityError(
                f"Attack '{self.name}' needs a gradient of one image, not of {seen.batch_size}: "
                "use a batch of 1, or invgrad."
            )
        reason = _not_a_chain(model)
        if reason:
            raise ModelError(
                f"Attack '{self.name}' needs a chain of convolutions with LeakyReLU and a linear layer at its end, but "
                f"this model {reason}. Use invgrad, or a model such as rgapnet."
            )
        _refuse_unsolvable(self.name, model, seen.image)

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Find the input of the last layer in closed form, then that of each layer before it."""
        labels = known_labels(model, seen)
        shared = mean_gradient(seen)
        target = [shared[name].double() for name in parameter_names(model)]
        precise = copy.deepcopy(model).double()  # fresh networks tell an image from a darker one by little
        mean, std = normalization(model)
        layers = _layers(model)
        names = {module: name for name, module in model.named_modules()}
        gradients = {layer: shared[f"{names[layer]}.weight"].double() for layer in layers if hasattr(layer, "weight")}
        last = cast(nn.Linear, layers[-1])
        bias = None if last.bias is None else shared[f"{names[last]}.bias"].double()
        tries = []
        for features, pull in _features(last, gradients[last], bias, int(labels[0])):
            pixels = self._recursion(layers, gradients, features, pull, seen.image, progress)
            images = (pixels[None] * std + mean).clamp(0, 1).float()
            objective = cosine_distance(parameter_gradients(precise, images.double(), labels), target)
            tries.append(Reconstruction(images, float(objective), labels))
        progress(1.0)
        return best(self.name, tries)

    def _recursion(
        self,
        layers: list[nn.Module],
        gradients: dict[nn.Module, Tensor],
        value: Tensor,
        pull: Tensor,
        image: ImageSpec,
        progress: Progress,
    ) -> Tensor:
        """Go from the last layer's input and the loss's pull at its output back to the network's own input."""
        shapes = _shapes(layers, image)
        pull = pull @ _weight(layers[-1])
        for place in range(len(layers) - 2, -1, -1):
            layer, shape = layers[place], shapes[place]
            if isinstance(layer, nn.LeakyReLU):
                slope = torch.where(value < 0, layer.negative_slope, 1.0)
                value, pull = value / slope, pull * slope
            elif isinstance(layer, nn.Linear):
                value, pull = pull @ gradients[layer] / pull.square().sum(), pull @ _weight(layer)
            elif isinstance(layer, nn.Conv2d):
                bias = 0.0 if layer.bias is None else layer.bias.detach().double()[:, None, None]
                convolution = Convolution.of(layer, shape)
                value = convolution.undone(value - bias, pull, gradients[layer], self.gradient_weight, self.damping)
                pull = convolution.back(convolution.weight, pull)
            value, pull = value.reshape(shape), pull.reshape(shape)
            progress(0.9 * (1 - place / len(layers)))
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """A convolution without bias of inputs (C, H, W), in double precision, as two sets of linear equations."""

    weight: Tensor
    shape: torch.Size
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(cls, layer: nn.Conv2d, shape: torch.Size) -> Convolution:
        """The convolution of a layer that sees inputs of a shape."""
        padding = cast(tuple[int, ...], layer.padding)
        return cls(_weight(layer), shape, layer.stride, padding, layer.dilation)

    def undone(self, output: Tensor, pull: Tensor, gradient: Tensor, share: float, damping: float) -> Tensor:
        """The input (C, H, W) behind an output (O, H', W') and the weight's gradient, by least squares.

        ``pull`` (O, H', W') is the derivative of the loss at the output: the gradient is the input summed up with
        it, as linear in the input as the output is. The normal equations of the two are added.
        """
        matrix, moved = self._forward_equations(), self._gradient_equations(pull)
        length, moved_length = self.weight.square().sum() / len(self.weight), moved.square().sum() / len(moved)
        balance = torch.where(moved_length > 0, share * length / moved_length, 0.0)
        right = self.back(self.weight, output) + balance * self.back(gradient, pull)
        channels, pixels = self.shape[0], self.shape[1] * self.shape[2]
        per_channel = matrix.view(channels, pixels, channels, pixels).diagonal(dim1=0, dim2=2)
        per_channel.add_(balance * (moved.T @ moved)[..., None])
        matrix.diagonal().add_(damping * matrix.diagonal().mean())
        return torch.cholesky_solve(right.reshape(-1, 1), torch.linalg.cholesky(matrix)).view(self.shape)

    def back(self, weight: Tensor, output: Tensor) -> Tensor:
        """The transpose of a convolution with some weight: from the side of outputs to that of inputs, (C, H, W)."""
        found: Tensor = conv2d_input((1, *self.shape), weight, output[None], self.stride, self.padding, self.dilation)
        return found[0]

    def _windows(self, channels: int) -> Tensor:
        """Which input, counted from 1, a kernel entry sees at an output place; 0 is padding: (entries, places)."""
        count = channels * self.shape[1] * self.shape[2]
        numbers = torch.arange(1, count + 1, dtype=torch.float64).view(1, channels, *self.shape[1:])
        return F.unfold(numbers, self.weight.shape[2:], self.dilation, self.padding, self.stride)[0].long()

    def _forward_equations(self) -> Tensor:
        """The normal matrix of 'the convolved input is the output': (inputs, inputs)."""
        kernels = self.weight.flatten(1)
        gram = kernels.T @ kernels
        matrix = torch.zeros(self.shape.numel(), self.shape.numel(), dtype=torch.float64)
        for window in self._windows(self.shape[0]).T:
            inside = window > 0
            places = window[inside] - 1
            matrix[places[:, None], places] += gram[inside][:, inside]
        return matrix

    def _gradient_equations(self, pull: Tensor) -> Tensor:
        """The matrix of 'the input summed up with the pulls is the gradient', alike for each channel: (O k k, H W)."""
        windows = self._windows(1)
        matrix = torch.zeros(len(pull), len(windows), self.shape[1] * self.shape[2], dtype=torch.float64)
        for entry, window in enumerate(windows):
            inside = window > 0
            matrix[:, entry, window[inside] - 1] = pull.flatten(1)[:, inside]
        return matrix.flatten(0, 1)


def _features(
    layer: nn.Linear, gradient: Tensor, bias_gradient: Tensor | None, label: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """What the last layer may have seen, (features,), with the pull at its logits, softmax minus one-hot: (classes,).

    With a bias the pull is the bias gradient. Without one the weight gradient tells both up to a length, and only
    one length makes the pull that of the features' own logits. Where none does, somebody changed the gradient: as
    clipping does, by a factor, or otherwise; both guesses are given.
    """
    if bias_gradient is not None:
        yield layer_input(gradient, bias_gradient, passes=PASSES)[0], bias_gradient
        return
    left, sizes, right = torch.linalg.svd(gradient, full_matrices=False)
    sign = -torch.sign(left[label, 0])
    direction, features = sign * left[:, 0], sign * sizes[0] * right[0]
    logits = _weight(layer) @ features
    target = F.one_hot(torch.tensor(label), len(logits)).double()

    def pulls(lengths: Tensor) -> Tensor:
        return cast(Tensor, (logits / lengths).softmax(-1) - target)

    length, misfit = _smallest(lambda lengths: pulls(lengths) / lengths - direction)
    yield features / length, direction * length
    if misfit > CONSISTENT and len(logits) > 2:
        length, _ = _smallest(lambda lengths: F.normalize(pulls(lengths), dim=-1) - direction)
        yield features / length, direction * length


def _smallest(error: Callable[[Tensor], Tensor]) -> tuple[float, float]:
    """The length of least squared error, the best of a grid made precise, and that error.

    ``error`` takes lengths (N, 1) and returns vectors (N, classes).
    """

    def misfit(logarithms: Tensor) -> Tensor:
        return error(logarithms[:, None].exp()).square().sum(-1)

    near = int(misfit(LENGTHS).argmin())
    ends = float(LENGTHS[max(near - 1, 0)]), float(LENGTHS[min(near + 1, len(LENGTHS) - 1)])
    found = minimize_scalar(lambda one: float(misfit(LENGTHS.new_tensor([one]))), bounds=ends, options={"xatol": 1e-12})
    return math.exp(found.x), float(found.fun)


def _layers(model: nn.Module) -> list[nn.Module]:
    """The layers of a network of nested ``nn.Sequential`` in order, without those that do nothing."""
    network = model.network if isinstance(model, Classifier) else model
    if not isinstance(network, nn.Sequential):
        return [network]
    return [layer for part in network for layer in _layers(part) if not isinstance(layer, nn.Identity)]


def _weight(layer: nn.Module) -> Tensor:
    weight: Tensor = cast(nn.Linear, layer).weight
    return weight.detach().double()


def _shapes(layers: list[nn.Module], image: ImageSpec) -> list[torch.Size]:
    """The shape, without the batch, of what each layer sees, and of what the last one gives."""
    value = torch.zeros(1, *image.shape)
    shapes = [value.shape[1:]]
    with torch.no_grad():
        for layer in layers:
            value = layer(value)
            shapes.append(value.shape[1:])
    return shapes


def _not_a_chain(model: nn.Module) -> str | None:
    """Why the layers of a model cannot be undone one after another, or nothing."""
    layers = _layers(model)
    others = sorted({type(layer).__name__ for layer in layers if not isinstance(layer, LAYERS)})
    if others:
        return f"has {', '.join(others)}"
    if not isinstance(layers[-1], nn.Linear) or not any(isinstance(layer, nn.Conv2d) for layer in layers):
        return f"ends in {type(layers[-1]).__name__} or has no convolution"
    for layer in layers:
        if isinstance(layer, nn.LeakyReLU) and layer.negative_slope <= 0:
            return f"has a LeakyReLU of slope {layer.negative_slope:g}, which cannot be undone"
        if isinstance(layer, nn.Conv2d) and (
            layer.groups > 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str)
        ):
            return "has a convolution with groups, or with padding other than a number of zeros"
        if not all(parameter.requires_grad for parameter in layer.parameters()):
            return f"has a {type(layer).__name__} whose gradient is not shared"
    return None


def _refuse_unsolvable(attack: str, model: nn.Module, image: ImageSpec) -> None:
    """Refuse images at which the input of some convolution cannot be solved for."""
    layers = _layers(model)
    shapes = _shapes(layers, image)
    size = f"{image.height}x{image.width}"
    for place, layer in enumerate(layers):
        if not isinstance(layer, nn.Conv2d):
            continue
        shape, places = shapes[place], shapes[place + 1][1:].numel()
        window = layer.weight[0].numel()
        kernels, pulls = min(layer.out_channels, window), min(layer.out_channels, places)
        # kernels times pulls of them say the same: a pull times an output is a kernel times a gradient
        equations = kernels * places + pulls * window - kernels * pulls
        if equations < shape.numel():
            raise ModelError(
                f"Attack '{attack}' solves for what each convolution saw, and images of {size} pixels leave one with "
                f"{equations} equations for {shape.numel()} unknowns: use a model with more channels, or invgrad."
            )
        if shape.numel() > LARGEST:
            raise ModelError(
                f"Attack '{attack}' solves for what each convolution saw, which is {shape.numel()} unknowns at "
                f"{size} pixels and may be {LARGEST}: use smaller images (--size), fewer channels, or invgrad."
            )
