"""What image defenses hide from an attacker who knows them, beside what they cost in accuracy."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.attacks.unshuffling import inverse, linker
from glasshouse.attacks.unshuffling.members import Census, Crowd
from glasshouse.attacks.unshuffling.practice import Practice
from glasshouse.defenses.csvar import CSVAR
from glasshouse.errors import GlasshouseError, StudyError
from glasshouse.files import write_atomic
from glasshouse.functional.intervals import share_interval
from glasshouse.functional.threads import one_thread
from glasshouse.models import own
from glasshouse.studies.comparison import Comparison, ComparisonShelf, Dealt, deal
from glasshouse.studies.judge import Judge, train_judge
from glasshouse.studies.pictures import to_pixels, to_png
from glasshouse.studies.runner import RunProgress
from glasshouse.studies.shuffled import OUTSIDE, Budget, Findings, Part, Protected, Truth, attack, batch_for, score
from glasshouse.studies.variants import ResizedClient, Variant
from glasshouse.training import Recipe, Samples, accuracy, fit
from glasshouse.types import JSON, Interval

SHOWN = 8


def compare(
    plan: Comparison,
    variants: list[str],
    directory: Path,
    *,
    root: Path | None = None,
    workers: int = 1,
    minutes: float | None = None,
    progress: RunProgress = lambda done, total: None,
) -> list[JSON]:
    """Measure every variant that is not yet measured; return the rows of those that are, in the order asked.

    Each row is one file, written when it is finished, so that a run that was stopped goes on with the next row. A
    variant that fails has a row with its reason under ``failed``, and is tried again by the next run.
    """
    checks.at_least("workers", workers, 1)
    parsed = [Variant.parse(text) for text in variants]
    dealt = deal(plan, root)
    shelf = ComparisonShelf.of(plan, dealt, own.build(plan.model, dealt.spec, seed=plan.seed), directory)
    directory.mkdir(parents=True, exist_ok=True)
    left = [one for one in parsed if "accuracy" not in (shelf.row(one) or {})]
    if left:
        if not shelf.judge.exists():
            with one_thread():
                train_judge(dealt.public.images, dealt.public.targets, plan.seed).save(shelf.judge)
        found = len(parsed) - len(left)
        progress(found, len(parsed))
        deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
        work = [(plan, one.text, shelf, root) for one in left]
        work_off = _in_turn if workers == 1 else partial(_at_once, workers)
        work_off(work, deadline, lambda done: progress(found + done, len(parsed)))
    return [row for row in map(shelf.row, parsed) if row is not None]


Work = tuple[Comparison, str, ComparisonShelf, Path | None]


def _in_turn(left: Sequence[Work], deadline: float, progress: Callable[[int], None]) -> None:
    """Measure variants one after another on one thread, and begin no more when the time is up."""
    with one_thread():
        for done, work in enumerate(left, start=1):
            if time.monotonic() >= deadline:
                return
            measure(*work)
            progress(done)


def _at_once(workers: int, left: Sequence[Work], deadline: float, progress: Callable[[int], None]) -> None:
    """Measure some variants at once, one thread each, and begin no more when the time is up."""
    queue, done = iter(left), 0
    spawn = get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        running: set[Future[None]] = set()
        while True:
            free = workers - len(running) if time.monotonic() < deadline else 0
            running |= {pool.submit(measure, *work) for work in itertools.islice(queue, free)}
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for one in finished:
                try:
                    one.result()
                except BrokenProcessPool:
                    raise StudyError(
                        "A worker died in the middle of a defense: is there enough memory? Finished rows are kept; "
                        "run the same command again, with fewer --workers."
                    ) from None
                done += 1
                progress(done)


def measure(plan: Comparison, text: str, shelf: ComparisonShelf, root: Path | None) -> None:
    """Write one row: accuracy behind a defense and everything the attacker gets out of it, or why there is none."""
    variant = Variant.parse(text)
    facts: JSON = {"variant": text, "plan": dataclasses.asdict(plan)}
    try:
        row = facts | _measured(plan, variant, deal(plan, root), shelf.judge, shelf.file(variant))
    except GlasshouseError as error:
        row = facts | {"failed": str(error)}
    shelf.keep(variant, row)


def _measured(plan: Comparison, variant: Variant, dealt: Dealt, judged: Path, file: Path) -> JSON:
    """What a row says; its pictures are written beside it."""
    began = time.perf_counter()
    accuracies = _utility(plan, variant, dealt)
    shown, parts = _leakage(plan, variant, dealt, Judge.load(judged))
    for name, images in shown.items():
        write_atomic(file.with_suffix(f".{name}.png"), to_png(to_pixels(torch.cat(list(images), dim=-1))))
    return {
        "accuracy": {name: dataclasses.asdict(value) for name, value in accuracies.items()},
        "parts": [part.to_json() for part in parts],
        "pictures": list(shown),
        "seconds": time.perf_counter() - began,
    }


def _utility(plan: Comparison, variant: Variant, dealt: Dealt) -> dict[str, Interval]:
    """Accuracy on clean and on protected test images of a classifier that was trained on protected images only."""
    network = own.build(plan.model, dealt.spec, seed=plan.seed)
    rng = torch.Generator().manual_seed(plan.seed + 1)
    client = ResizedClient(variant, rng)
    recipe = Recipe(epochs=plan.epochs, batch=plan.batch, augment=False, seed=plan.seed)
    fit(network, dealt.public.images, dealt.public.targets, recipe, client=client)
    test, count = dealt.test, len(dealt.test.images)
    # who asks for a class does not know it: each test image is protected as if it were the only one of its own
    alone = Samples(test.images, torch.arange(count))
    protected = variant.protect(client.defense.in_epoch(plan.epochs), alone, rng)
    found = {"clean": accuracy(network, test.images, test.targets)}
    found["protected"] = accuracy(network, protected, test.targets)
    return {name: share_interval(round(share * count), count) for name, share in found.items()}


def _leakage(plan: Comparison, variant: Variant, dealt: Dealt, judge: Judge) -> tuple[dict[str, Tensor], list[Part]]:
    """Attack a client's protected test images; return a few pictures and the scores."""
    client, public = dealt.client, dealt.public
    rng = torch.Generator().manual_seed(plan.seed + 2)
    defense = variant.defense.with_key(rng)
    versions = [variant.protect(defense.in_epoch(epoch), client, rng) for epoch in range(plan.versions)]
    census, inside = ask_about(plan, variant, client, versions, public)
    count = min(plan.images, len(client.images))
    held = Protected(
        versions=tuple(version[:count] for version in versions),
        gallery=client.images,
        practice=Practice(public, variant.practised(torch.Generator().manual_seed(plan.seed + 3))),
        census=census,
        own_region=variant.region(*client.images.shape[-2:]),
        blocks=variant.moves_blocks,
        block_size=defense.block_size if isinstance(defense, CSVAR) else None,
        channel_wise=defense.channel_wise if isinstance(defense, CSVAR) else True,
    )
    budget = Budget(
        inverse.Training(steps=plan.steps, batch=batch_for(client.images), seed=plan.seed),
        linker.Training(steps=max(plan.steps // 2, 1), seed=plan.seed),
        plan.seed,
    )
    findings = attack(held, budget)
    labels = client.targets[:count]
    truth = Truth(
        client.images[:count],
        torch.arange(count),
        lambda pictures: judge(pictures) == labels,
        inside,
        variant.partners(defense, client),
    )
    return _shown(truth, held, findings), score(truth, held, findings)


def ask_about(
    plan: Comparison, variant: Variant, client: Samples, versions: Sequence[Tensor], public: Samples
) -> tuple[Census, Tensor]:
    """Who is in the client's set? All of its images are asked about, and as many public ones; with the answers.

    Other public images are protected as the client does it, for comparison.
    """
    count = min(len(client.images), len(public.images) // 2)
    rest = Samples(public.images[count : 2 * count], public.targets[count : 2 * count])
    practised = variant.practised(torch.Generator().manual_seed(plan.seed + 4))(rest, plan.versions)
    candidates = Samples(
        torch.cat([client.images, public.images[:count]]), torch.cat([client.targets, public.targets[:count]])
    )
    inside = torch.cat([torch.arange(len(client.images)), torch.full((count,), OUTSIDE)])
    sent, compared = Crowd(tuple(versions), client.targets), Crowd(tuple(practised), rest.targets)
    return Census(candidates, sent, compared), inside


def _shown(truth: Truth, held: Protected, findings: Findings) -> dict[str, Tensor]:
    """A few originals, what was sent of them, and what the attacker made of it."""
    pictures = {"original": truth.images, "protected": held.versions[0]}
    pictures |= {name.split()[0]: images for name, images in findings.pictures.items()}
    return {name: images[:SHOWN].clamp(0, 1) for name, images in pictures.items()}
