"""Both sides of the benchmark of attacks: the published algorithm as a loop, and the engine, on the same images."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from glasshouse import models
from glasshouse.attacks.descent import DECAY, DECAY_AT
from glasshouse.attacks.engine.matcher import Matcher
from glasshouse.attacks.engine.objectives import Cosine
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.data import datasets
from glasshouse.functional.gradients import cosine_distance, parameter_gradients, parameter_names
from glasshouse.functional.variation import total_variation
from glasshouse.models import normalization
from glasshouse.types import ImageSpec, Observation, Progress, SharedUpdate, no_progress

SPEC = ImageSpec(3, 32, 32, 10)
IMAGES = 16
PROCESSES = 2
SHARE = IMAGES // PROCESSES  # images of one process

#: The final objective and the image (C, H, W).
Result = tuple[float, Tensor]


def victim(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """A model, quarters of photographs and labels, always the same."""
    photos, _ = datasets.create("photos:size=64").load().batch(range(IMAGES // 4))
    images = torch.cat([part for half in photos.chunk(2, 2) for part in half.chunk(2, 3)])
    rng = torch.Generator().manual_seed(0)
    return models.create(name, SPEC, seed=0).eval(), images, torch.randint(0, 10, (IMAGES,), generator=rng)


def published(steps: int, tv: float = 1e-4) -> InvGrad:
    """The published algorithm by the engine, step for step."""
    return InvGrad(steps=steps, tv=tv, preset="paper")


def reconstruct(name: str, attack: InvGrad, part: int, progress: Progress = no_progress) -> list[Result]:
    """Descend on one process's share of the images."""
    model, images, labels = victim(name)
    own = range(SHARE * part, SHARE * (part + 1))
    seen = []
    for number in own:
        image, label = images[number : number + 1], labels[number : number + 1]
        shared = dict(zip(parameter_names(model), parameter_gradients(model, image, label), strict=True))
        seen.append(Observation((SharedUpdate(shared),), SPEC, 1, labels=label))
    rngs = [torch.Generator().manual_seed(number) for number in own]
    found = attack.run_all(model, seen, rngs=rngs, progress=progress)
    return [(one.objective, one.images[0]) for one in found]


def descend(name: str, number: int, attack: InvGrad) -> tuple[float, Result]:
    """The published algorithm on one image with two threads, at an attack's settings: seconds and result."""
    torch.set_num_threads(PROCESSES)
    model, images, labels = victim(name)
    own, label = images[number : number + 1], labels[number : number + 1]
    mean, std = normalization(model)
    target = parameter_gradients(model, own, label)
    start = torch.randn((1, *SPEC.shape), generator=torch.Generator().manual_seed(number))
    dummy = start.requires_grad_()
    optimizer = torch.optim.Adam([dummy], lr=attack.lr)
    cuts = [int(attack.steps * share) for share in DECAY_AT]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, cuts, DECAY)

    def objective() -> Tensor:
        found = parameter_gradients(model, dummy * std + mean, label, create_graph=True)
        return cosine_distance(found, target) + attack.tv * total_variation(dummy)

    objective()
    began = time.perf_counter()
    for _ in range(attack.steps):
        (pull,) = torch.autograd.grad(objective(), dummy)
        dummy.grad = pull.sign()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            dummy.clamp_((0 - mean) / std, (1 - mean) / std)
    seconds = time.perf_counter() - began
    final = float(objective().detach())
    torch.set_num_threads(1)
    return seconds, (final, (dummy.detach() * std + mean)[0])


def derivative(matcher: Matcher, model: nn.Module, start: int = 1) -> Tensor:
    """At random images of a seed, for the gradients of the victim's."""
    dtype = next(model.parameters()).dtype
    _, images, labels = victim("lenet")
    pairs = zip(images.to(dtype).split(1), labels.split(1), strict=True)
    each = [parameter_gradients(model, image, label) for image, label in pairs]
    target = {key: torch.stack([one[at] for one in each]) for at, key in enumerate(parameter_names(model))}
    guess = torch.rand(images.shape, generator=torch.Generator().manual_seed(start)).to(dtype)
    return matcher.step(guess, labels, matcher.pack(target), Cosine())[1].double()


def psnr(guess: Tensor, truth: Tensor) -> float:
    """Peak signal-to-noise ratio in dB."""
    return float(-10 * (guess - truth).square().mean().log10())
