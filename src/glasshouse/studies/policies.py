"""Search for ATS policies as its authors do: score random ones by privacy and by accuracy, and attack or train none."""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from glasshouse import checks, data
from glasshouse.data import ImageSet
from glasshouse.defenses.ats import ATS, SUB_POLICIES
from glasshouse.errors import ModelError, StudyError
from glasshouse.files import write_atomic
from glasshouse.functional.gradients import parameter_gradients
from glasshouse.functional.threads import one_thread
from glasshouse.models import own
from glasshouse.training import Recipe, fit
from glasshouse.types import JSON, ImageSpec, Progress

SCHEMA = 1
PLAIN = "none"
LENGTH = 3
STEPS = 20  # mixtures between noise and image, as the authors' code has them
SMALL = 1e-5  # keeps logarithm and inverse of an eigenvalue finite, likewise
SHARE = 10  # a tenth of the training images is enough for a model that is to be half trained

Advance = Callable[[float, int], None]


@dataclass(frozen=True, kw_only=True)
class Search:
    """All that a score depends on; the number of candidates and the threshold can change in a search that goes on."""

    model: str = "resnet20"
    dataset: str = "photos"
    size: int | None = None
    weights: str | None = None
    epochs: int = 10
    images: int = 8
    batch: int = 64
    batches: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        checks.at_least("epochs", self.epochs, 1)
        checks.at_least("images", self.images, 1)
        checks.at_least("batch", self.batch, 2)
        checks.at_least("batches", self.batches, 1)


@dataclass(frozen=True, slots=True)
class Scored:
    """A policy, what its gradients give away (lower is better), and what it leaves to learn (higher is better)."""

    policy: str
    privacy: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Found:
    """What a search brought: the untransformed images' scores, all policies, and the best above the threshold."""

    plain: Scored
    scored: tuple[Scored, ...]
    threshold: float
    best: tuple[Scored, ...]
    left: int


def privacy_score(model: nn.Module, images: Tensor, labels: Tensor, noise: Tensor) -> float:
    """How far from an image its gradient still shows the way to it; in [-1, 1], lower is better.

    Between noise and image lie mixtures in equal steps; the score is the area under the similarity of their
    gradients to the image's own. Similarity is the cosine, taken for each parameter and averaged.
    """
    areas = []
    for image, label, start in zip(images.split(1), labels.split(1), noise.split(1), strict=True):
        target = parameter_gradients(model, image, label)
        curve = [
            _similarity(target, parameter_gradients(model, torch.lerp(start, image, step / STEPS), label))
            for step in range(STEPS + 1)
        ]
        areas.append((sum(curve) - (curve[0] + curve[-1]) / 2) / STEPS)
    return statistics.fmean(areas)


