"""Many problems of one model: all together or some of them, the same answers."""

from __future__ import annotations

import pytest
import torch

from glasshouse import models
from glasshouse.attacks.engine.matcher import Loop, matcher_for, parameter_bytes
from glasshouse.attacks.engine.problems import Matching, Problem
from glasshouse.functional.gradients import parameter_gradients, parameter_names
from glasshouse.types import ImageSpec, Observation, SharedUpdate

SPEC = ImageSpec(3, 16, 16, 10)


def problems(model, count, group=2):
    rng = torch.Generator().manual_seed(0)
    found = []
    for _ in range(count):
        images = torch.rand((group, *SPEC.shape), generator=rng)
        labels = torch.randint(0, 10, (group,), generator=rng)
        shared = dict(zip(parameter_names(model), parameter_gradients(model, images, labels), strict=True))
        found.append(Problem(shared, labels))
    return Observation((SharedUpdate(found[0].target),), SPEC, group), found


@pytest.mark.parametrize("name", ["lenet", "resnet20:width=4"])
def test_some_problems_have_the_answers_of_all(name):
    model = models.create(name, SPEC, seed=1)
    seen, each = problems(model, 4)
    whole = Matching.of(model, seen, each)
    guess = torch.rand((8, *SPEC.shape), generator=torch.Generator().manual_seed(1))
    values, derivatives = whole.step(guess)
    some, others = whole.some([1, 3]).step(guess.unflatten(0, (4, 2))[[1, 3]].flatten(0, 1))
    assert torch.allclose(some, values[[1, 3]], atol=1e-6)
    expected = derivatives.unflatten(0, (4, 2))[[1, 3]].flatten(0, 1)
    assert float((expected - others).abs().max() / derivatives.abs().max()) < 1e-4


def test_memory_grows_with_images_and_weights():
    small, wide = (models.create(f"resnet20:width={width}", SPEC) for width in (4, 8))
    counts = [matcher_for(small, SPEC.shape, 10, group).bytes_per_problem(SPEC.shape) for group in (1, 4)]
    assert 2 * counts[0] < counts[1] < 4 * counts[0]
    assert matcher_for(wide, SPEC.shape, 10, 1).bytes_per_problem(SPEC.shape) > counts[0] > 2 * parameter_bytes(small)
    assert Loop(small, 1).bytes_per_problem(SPEC.shape) == parameter_bytes(small)
