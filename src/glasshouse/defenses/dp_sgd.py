"""DP-SGD: the gradient of every image is clipped by itself, and noise on their sum makes a promise that is proved."""

from __future__ import annotations

import copy
import dataclasses
import logging
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from glasshouse import checks
from glasshouse.defenses.base import Defense, defenses
from glasshouse.errors import ModelError, SettingError
from glasshouse.functional.accounting import Account
from glasshouse.models.batchnorm import batchnorm_layers
from glasshouse.registry import setting
from glasshouse.training import Computed, Samples
from glasshouse.types import Stage

log = logging.getLogger(__name__)

GROUPS = (32, 16, 8, 4, 2, 1)
CHANNELS_PER_GROUP = 4  # a group of one channel on a map of one pixel would normalize everything away
NUMBERS_AT_ONCE = 2**26  # entries of gradients per image that are held at a time, 256 MB
PER_PARAMETER, OVERALL = 1e-3, 1e-5  # how far the gradients per image may miss the gradient of their sum

OPACUS_ERRORS = (RuntimeError, ValueError, TypeError, AttributeError, LookupError)  # of networks it cannot look into


@defenses.register("dp_sgd")
@dataclass(frozen=True, kw_only=True)
class DPSGD(Defense):
    """Clips every image's gradient to a norm, sums them, adds noise in proportion to the norm, and averages.

    The noise is what (epsilon, delta) costs over all steps of a training whose batches are drawn at random
    (Poisson). ``epsilon=inf`` adds none and ``norm=inf`` does not clip; both together are the control that shows
    what replacing batch norm alone does.
    """

    paper: ClassVar[str] = "Abadi et al. 2016, Deep Learning with Differential Privacy"
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.COMPUTING})
    poisson: ClassVar[bool] = True
    follows_device: ClassVar[bool] = False  # Opacus draws its noise where the gradients lie, with our CPU's generator

    epsilon: float = setting(8.0, "privacy loss of the whole training, smaller is safer; inf: no noise")
    delta: float = setting(1e-5, "chance that epsilon does not hold; well below one over the number of images")
    norm: float = setting(1.0, "largest L2 norm of one image's gradient; inf: no clipping, needs epsilon=inf")
    steps: int = setting(1000, "steps that epsilon covers; a training puts in its own")
    sample_rate: float = setting(0.01, "chance of an image to be in a batch; a training puts in its own")
    batch: int | None = setting(
        None, "images to divide the sum by; a training puts in its expected batch; none: as many as there are"
    )

    def __post_init__(self) -> None:
        for name in ("epsilon", "norm"):
            if getattr(self, name) != math.inf:
                checks.at_least(name, getattr(self, name), 1e-6)
        checks.between("delta", self.delta, 1e-15, 0.1)
        checks.at_least("steps", self.steps, 1)
        checks.between("sample_rate", self.sample_rate, 1e-9, 1)
        if self.batch is not None:
            checks.at_least("batch", self.batch, 1)
        if self.norm == math.inf and self.epsilon != math.inf:
            raise SettingError(
                f"norm=inf lets one image move the gradient without limit, so no noise gives epsilon={self.epsilon:g}: "
                "use a finite norm, or epsilon=inf for neither noise nor clipping."
            )

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "each image's gradient"

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on the sum of gradients, as a multiple of the norm."""
        return noise_multiplier(self.epsilon, self.delta, self.sample_rate, self.steps)

    @property
    def promise(self) -> str:
        """What this defense guarantees, in figures."""
        if self.epsilon == math.inf:
            return f"no privacy promised: epsilon is infinite (no noise, clip {self.norm:g})"
        return (
            f"(epsilon, delta) = ({self.epsilon:g}, {self.delta:g}) over {self.steps} steps "
            f"at sampling rate {self.sample_rate:.3g}: noise multiplier {self.noise:.3g}, clip {self.norm:g}"
        )

    def for_training(self, steps: int, sample_rate: float, batch: int) -> Defense:
        """Take over how often a training looks at the images, and how many it expects in a batch."""
        return dataclasses.replace(self, steps=steps, sample_rate=sample_rate, batch=batch)

    def on_model(self, model: nn.Module) -> nn.Module:
        """The network itself, or a copy with group norm where it has batch norm."""
        _ = self.noise  # what cannot be kept is refused before any work is done
        layers = len(batchnorm_layers(model))
        if not layers:
            return model
        _warn(layers)
        return grouped(model)

    def compute(self, model: nn.Module, samples: Samples, *, rng: torch.Generator) -> Computed:
        """Clip the gradient of every image, sum them up, add noise, and divide by the expected batch."""
        if batchnorm_layers(model):
            raise ModelError(
                "The model has batch norm, so no gradient belongs to one image: pass it through on_model first, "
                "which puts group norm in its place."
            )
        named = _trainable(model)
        # Opacus's optimizer does the arithmetic; what it hangs on parameters hangs on these, not on the model's
        held = {name: nn.Parameter(torch.zeros_like(parameter)) for name, parameter in named.items()}
        optimizer = self._optimizer(held, len(samples.images), rng)
        size = max(1, NUMBERS_AT_ONCE // max(1, sum(parameter.numel() for parameter in named.values())))
        parts = list(zip(samples.images.split(size), samples.targets.split(size), strict=True))
        loss = 0.0
        for number, (images, targets) in enumerate(parts, start=1):
            optimizer.zero_grad()
            part_loss, found = gradients_per_image(model, images, targets)
            loss += part_loss
            for name, parameter in held.items():
                parameter.grad_sample = found[name]  # type: ignore[attr-defined]
            optimizer.signal_skip_step(number < len(parts))
            optimizer.pre_step()
        gradients = {name: cast(Tensor, parameter.grad) for name, parameter in held.items()}
        return Computed(loss / max(1, len(samples.images)), gradients)

    def _optimizer(self, held: Mapping[str, nn.Parameter], count: int, rng: torch.Generator) -> Any:
        """Opacus's optimizer over some parameters; it is asked for gradients and never steps."""
        noise = self.noise
        from opacus.optimizers import DPOptimizer

        return DPOptimizer(
            torch.optim.SGD(list(held.values()), lr=1.0),
            noise_multiplier=noise,
            max_grad_norm=min(self.norm, torch.finfo(torch.float32).max),  # no noise times infinity is not a number
            expected_batch_size=self.batch or max(1, count),
            generator=rng,
        )


