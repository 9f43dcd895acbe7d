"""Gradient matching: the engine against the published algorithm as a loop.

The loop takes one image after another in one process with two threads, by autograd of autograd, and a whole step of
InvGrad is counted: gradient, total variation, Adam on signs, clamp. The engine runs in one process per core with one
thread each, on the same sixteen images, split between the processes. Both sides take turns in one run, and ratios are
medians over turns of neighbours. What a step cannot beat is counted too: seven convolutions at the rate at which the
same processes multiply matrices.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

import torch
from clock import row
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from glasshouse import models
from glasshouse.attacks.descent import DECAY, DECAY_AT
from glasshouse.attacks.engine.matcher import Loop, Matcher
from glasshouse.attacks.engine.objectives import Cosine
from glasshouse.attacks.engine.tape import Tape
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.data import datasets
from glasshouse.functional.gradients import cosine_distance, parameter_gradients, parameter_names
from glasshouse.functional.variation import total_variation
from glasshouse.models import normalization
from glasshouse.types import ImageSpec, Observation, Reconstruction, SharedUpdate, no_progress

SPEC = ImageSpec(3, 32, 32, 10)
IMAGES = 16
PROCESSES = 2
TURNS = 5
CONVOLUTIONS = 7  # in a step: four with shared weights, three with each problem's own
SIDE = 1024  # of the matrices whose product shows what the machine can do
PRODUCTS = 40
MODELS = {  # wanted ratio, steps of the loop, steps of the engine: enough that its check of the model hardly counts
    "lenet": (8.0, 60, 300),
    "resnet20": (4.5, 6, 30),
    "convnet8:width=16": (2.0, 6, 15),
    "resnet20:width=64": (1.6, 3, 6),
}
WHOLE = {"lenet": (10.0, 1000), "resnet20": (5.0, 400)}  # wanted ratio, steps of a whole reconstruction
LOOPED = 2  # images that the loop reconstructs
GROWTH = (16, 64, 256)

Row = dict[str, object]


def run() -> list[Row]:
    """Measure every model."""
    with ProcessPoolExecutor(PROCESSES, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        rows = [found for name, settings in MODELS.items() for found in rates(pool, name, *settings)]
        rows += [found for name, settings in WHOLE.items() for found in whole(pool, name, *settings)]
        rows.append(growth(pool, "lenet", 30))
    torch.set_num_threads(1)
    return rows + [shares(name) for name in MODELS]


def rates(pool: ProcessPoolExecutor, name: str, wanted: float, loop_steps: int, engine_steps: int) -> list[Row]:
    """Whether derivatives agree, image-steps per second of both sides, and what the machine could do."""
    everywhere(pool, engine_steps_of, name, 1)  # starts the processes
    slow, fast, products = [], [], []
    for _ in range(TURNS):
        slow.append(loop_steps / descend(name, 0, loop_steps)[0])
        fast.append(IMAGES * engine_steps / everywhere(pool, engine_steps_of, name, engine_steps))
        products.append(PROCESSES * PRODUCTS * 2 * SIDE**3 / everywhere(pool, multiply, name, PRODUCTS))
    ratio = median(a / b for a, b in zip(fast, slow, strict=True))
    limit = median(products) / operations(name)
    share = median(fast) / limit
    low, high = min(fast) / max(slow), max(fast) / min(slow)
    return [
        *agreement(name),
        row(
            f"{name}: image-steps per second, engine against loop",
            f"{median(fast):.0f} against {median(slow):.1f}, {ratio:.1f}x ({low:.1f} to {high:.1f})",
            f"{wanted:g}x",
            ratio >= wanted,
        ),
        row(
            f"{name}: image-steps per second if all were products of matrices",
            f"{limit:.0f} at {median(products) / 1e9:.0f} GFLOP/s; the engine reaches {100 * share:.0f} %",
            "50 %",
            share >= 0.5,
        ),
    ]


def whole(pool: ProcessPoolExecutor, name: str, wanted: float, steps: int) -> list[Row]:
    """Reconstructions of photographs at the same settings: time per image, final objective and PSNR."""
    looped = [descend(name, number, steps) for number in range(LOOPED)]
    began = time.perf_counter()
    parts = list(pool.map(reconstruct, [name] * PROCESSES, [steps] * PROCESSES, range(PROCESSES)))
    took = (time.perf_counter() - began) / IMAGES
    found = [one for part in parts for one in part][:LOOPED]
    truth = victim(name)[1]
    ratio = sum(one[0] for one in looped) / LOOPED / took
    sides = [[(one[1], psnr(one[2], truth[n])) for n, one in enumerate(looped)]]
    sides.append([(one.objective, psnr(one.images[0], truth[n])) for n, one in enumerate(found)])
    (loop, loop_db), (own, own_db) = (
        (sum(pair[0] for pair in side) / LOOPED, sum(pair[1] for pair in side) / LOOPED) for side in sides
    )
    same = own <= 1.05 * loop and own_db >= loop_db - 0.5
    return [
        row(
            f"{name}: a reconstruction of {steps} steps, loop against engine",
            f"{ratio:.1f}x, objective {loop:.4f} and {own:.4f}, PSNR {loop_db:.1f} and {own_db:.1f} dB",
            f"{wanted:g}x, no worse",
            ratio >= wanted and same,
        )
    ]


def growth(pool: ProcessPoolExecutor, name: str, steps: int) -> Row:
    """Time per image for ever more images, in batches of as many as an attack likes together."""
    times = []
    for count in GROWTH:
        began = time.perf_counter()
        list(pool.map(engine_steps_of, [name] * (count // 8), [steps] * (count // 8), range(count // 8)))
        times.append((time.perf_counter() - began) / count)
    text = ", ".join(f"{1e3 * own:.0f}" for own in times)
    counts = ", ".join(str(count) for count in GROWTH)
    return row(f"{name}: ms per image at {counts} images, {steps} steps", text, "no growth", times[-1] < 1.2 * times[0])


def everywhere(pool: ProcessPoolExecutor, work: Callable[[str, int, int], object], name: str, steps: int) -> float:
    """Seconds of the same work in every process."""
    began = time.perf_counter()
    list(pool.map(work, [name] * PROCESSES, [steps] * PROCESSES, range(PROCESSES)))
    return time.perf_counter() - began


def victim(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """A model, quarters of photographs and labels, always the same."""
    photos, _ = datasets.create("photos:size=64").load().batch(range(IMAGES // 4))
    images = torch.cat([part for half in photos.chunk(2, 2) for part in half.chunk(2, 3)])
    rng = torch.Generator().manual_seed(0)
    return models.create(name, SPEC, seed=0).eval(), images, torch.randint(0, 10, (IMAGES,), generator=rng)


def reconstruct(name: str, steps: int, part: int) -> list[Reconstruction]:
    """Descend on one process's share of the images."""
    model, images, labels = victim(name)
    own = range(IMAGES // PROCESSES * part, IMAGES // PROCESSES * (part + 1))
    seen = []
    for number in own:
        image, label = images[number : number + 1], labels[number : number + 1]
        shared = dict(zip(parameter_names(model), parameter_gradients(model, image, label), strict=True))
        seen.append(Observation((SharedUpdate(shared),), SPEC, 1, labels=label))
    rngs = [torch.Generator().manual_seed(number) for number in own]
    return InvGrad(steps=steps, preset="paper").run_all(model, seen, rngs=rngs, progress=no_progress)


def engine_steps_of(name: str, steps: int, part: int) -> None:
    """The same for its time alone."""
    reconstruct(name, steps, part % PROCESSES)


def multiply(name: str, count: int, part: int) -> None:
    """Products of large matrices."""
    first, second = (torch.rand(SIDE, SIDE) for _ in range(2))
    for _ in range(count):
        torch.mm(first, second)


def descend(name: str, number: int, steps: int) -> tuple[float, float, Tensor]:
    """The published algorithm on one image with two threads: seconds, final objective, image."""
    torch.set_num_threads(PROCESSES)
    model, images, labels = victim(name)
    own, label = images[number : number + 1], labels[number : number + 1]
    mean, std = normalization(model)
    target = parameter_gradients(model, own, label)
    start = torch.randn((1, *SPEC.shape), generator=torch.Generator().manual_seed(number))
    dummy = start.requires_grad_()
    optimizer = torch.optim.Adam([dummy], lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [int(steps * share) for share in DECAY_AT], DECAY)

    def objective() -> Tensor:
        found = parameter_gradients(model, dummy * std + mean, label, create_graph=True)
        return cosine_distance(found, target) + 1e-4 * total_variation(dummy)

    objective()
    began = time.perf_counter()
    for _ in range(steps):
        (pull,) = torch.autograd.grad(objective(), dummy)
        dummy.grad = pull.sign()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            dummy.clamp_((0 - mean) / std, (1 - mean) / std)
    seconds = time.perf_counter() - began
    final = float(objective().detach())
    torch.set_num_threads(1)
    return seconds, final, (dummy.detach() * std + mean)[0]


def agreement(name: str) -> list[Row]:
    """Largest relative differences of the derivative from autograd's at the same images.

    A ReLU whose input is zero to rounding may fall to either side, for autograd in single precision as well: what
    counts is the nearer of its answers in single and in double precision, and how far these are apart is shown.
    """
    model = victim(name)[0]
    double = copy.deepcopy(model).double()
    single_loop, double_loop = derivative(Loop(model, 1), model), derivative(Loop(double, 1), double)
    engine = derivative(Tape(model, 1), model)
    near = torch.minimum(difference(engine, single_loop), difference(engine, double_loop)).max()
    exact = difference(derivative(Tape(double, 1), double), double_loop).max()
    apart = difference(single_loop, double_loop).max()
    what = f"{name}: largest relative difference of the derivative"
    return [
        row(f"{what}, single precision", f"{near:.1e} (autograd from itself {apart:.1e})", "1e-4", bool(near < 1e-4)),
        row(f"{what}, double precision", f"{exact:.1e}", "1e-9", bool(exact < 1e-9)),
    ]


def derivative(matcher: Matcher, model: nn.Module) -> Tensor:
    """At random images, for the gradients of the victim's."""
    dtype = next(model.parameters()).dtype
    _, images, labels = victim("lenet")
    pairs = zip(images.to(dtype).split(1), labels.split(1), strict=True)
    each = [parameter_gradients(model, image, label) for image, label in pairs]
    target = {key: torch.stack([one[at] for one in each]) for at, key in enumerate(parameter_names(model))}
    guess = torch.rand(images.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    return matcher.step(guess, labels, matcher.pack(target), Cosine())[1].double()


def difference(found: Tensor, reference: Tensor) -> Tensor:
    """The largest difference of every image, relative to the largest value."""
    return (found - reference).abs().amax((1, 2, 3)) / reference.abs().amax((1, 2, 3))


def psnr(guess: Tensor, truth: Tensor) -> float:
    """Peak signal-to-noise ratio in dB."""
    return float(-10 * (guess - truth).square().mean().log10())


def operations(name: str) -> float:
    """Floating-point operations of seven convolutions for every layer, per image-step."""
    total = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        weight = module.get_parameter("weight")
        total += 2 * weight.numel() * output[0, 0].numel()

    model, images, _ = victim(name)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    model(images[:1])
    return CONVOLUTIONS * total


def shares(name: str) -> Row:
    """What a step of the engine spends its time with."""
    model = victim(name)[0]
    engine = Tape(model, 1)
    derivative(engine, model)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        derivative(engine, model)
    own = {event.key: event.self_cpu_time_total for event in seen.key_averages()}
    words = {"convolutions": ("convolution",), "products": ("bmm", "mm"), "copies": ("copy", "fill")}
    parts = {
        kind: sum(spent for key, spent in own.items() if any(word in key for word in known)) / sum(own.values())
        for kind, known in words.items()
    }
    parts["all else"] = 1 - sum(parts.values())
    text = ", ".join(f"{kind} {100 * part:.0f} %" for kind, part in parts.items())
    return row(f"{name}: profile of a step on one thread", text, "", True)
