"""Shadow models: trained as the target was, on images that the attacker chose, kept on disk once they are finished."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.defenses import DefendedClient, Defense, create
from glasshouse.errors import DataError, SettingError, WeightsError
from glasshouse.files import write_atomic
from glasshouse.functional.threads import one_thread
from glasshouse.models import own
from glasshouse.training import Recipe, Samples, fit
from glasshouse.types import Progress, no_progress

log = logging.getLogger(__name__)

VERSION = 2  # counts changes that change a shadow model
DIGEST = "sha256"  # what the file of a kept model calls the checksum of its tensors
FEWEST = 2


def derived(*facts: object) -> int:
    """A seed made of some facts, so that different purposes never share one."""
    return int.from_bytes(hashlib.sha256(repr(facts).encode()).digest()[:6], "big")


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """How the target is trained, and its shadows like it.

    ``build`` makes a network by a seed, freshly initialised; ``identity`` says what it builds, so that kept models
    are found again only where they fit. The recipe's own seed does not matter.
    """

    build: Callable[[int], nn.Module]
    identity: str
    recipe: Recipe = field(default_factory=Recipe)
    defense: Defense = field(default_factory=lambda: create("none"))

    def __post_init__(self) -> None:
        if self.defense.idle_in_training:
            raise SettingError(
                f"'{self.defense.spec}' acts on {self.defense.acts_on}, not while training, so it leaves the model as "
                "it is: add at=training."
            )

    @property
    def key(self) -> str:
        """A hash of all that decides what training makes of images and a seed."""
        recipe = {name: value for name, value in dataclasses.asdict(self.recipe).items() if name != "seed"}
        facts = (VERSION, self.identity, sorted(recipe.items()), self.defense.complete_spec, self.defense.versions)
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def guard(self, count: int) -> Defense:
        """The defense, set up for a training on ``count`` images."""
        batch = min(self.recipe.batch, count)
        return self.defense.for_training(self.recipe.steps(count), batch / count, batch)

    def blank(self, count: int, seed: int = 0) -> nn.Module:
        """The untrained network that a training on ``count`` images begins with."""
        return self.guard(count).on_model(self.build(seed))

    def train(self, samples: Samples, seed: int, progress: Progress = no_progress) -> nn.Module:
        """A network trained on some images, in eval mode; the seed decides all that is random."""
        count = len(samples.images)
        network = self.blank(count, derived("weights", seed))
        rng = torch.Generator().manual_seed(derived("defense", seed))
        recipe = dataclasses.replace(self.recipe, seed=derived("order", seed))
        client = DefendedClient(self.guard(count), rng)
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived("dropout", seed))
            fit(network, samples.images, samples.targets, recipe, client=client, progress=progress)
        return network.eval()


@dataclass(frozen=True, slots=True, eq=False)
class Bank:
    """Trains shadow models and keeps them, in a folder or else in memory, for every attack that asks.

    Each pair of shadows is trained on two random halves of candidates and public images together. With ``size`` it
    is that many images each, the halves of the candidates first, filled up with public ones: as many as the target
    was trained on is best, for a model that saw more images gives less away about each.
    """

    trainer: Trainer
    folder: Path | None = None
    size: int | None = None
    seed: int = 0
    progress: Progress = no_progress  # hears of each training by itself
    kept: dict[str, nn.Module] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.size is not None:
            checks.at_least("size", self.size, FEWEST)

    def shadows(self, candidates: Samples, public: Samples, count: int) -> Shadows:
        """``count`` shadows of some candidates; those that are not kept yet are not trained yet."""
        pool = Samples(torch.cat([candidates.images, public.images]), torch.cat([candidates.targets, public.targets]))
        if len(pool.images) < 2 * FEWEST:
            raise DataError(f"There are {len(pool.images)} images to train shadows on: give {2 * FEWEST} or more.")
        sizes = len(candidates.images), len(public.images)
        masks = [half for pair in range(-(-count // 2)) for half in halves(*sizes, self.size, pair, self.seed)]
        return Shadows(self, pool, sizes[0], torch.stack(masks[:count]), self.key(pool, *sizes))

    def key(self, samples: Samples, *facts: int) -> str:
        """A hash of all that decides what a model learns from some images, or from the parts that facts tell of."""
        found = hashlib.sha256(f"{self.trainer.key} {self.size} {self.seed} {facts}".encode())
        for part in (samples.images, samples.targets):
            found.update(f"{tuple(part.shape)} {part.dtype}".encode())
            found.update(part.detach().cpu().contiguous().numpy().tobytes())
        return found.hexdigest()[:24]

    def holds(self, name: str) -> bool:
        """Whether a model is finished; one whose file is damaged is not."""
        return name in self.kept if self.folder is None else _is_whole(self._file(name))

    def keep(self, name: str, model: nn.Module) -> None:
        """Keep a finished model."""
        if self.folder is None:
            self.kept[name] = model
        else:
            weights = {key: value.detach().clone().contiguous() for key, value in model.state_dict().items()}
            write_atomic(self._file(name), to_safetensors(weights, {DIGEST: _digest_of(weights)}))

    def get(self, name: str, count: int) -> nn.Module:
        """A finished model that was trained on ``count`` images."""
        if self.folder is None:
            return self.kept[name]
        model = self.trainer.blank(count)
        own.load_weights(model, self._file(name))
        return model.eval()

    def _file(self, name: str) -> Path:
        return (self.folder or Path()) / f"{name}.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class Shadows:
    """Some shadow models of a bank, over a pool of images: candidates first, then public ones.

    ``inside`` (count, pool) says which image each shadow is trained on.
    """

    bank: Bank
    pool: Samples
    candidates: int
    inside: Tensor
    key: str

    def __len__(self) -> int:
        return len(self.inside)

    @property
    def of_candidates(self) -> Tensor:
        """Which candidate each shadow was trained on: (count, candidates)."""
        return self.inside[:, : self.candidates]

    @property
    def of_public(self) -> Tensor:
        """Which public image each shadow was trained on: (count, public)."""
        return self.inside[:, self.candidates :]

    def missing(self) -> list[int]:
        """The shadows that are not trained yet."""
        return [number for number in range(len(self)) if not self.bank.holds(self.name(number))]

    def train(self) -> None:
        """Train what is missing; each is kept as soon as it is finished."""
        for number in self.missing():
            self.train_one(number, self.bank.progress)

    def train_one(self, number: int, progress: Progress = no_progress) -> None:
        """Train one shadow and keep it."""
        chosen = self.inside[number]
        samples = Samples(self.pool.images[chosen], self.pool.targets[chosen])
        model = self.bank.trainer.train(samples, derived("shadow", self.bank.seed, number), progress)
        self.bank.keep(self.name(number), model)

    def model(self, number: int) -> nn.Module:
        """One of the shadows, which must be trained."""
        return self.bank.get(self.name(number), int(self.inside[number].sum()))

    def name(self, number: int) -> str:
        """The name that a shadow is kept under."""
        return f"shadow-{self.key}-{number:03d}"


def halves(candidates: int, public: int, size: int | None, pair: int, seed: int) -> tuple[Tensor, Tensor]:
    """Which images of a pool (candidates, then public) the two shadows of a pair are trained on.

    Without ``size`` the two are complements of each other. With it each takes up to ``size`` of its half of the
    candidates, and public images for the rest. No image is ever in both.
    """
    rng = torch.Generator().manual_seed(derived("halves", seed, pair))
    if size is None:
        order = torch.randperm(candidates + public, generator=rng)
        return _marked(order[::2], candidates + public), _marked(order[1::2], candidates + public)
    order, spare = torch.randperm(candidates, generator=rng), torch.randperm(public, generator=rng)
    own_parts = order[::2][:size], order[1::2][:size]
    fill = [size - len(part) for part in own_parts]
    if sum(fill) > public:
        raise DataError(
            f"Two shadow models want {size} different images each, but there are {candidates} candidates and {public} "
            "public images: give more public images, or a smaller size."
        )
    fills = spare[: fill[0]] + candidates, spare.flip(0)[: fill[1]] + candidates
    first, second = (
        _marked(torch.cat([part, more]), candidates + public) for part, more in zip(own_parts, fills, strict=True)
    )
    return first, second


def _is_whole(file: Path) -> bool:
    """Whether a kept model is as it was written; one that is older than digests need only be readable."""
    if not file.is_file():
        return False
    try:
        with safe_open(file, "pt") as content:
            digest = (content.metadata() or {}).get(DIGEST)
        whole = digest in (None, _digest_of(own.read_weights(file)))
    except (SafetensorError, WeightsError):
        whole = False
    if not whole:
        log.warning("%s is damaged: the model is trained again.", file)
    return whole


def _digest_of(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 of named tensors in any order."""
    found = hashlib.sha256()
    for name, value in sorted(weights.items()):
        found.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        found.update(value.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _marked(places: Tensor, count: int) -> Tensor:
    found = torch.zeros(count, dtype=torch.bool)
    found[places] = True
    return found
