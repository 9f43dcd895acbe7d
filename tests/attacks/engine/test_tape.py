"""The engine against autograd of autograd: the same objectives, the same derivatives, for any model it accepts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from glasshouse import models
from glasshouse.attacks.engine.convolution import ConvLayer
from glasshouse.attacks.engine.folded import FoldedLayer
from glasshouse.attacks.engine.layers import BatchNormLayer, LinearLayer
from glasshouse.attacks.engine.matcher import Loop, matcher_for
from glasshouse.attacks.engine.nodes import Unsupported
from glasshouse.attacks.engine.objectives import Cosine, Squared
from glasshouse.attacks.engine.tape import Tape
from glasshouse.functional.gradients import parameter_gradients, parameter_names
from glasshouse.models.batchnorm import batchnorm_layers, batchnorm_mode
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 16, 16, 10)
MODELS = ("lenet", "resnet20:width=4", "convnet8:width=4", "mlp:width=16")


def problem(model, group, problems=2, spec=SPEC, seed=0):
    rng = torch.Generator().manual_seed(seed)
    dtype = next(model.parameters()).dtype
    truth, guess = (torch.rand((problems * group, *spec.shape), generator=rng).to(dtype) for _ in range(2))
    labels = torch.randint(0, spec.classes, (problems * group,), generator=rng)
    each = [parameter_gradients(model, x, y) for x, y in zip(truth.split(group), labels.split(group), strict=True)]
    names = parameter_names(model)
    return guess, labels, {name: torch.stack([one[at] for one in each]) for at, name in enumerate(names)}


def lively(model, seed=0):
    """Batch norm with statistics and weights that are not those of a fresh model."""
    rng = torch.Generator().manual_seed(seed)
    for layer in batchnorm_layers(model):
        shape = layer.running_mean.shape
        layer.running_mean.copy_(0.3 * torch.randn(shape, generator=rng))
        layer.running_var.copy_(0.5 + torch.rand(shape, generator=rng))
        layer.weight.data.copy_(0.5 + torch.rand(shape, generator=rng))
        layer.bias.data.copy_(0.2 * torch.randn(shape, generator=rng))
    return model.eval()


def compared(model, group=1, objective=None, spec=SPEC, keep=None, whole=False, problems=2):
    guess, labels, target = problem(model, group, problems, spec=spec)
    if keep is not None:
        target = {name: value for name, value in target.items() if keep(name)}
    answers = []
    for matcher in (Tape(model, group, whole=whole), Loop(model, group)):
        answers.append(matcher.step(guess, labels, matcher.pack(target), objective or Cosine()))
    (value, found), (wanted, reference) = answers
    scale = reference.abs().max().clamp_min(1e-30)  # dead units everywhere give no derivative at all
    difference = float((found - reference).abs().max() / scale)
    return difference, float(((value - wanted) / wanted.clamp_min(1)).abs().max())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("objective", [Cosine(), Squared()])
def test_equals_autograd_in_double_precision(name, group, objective):
    model = lively(models.create(name, SPEC, seed=1)).double()
    assert max(compared(model, group, objective)) < 1e-9


def test_equals_autograd_on_a_model_of_torchvision():
    model = lively(models.create("resnet18", SPEC, seed=1)).double()
    assert max(compared(model)) < 1e-9


@pytest.mark.parametrize("name", MODELS)
def test_equals_autograd_in_single_precision(name):
    assert max(compared(lively(models.create(name, SPEC, seed=1)))) < 1e-4


@settings(max_examples=30, deadline=None)
@given(
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    bias=st.booleans(),
    channels=st.integers(1, 3),
    size=st.integers(6, 11),
    group=st.integers(1, 2),
)
def test_any_convolution(kernel, stride, padding, bias, channels, size, group):
    torch.manual_seed(0)
    padding = min(padding, kernel - 1)
    first = nn.Conv2d(channels, 4, kernel, stride, padding, bias=bias)
    second = nn.Conv2d(4, 2, 2, 1, 1)
    with torch.no_grad():
        features = second(first(torch.rand(1, channels, size, size))).numel()
    model = nn.Sequential(first, nn.Tanh(), second, nn.ReLU(), nn.Flatten(), nn.Linear(features, 3)).double()
    assert max(compared(model, group, spec=ImageSpec(channels, size, size, 3))) < 1e-9


class Odd(nn.Module):
    """Weights used twice, pooling, a product of activations, and functional calls."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.fc = nn.Linear(3, 10, bias=False)

    def forward(self, x):
        once = F.relu(self.conv(x))
        twice = torch.sigmoid(self.conv(once)) * once
        pooled = F.max_pool2d(F.gelu(twice), 2) + F.avg_pool2d(x, 2)
        return self.fc(pooled.mean((2, 3)))


