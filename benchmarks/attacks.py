"""Gradient matching: image-steps per second of the engine, against the published algorithm as a loop.

The loop takes one image after another in one process with two threads, by autograd of autograd, and a whole step of
InvGrad is counted: gradient, total variation, Adam on signs, clamp. The engine runs in one process per core with one
thread each, on the same sixteen images, split between the processes. Both sides are measured in turns in one run.
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from clock import row
from torch import Tensor, nn

from glasshouse import models
from glasshouse.attacks.engine.matcher import Loop
from glasshouse.attacks.engine.objectives import Cosine
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.functional.gradients import cosine_distance, parameter_gradients, parameter_names
from glasshouse.functional.variation import total_variation
from glasshouse.types import ImageSpec, Observation, SharedUpdate, no_progress

SPEC = ImageSpec(3, 32, 32, 10)
IMAGES = 16
PROCESSES = 2
TURNS = 3
MODELS = {  # wanted ratio, steps of the loop, steps of the engine: enough that its check of the model hardly counts
    "lenet": (8.0, 60, 300),
    "resnet20": (4.5, 6, 30),
    "convnet8:width=16": (2.0, 6, 15),
    "resnet20:width=64": (1.6, 3, 4),
}


def run() -> list[dict[str, object]]:
    """Measure every model."""
    return [found for name, settings in MODELS.items() for found in measure(name, *settings)]


def measure(name: str, wanted: float, loop_steps: int, engine_steps: int) -> list[dict[str, object]]:
    """Image-steps per second of both sides, the best of a few turns each, and whether derivatives agree."""
    slow, fast = 0.0, 0.0
    context = get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        list(pool.map(engine_rate, [name] * PROCESSES, [1] * PROCESSES))  # starts the processes and compiles
        for _ in range(TURNS):
            slow = max(slow, loop_rate(name, loop_steps))
            began = time.perf_counter()
            list(pool.map(engine_rate, [name] * PROCESSES, [engine_steps] * PROCESSES))
            fast = max(fast, IMAGES * engine_steps / (time.perf_counter() - began))
    error = agreement(name)
    return [
        row(f"{name}: largest relative difference of the derivative", f"{error:.1e}", "1e-4", error < 1e-4),
        row(
            f"{name}: image-steps per second, engine against loop",
            f"{fast:.0f} against {slow:.1f}, {fast / slow:.1f}x",
            f"{wanted:g}x",
            fast / slow >= wanted,
        ),
    ]


def victim(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """A model, images and labels, always the same."""
    rng = torch.Generator().manual_seed(0)
    images = torch.rand((IMAGES, *SPEC.shape), generator=rng)
    return models.create(name, SPEC, seed=0).eval(), images, torch.randint(0, 10, (IMAGES,), generator=rng)


def engine_rate(name: str, steps: int) -> None:
    """Descend on this process's share of the images."""
    model, images, labels = victim(name)
    seen = []
    for image, label in list(zip(images.split(1), labels.split(1), strict=True))[: IMAGES // PROCESSES]:
        shared = dict(zip(parameter_names(model), parameter_gradients(model, image, label), strict=True))
        seen.append(Observation((SharedUpdate(shared),), SPEC, 1, labels=label))
    rngs = [torch.Generator().manual_seed(number) for number in range(len(seen))]
    InvGrad(steps=steps).run_all(model, seen, rngs=rngs, progress=no_progress)


def loop_rate(name: str, steps: int) -> float:
    """The published step on one image, two threads."""
    torch.set_num_threads(2)
    model, images, labels = victim(name)
    target = parameter_gradients(model, images[:1], labels[:1])
    dummy = torch.randn((1, *SPEC.shape), generator=torch.Generator().manual_seed(0)).requires_grad_()
    optimizer = torch.optim.Adam([dummy], lr=0.1)

    def step() -> None:
        found = parameter_gradients(model, dummy, labels[:1], create_graph=True)
        value = cosine_distance(found, target) + 1e-4 * total_variation(dummy)
        (pull,) = torch.autograd.grad(value, dummy)
        dummy.grad = pull.sign()
        optimizer.step()
        with torch.no_grad():
            dummy.clamp_(-2, 2)

    step()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    found = steps / (time.perf_counter() - began)
    torch.set_num_threads(1)
    return found


def agreement(name: str) -> float:
    """Largest relative difference of the derivative at the same images."""
    from glasshouse.attacks.engine.tape import Tape

    model, images, labels = victim(name)
    each = [parameter_gradients(model, x, y) for x, y in zip(images.split(1), labels.split(1), strict=True)]
    target = {key: torch.stack([one[at] for one in each]) for at, key in enumerate(parameter_names(model))}
    guess = torch.rand(images.shape, generator=torch.Generator().manual_seed(1))
    engine, loop = Tape(model, 1), Loop(model, 1)
    found, reference = (one.step(guess, labels, one.pack(target), Cosine())[1] for one in (engine, loop))
    return float((found - reference).abs().max() / reference.abs().max())