@lru_cache(maxsize=256)
def noise_multiplier(epsilon: float, delta: float, sample_rate: float, steps: int) -> float:
    """The least noise, in multiples of the clipping norm, that gives (epsilon, delta) over so many Poisson batches.

    Accounted by Renyi divergence (Mironov et al. 2019): some six percent more noise than a numerical accountant
    finds, in a fraction of its time. An infinite epsilon needs no noise.
    """
    with checks.from_extra("dp", "dp_sgd"):
        import opacus.accountants  # noqa: F401

    if epsilon == math.inf:
        return 0.0
    found = Account(delta, sample_rate, steps).noise(epsilon, epsilon / 1000)
    if found is None:
        raise SettingError(
            f"epsilon={epsilon:g} at delta={delta:g} cannot be reached in {steps} steps at sampling rate "
            f"{sample_rate:g}, with whatever noise: use a larger epsilon or delta, or fewer steps."
        )
    return found


def grouped(model: nn.Module) -> nn.Module:
    """A copy of a network with group norm in place of batch norm; names, scales and shifts of parameters stay."""
    twin = copy.deepcopy(model)
    norms: dict[nn.Module, nn.Module] = {layer: _group_norm(layer) for layer in batchnorm_layers(twin)}
    for name, layer in list(twin.named_modules(remove_duplicate=False)):
        if layer in norms:
            parent, _, child = name.rpartition(".")
            setattr(twin.get_submodule(parent), child, norms[layer])
    return twin