def test_forward_code_may_do_what_it_likes():
    torch.manual_seed(0)
    assert max(compared(Odd().double())) < 1e-9


class Normed(nn.Module):
    """Batch norm behind a convolution that others look at too, behind one with a bias, and behind none."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.shared, self.folded, self.plain = (nn.BatchNorm2d(3) for _ in range(3))
        self.fc = nn.Linear(3, 10)

    def forward(self, x):
        once = self.conv(x)
        twice = self.folded(self.conv(F.relu(self.shared(once) + once)))
        return self.fc(self.plain(torch.tanh(twice)).mean((2, 3)))


@pytest.mark.parametrize("group", [1, 2])
def test_batch_norm_goes_into_a_convolution_that_nobody_else_looks_at(group):
    torch.manual_seed(0)
    model = lively(Normed()).double()
    assert max(compared(model, group)) < 1e-9
    kinds = [type(layer) for layer in Tape(model, group).layers]
    assert kinds == [ConvLayer, BatchNormLayer, FoldedLayer, BatchNormLayer, LinearLayer]


def test_batch_norm_is_folded_only_where_places_outnumber_the_values_of_a_kernel():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = lively(nn.Sequential(*layers, nn.Linear(4, 10))).double()
    engine, loop = Tape(model, 1), Loop(model, 1)
    for size, folds in ((8, True), (4, False), (6, True)):
        guess, labels, target = problem(model, 1, spec=ImageSpec(3, size, size, 10))
        found, reference = (one.step(guess, labels, one.pack(target), Cosine())[1] for one in (engine, loop))
        assert float((found - reference).abs().max() / reference.abs().max()) < 1e-9
        assert engine.layers[0].folds is folds


@pytest.mark.parametrize("seen", ["conv1", "bn1.bias", "bn2.weight", "10"])
def test_only_some_parameters_seen(seen):
    model = lively(models.create("resnet20:width=4", SPEC, seed=1)).double()
    assert max(compared(model, keep=lambda name: seen in name)) < 1e-9


@pytest.mark.parametrize("seen", ["0.bias", "7.bias", "7.weight"])
def test_only_biases_seen(seen):
    model = models.create("lenet", SPEC, seed=1).double()
    assert max(compared(model, 2, keep=lambda name: seen in name)) < 1e-9


def test_soft_labels():
    model = models.create("lenet", SPEC, seed=1).double()
    guess, labels, target = problem(model, 1)
    soft = (F.one_hot(labels, 10) * 0.7 + 0.03).double()
    engine, loop = Tape(model, 1), Loop(model, 1)
    found, reference = (one.step(guess, soft, one.pack(target), Cosine())[1] for one in (engine, loop))
    assert float((found - reference).abs().max() / reference.abs().max()) < 1e-9


def test_the_model_is_left_as_it_was():
    model = lively(models.create("resnet20:width=4", SPEC, seed=1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    guess, labels, target = problem(model, 1)
    engine = Tape(model, 1)
    engine.step(guess, labels, engine.pack(target), Cosine())
    assert all("forward" not in vars(module) for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", ["lenet", "resnet20:width=4", "convnet8:width=4"])
def test_batch_norm_with_the_statistics_of_the_batch(name):
    model = lively(models.create(name, SPEC, seed=1)).double()
    with batchnorm_mode(model, "train"):
        assert max(compared(model, group=3)) < 1e-9
        assert isinstance(matcher_for(model.float(), SPEC.shape, 10, 3), Tape)


class Gated(nn.Module):
    """Modules that no layer of the engine stands for, beside one that it knows."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Conv2d(3, 6, 3, groups=3)
        self.dilated = nn.Conv2d(6, 6, (3, 2), dilation=2, padding="same")
        self.norm = nn.GroupNorm(2, 6)
        self.act = nn.PReLU()
        self.fc = nn.Linear(6, 10)

    def forward(self, x):
        x = self.act(self.norm(self.dilated(self.wide(x))))
        return self.fc(x.mean((2, 3)).view(x.size(0), -1))