def _similarity(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    cosines = []
    for one, other in zip(first, second, strict=True):
        a, b = one.flatten().double(), other.flatten().double()
        cosines.append(float(a @ b / (a.norm() * b.norm()).clamp_min(torch.finfo(a.dtype).tiny)))
    return statistics.fmean(cosines)


def accuracy_score(model: nn.Module, images: Tensor) -> float:
    """How well an untrained model tells images apart; at most -N for N images, higher is better.

    The rows of the Jacobian (the derivative of the summed logits by each image) are correlated with each other; the
    eigenvalues v of that matrix give -sum(log v + 1 / v), which is largest where no two images look alike.
    """
    inputs = images.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(model(inputs).sum(), inputs)
    rows = slopes.flatten(1).double()
    rows = rows - rows.mean(1, keepdim=True)
    rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    values = torch.linalg.eigvalsh(rows @ rows.T).clamp_min(0) + SMALL
    return -float((values.log() + 1 / values).sum())


def candidates(count: int, seed: int) -> list[str]:
    """``count`` different random triples of sub-policies; a longer list begins with the shorter one of its seed."""
    base = len(SUB_POLICIES)
    checks.between("candidates", count, 1, base**LENGTH)
    numbers = torch.randperm(base**LENGTH, generator=torch.Generator().manual_seed(seed))[:count].tolist()
    return ["-".join(str(number // base**place % base) for place in range(LENGTH)) for number in numbers]


def search(
    settings: Search,
    out: Path,
    *,
    count: int = 64,
    policies: Sequence[str] = (),
    threshold: float | None = None,
    keep: int = 10,
    root: Path | None = None,
    minutes: float | None = None,
    advance: Advance = lambda done, total: None,
) -> Found:
    """Score policies and keep every score in ``out``; the same file goes on where it stopped.

    ``policies`` are scored beside the random ones. ``advance`` hears of every step: the model's training, which is
    needed where no weights are given, and then each policy.
    """
    checks.at_least("keep", keep, 1)
    wanted = list(dict.fromkeys([PLAIN, *policies, *candidates(count, settings.seed)]))
    changes = {policy: None if policy == PLAIN else ATS(policy=policy) for policy in wanted}
    before = _read(out, settings)
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    steps = 1 + len(wanted)
    with one_thread():
        table = _Table.prepare(settings, out, before, root, lambda share: advance(share, steps))
        scores = {one["policy"]: Scored(**one) for one in before["scores"]} if before else {}
        for done, policy in enumerate(wanted, 1):
            advance(done, steps)
            if policy not in scores:
                if deadline is not None and time.monotonic() > deadline and PLAIN in scores:
                    break
                scores[policy] = table.score(policy, changes[policy])
                _write(out, settings, table.fingerprint, _chosen(wanted, scores, threshold, keep), scores)
    found = _chosen(wanted, scores, threshold, keep)
    _write(out, settings, table.fingerprint, found, scores)
    advance(steps - found.left, steps)
    return found


def _chosen(wanted: Sequence[str], scores: dict[str, Scored], threshold: float | None, keep: int) -> Found:
    """The best policies by privacy among those that leave enough to learn; by default the better half."""
    scored = tuple(scores[policy] for policy in wanted if policy in scores and policy != PLAIN)
    if threshold is None:
        threshold = statistics.median(one.accuracy for one in scored or (scores[PLAIN],))
    able = [one for one in scored if one.accuracy >= threshold]
    best = tuple(sorted(able, key=lambda one: (one.privacy, one.policy))[:keep])
    return Found(scores[PLAIN], scored, threshold, best, sum(policy not in scores for policy in wanted))


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The models and images that every policy is scored on."""

    fresh: nn.Module
    trained: nn.Module
    fingerprint: str
    images: Tensor
    labels: Tensor
    batches: tuple[Tensor, ...]
    seed: int

    @classmethod
    def prepare(cls, settings: Search, out: Path, before: JSON | None, root: Path | None, progress: Progress) -> _Table:
        """Load images and models; train the model a little where no weights are given."""
        found = data.load(settings.dataset, root=root, size=settings.size)
        spec = replace(found.spec, classes=max(found.spec.classes, 2))  # one class alone has no gradient
        fresh = own.build(settings.model, spec, seed=settings.seed)
        own.inspect(fresh, spec)
        images, labels = found.batch(found.spread(settings.images, settings.seed))
        trained = _trained(settings, spec, out, before, root, progress)
        batches = tuple(_batches(found, settings))
        fingerprint = _fingerprint(trained, (images, *batches))
        if before is not None and before["fingerprint"] != fingerprint:
            raise StudyError(
                f"{out} was made with other weights or images: choose another --out, or delete it to start anew."
            )
        return cls(fresh, trained, fingerprint, images, labels, batches, settings.seed)

    def score(self, policy: str, change: ATS | None) -> Scored:
        """Score one policy; all policies meet the same images, noise and random numbers."""
        rng = torch.Generator().manual_seed(self.seed)
        noise = torch.rand(self.images.shape, generator=rng)
        images, *batches = (
            one if change is None else change.on_images(one, rng=rng) for one in (self.images, *self.batches)
        )
        accuracy = statistics.fmean(accuracy_score(self.fresh, batch) for batch in batches)
        return Scored(policy, privacy_score(self.trained, images, self.labels, noise), accuracy)


def _batches(found: ImageSet, settings: Search) -> Iterator[Tensor]:
    """Batches of equal size, of as many classes as possible; one batch of all images where there are few."""
    size = min(settings.batch, len(found))
    count = min(settings.batches, len(found) // size)
    places = found.spread(size * count, settings.seed + 1)
    for start in range(0, size * count, size):
        yield found.batch(places[start : start + size])[0]


def _trained(
    settings: Search, spec: ImageSpec, out: Path, before: JSON | None, root: Path | None, progress: Progress
) -> nn.Module:
    """The model with the weights given, or trained on a tenth of the training images and kept beside ``out``."""
    model = own.build(settings.model, spec, seed=settings.seed)
    kept = out.with_name(f"{out.name}.safetensors")
    if settings.weights is not None:
        own.load_weights(model, Path(settings.weights))
    elif before is not None:
        own.load_weights(model, kept)
    else:
        own_set = data.load(settings.dataset, root=root, size=settings.size, split="train")
        some = own_set.spread(max(len(own_set) // SHARE, min(len(own_set), settings.batch)), settings.seed)
        try:
            fit(model, *own_set.batch(some), Recipe(epochs=settings.epochs, seed=settings.seed), progress=progress)
        except ModelError as error:
            raise ModelError(
                f"The model for the search cannot be trained with usual settings ({error}) "
                "Train one with 'glasshouse train' and give its --weights."
            ) from error
        write_atomic(kept, to_safetensors({name: one.contiguous() for name, one in model.state_dict().items()}))
    return model.eval()


def _fingerprint(model: nn.Module, images: Sequence[Tensor]) -> str:
    """A hash of the weights and images that scores were made with."""
    weights = {name: value.detach().clone().contiguous() for name, value in model.state_dict().items()}
    found = hashlib.sha256(to_safetensors(weights))
    for one in images:
        found.update(one.numpy().tobytes())
    return found.hexdigest()[:24]


def _read(out: Path, settings: Search) -> JSON | None:
    """What a search has written before, if it was the same search."""
    if not out.exists():
        return None
    try:
        before: JSON = json.loads(out.read_text(encoding="utf-8"))
        policies = {Scored(**one).policy for one in before["scores"]}
        same = before["schema"] == SCHEMA and before["search"] == _lasting(settings) and "fingerprint" in before
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise StudyError(f"{out} holds no policy search: choose another --out.") from error
    if not same or PLAIN not in policies:
        raise StudyError(f"{out} belongs to another search: choose another --out, or delete it to start anew.")
    return before


def _lasting(settings: Search) -> JSON:
    """What must stay for a search to go on; the path of the weights may change, their content has a fingerprint."""
    return {name: value for name, value in asdict(settings).items() if name != "weights"}


def _write(out: Path, settings: Search, fingerprint: str, found: Found, scores: dict[str, Scored]) -> None:
    content = {
        "schema": SCHEMA,
        "search": _lasting(settings),
        "fingerprint": fingerprint,
        "threshold": found.threshold,
        "best": [one.policy for one in found.best],
        "left": found.left,
        "scores": [asdict(one) for one in scores.values()],
    }
    write_atomic(out, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