def _group_norm(layer: _BatchNorm) -> nn.GroupNorm:
    """Group norm over as many groups as leave four channels in each, 32 at most (Wu and He 2018)."""
    channels = layer.num_features
    groups = next(n for n in GROUPS if n == 1 or (channels % n == 0 and channels // n >= CHANNELS_PER_GROUP))
    norm = nn.GroupNorm(groups, channels, eps=layer.eps, affine=layer.affine)
    if layer.affine:
        norm.weight, norm.bias = layer.weight, layer.bias
    return norm.train(layer.training)


@lru_cache(maxsize=256)
def _warn(layers: int) -> None:
    """Say once, not in every case of an audit, that a network was changed."""
    log.warning(
        "DP-SGD needs gradients per image, but batch norm mixes images: %d batch norm layers were replaced by group "
        "norm. A trained model loses what it learned by this and must be trained anew.",
        layers,
    )


def gradients_per_image(model: nn.Module, images: Tensor, targets: Tensor) -> tuple[float, dict[str, Tensor]]:
    """The summed loss of some images, and the gradient (N, ...) of each by parameter name; the model stays as it is."""
    if not len(images):
        return 0.0, {name: parameter.new_zeros((0, *parameter.shape)) for name, parameter in _trainable(model).items()}
    try:
        return _gradients_by_opacus(model, images, targets)
    except OPACUS_ERRORS as error:
        log.debug("Opacus cannot look into this network (%s): its images are computed one at a time.", error)
        return _gradients_one_by_one(model, images, targets)


def _gradients_by_opacus(model: nn.Module, images: Tensor, targets: Tensor) -> tuple[float, dict[str, Tensor]]:
    """Opacus's hooks on a copy of the network, checked against the gradient of the summed loss."""
    from opacus.grad_sample import GradSampleModule

    twin = copy.deepcopy(model)
    named = _trainable(twin)
    _make_room_for_hooks(twin)
    with warnings.catch_warnings():  # images need no gradient, and the hooks need none of images
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        loss = F.cross_entropy(GradSampleModule(twin, loss_reduction="sum")(images), targets, reduction="sum")
        loss.backward()
    total = torch.stack([p.grad.norm() for p in named.values() if p.grad is not None]).norm()
    found = {name: _checked(name, parameter, len(images), total) for name, parameter in named.items()}
    return float(loss.detach()), found


def _checked(name: str, parameter: nn.Parameter, count: int, total: Tensor) -> Tensor:
    """What Opacus found for a parameter; refused if it does not add up, as where a layer's weights are used past it."""
    found: Tensor | None = parameter.grad_sample  # type: ignore[attr-defined]
    if found is None:
        found = parameter.new_zeros((count, *parameter.shape))
    if len(found) != count:  # a layer that sees parts of images as rows: clipping those would not clip images
        raise ModelError(f"{name} sees {len(found)} rows of {count} images: gradients per image cannot be told apart.")
    whole = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    if (found.sum(0) - whole).norm() > PER_PARAMETER * found.norm() + OVERALL * total:
        raise ModelError(f"The gradients per image of {name} do not add up to the gradient of the batch.")
    return found


def _gradients_one_by_one(model: nn.Module, images: Tensor, targets: Tensor) -> tuple[float, dict[str, Tensor]]:
    """The slow way, which every network takes."""
    named = _trainable(model)
    loss, rows = 0.0, []
    for image, target in zip(images.split(1), targets.split(1), strict=True):
        one = F.cross_entropy(model(image), target)
        rows.append(torch.autograd.grad(one, list(named.values()), allow_unused=True, materialize_grads=True))
        loss += float(one.detach())
    return loss, {name: torch.stack(column) for name, column in zip(named, zip(*rows, strict=True), strict=True)}


class _Copied(nn.Module):
    """A layer whose output is copied, so that what changes it in place changes nothing that Opacus watches.

    Backward hooks forbid changing the output of their layer in place, which torchvision's networks do (torch 2.13).
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def __getattr__(self, name: str) -> Any:
        """The layer's own attributes, for networks that look at them."""
        return super().__getattr__(name) if name == "layer" else getattr(self.layer, name)

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        """The layer's output, copied."""
        output: Tensor = self.layer(*inputs, **options)
        return output.clone()


def _make_room_for_hooks(model: nn.Module) -> None:
    """Let Opacus's hooks work on every layer with parameters: they sleep in eval mode and forbid changes in place.

    Layers without parameters, dropout among them, keep their mode.
    """
    places = [(parent, name, layer) for parent in model.modules() for name, layer in parent.named_children()]
    for layer in model.modules():
        layer.training = layer.training or bool(layer._parameters)
    for parent, name, layer in places:
        if layer._parameters:
            setattr(parent, name, _Copied(layer))


def _trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that gradients are shared of, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