class Detour(nn.Module):
    """A layer whose weight the model's own code computes with too."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3 * 16 * 16, 10)

    def forward(self, x):
        return self.fc(x.flatten(1)) + F.linear(x.flatten(1).square(), self.fc.weight)


@pytest.mark.parametrize("group", [1, 2])
def test_modules_that_no_layer_knows_are_mapped_over_problems(group):
    torch.manual_seed(0)
    assert max(compared(Gated().double(), group)) < 1e-9


@pytest.mark.parametrize("whole", [False, True])
def test_a_lone_batch_goes_through_group_norm(whole):
    torch.manual_seed(0)
    assert max(compared(Gated().double(), 2, whole=whole, problems=1)) < 1e-9


class Forked(nn.Module):
    """An operation with several outputs."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3 * 8 * 16, 10)

    def forward(self, x):
        first, second = x.chunk(2, 2)
        return self.fc((first * second).flatten(1))


@pytest.mark.parametrize("kind", [Detour, Forked])
def test_a_model_that_cannot_be_followed_is_mapped_as_a_whole(kind):
    torch.manual_seed(0)
    with pytest.raises(Unsupported):
        compared(kind())
    assert max(compared(kind().double(), 2, whole=True)) < 1e-9
    assert isinstance(matcher_for(kind(), SPEC.shape, 10, 2), Tape)


class Branching(nn.Module):
    """Code that looks at values."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3 * 16 * 16, 10)

    def forward(self, x):
        return self.fc(x.flatten(1)) if float(x.sum()) > 0 else self.fc(-x.flatten(1))


class Alias(nn.Module):
    """Code that overwrites what it uses again under another name."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.fc = nn.Linear(3 * 16 * 16, 10)

    def forward(self, x):
        y = z = self.conv(x)
        y += torch.sigmoid(x)
        return self.fc((y * z).flatten(1))


def test_what_the_engine_cannot_do_goes_to_the_loop():
    for whole in (False, True):
        with pytest.raises((Unsupported, RuntimeError)):
            compared(Branching(), whole=whole)
    assert isinstance(matcher_for(Branching(), SPEC.shape, 10, 1), Loop)


class OwnError(Exception):
    """What only the author of a model knows of."""


class Strict(nn.Module):
    """Code that insists on tensors of its own kind, and raises what it likes."""

    def __init__(self, error: type[Exception]):
        super().__init__()
        self.fc = nn.Linear(3 * 16 * 16, 10)
        self.error = error

    def forward(self, x):
        if type(x) is not torch.Tensor or torch._C._functorch.is_functorch_wrapped_tensor(x):
            raise self.error("no tensor")
        return self.fc(x.flatten(1))


@pytest.mark.parametrize("error", [AssertionError, OwnError])
def test_whatever_a_model_raises_under_the_engine_it_goes_to_the_loop(error):
    assert isinstance(matcher_for(Strict(error), SPEC.shape, 10, 1), Loop)


def test_an_engine_that_disagrees_with_the_loop_is_not_used():
    torch.manual_seed(0)
    model = Alias().double()
    assert max(compared(model)) > 1e-3
    guess, labels, target = problem(model.float(), 1)
    chosen, loop = matcher_for(model, SPEC.shape, 10, 1), Loop(model, 1)
    found, reference = (one.step(guess, labels, one.pack(target), Cosine())[1] for one in (chosen, loop))
    assert float((found - reference).abs().max() / reference.abs().max()) < 1e-4


def test_gradients_must_be_packed():
    model = models.create("lenet", SPEC)
    guess, labels, target = problem(model, 1)
    with pytest.raises(TypeError, match="pack"):
        Tape(model, 1).step(guess, labels, target, Cosine())


@pytest.mark.parametrize(("outputs", "kernel"), [(64, 3), (64, 4)])
def test_wide_layers_with_few_places(outputs, kernel):
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 16, 3, 2), nn.Tanh(), nn.Conv2d(16, outputs, kernel, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(outputs, 10)).double()
    assert max(compared(model, 1), compared(model, 2)) < (1e-9, 1e-9)


def test_large_images_are_unfolded_row_by_row():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2), nn.MaxPool2d(3, 2, 1)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).double()
    assert max(compared(model, spec=ImageSpec(3, 32, 32, 10))) < 1e-9
