"""What a server saw in a round of a federation, attacked and scored against the images behind it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from glasshouse import defenses
from glasshouse import metrics as metric_room
from glasshouse.attacks import InversionAttack
from glasshouse.errors import ModelError
from glasshouse.federated.clients import Member, undefended_round
from glasshouse.federated.holdings import Holding
from glasshouse.federated.leaks import likeness
from glasshouse.federated.observed import Sighting, Statistics, change_of, statistics_of
from glasshouse.federated.plan import Federation
from glasshouse.federated.records import Ledger
from glasshouse.functional.gradients import signal_to_noise_db
from glasshouse.functional.intervals import share_interval
from glasshouse.functional.threads import one_thread
from glasshouse.metrics import Metric
from glasshouse.models.batchnorm import batchnorm_layers
from glasshouse.registry import complete_spec
from glasshouse.store import Album
from glasshouse.studies.assignment import share_right
from glasshouse.studies.conditions import Conditions
from glasshouse.studies.pictures import fingerprint, opaque_name, save_picture, to_pixels, to_tensor
from glasshouse.studies.scoring import mean_colors, nearer
from glasshouse.types import BatchNorm, ImageSpec, Interval, Threat, finite_or_none

log = logging.getLogger(__name__)

SHOWN = 8
NOISE = 400  # pictures by which it is told how often a guess points home by chance
FLOOR_METRICS = ("lpips", "ssim", "psnr")


@dataclass(frozen=True, slots=True, eq=False)
class Victim:
    """What the server saw of one client, or of several together by their numbers, and the images behind it.

    ``statistics`` are those of the batch in every call of batch norm, where they can be read off one step; ``snr_db``
    says how much of what it would have seen the defense left in it.
    """

    name: str
    change: Mapping[str, Tensor]
    truth: Tensor
    labels: Tensor
    local_steps: int
    members: tuple[int, ...]
    round: int
    statistics: Statistics | None = None
    snr_db: float | None = None

    @property
    def clients(self) -> int:
        """How many clients are behind it."""
        return len(self.members)


@dataclass(frozen=True, slots=True)
class Row:
    """How near one attack, by its SPEC as written and in full, came to the images behind one update.

    ``nearer`` says whether guesses are nearer to their images than these images' mean colours are, by LPIPS, or by SSIM
    and PSNR, whatever metrics were asked for. ``home`` is the share of guesses whose most similar picture, among the
    victim's images and as many others, is one of the victim's, and ``chance`` that share of noise: about half, and more
    where the others are unlike the victim's. ``pictures`` are pairs of an image and the guess that came nearest to it.
    """

    victim: str
    attack: str
    attack_spec: str
    how: str
    values: dict[str, Interval]
    floor: dict[str, Interval]
    nearer: bool
    home: Interval
    chance: float
    threat: Threat
    pictures: tuple[tuple[str, str], ...]


def victims(
    plan: Federation, ledger: Ledger, number: int, held: Mapping[int, Holding], model: nn.Module
) -> list[Victim]:
    """Each client of a round by itself, but for an adversary; behind secure aggregation, the mean of all."""
    sent = ledger.sent(number)
    drawn = defenses.create(plan.defense).poisson
    steps = {client: plan.recipe.steps(len(one), drawn=drawn) for client, one in held.items()}
    # where versions differ, those that the round began with
    samples = {client: held[client].in_epoch(number * plan.local_epochs) for client in sorted(held)}
    if plan.secure_aggregation:
        change = change_of(model, sent, ledger.sent(number + 1))
        images = torch.cat([one.images for one in samples.values()])
        labels = torch.cat([one.targets for one in samples.values()])
        name = f"mean of {len(held)} clients"
        return [Victim(name, change, images, labels, max(steps.values()), tuple(samples), number)]
    found = []
    for client, own in samples.items():
        if plan.adversary_at(client) is None:
            seen, count = ledger.seen(number, client), steps[client]
            whole = count == 1 and not drawn  # a step on all images of the client
            statistics = statistics_of(model, sent, seen, tuple(own.images.shape)) if whole else None
            change = change_of(model, sent, seen)
            found.append(
                Victim(f"client {client}", change, own.images, own.targets, count, (client,), number, statistics)
            )
    return found


def measured(plan: Federation, ledger: Ledger, held: Mapping[int, Holding], model: nn.Module, victim: Victim) -> Victim:
    """The same with its signal-to-noise ratio, where a defense could have changed what the server saw.

    Simulated clients train the round again without the defense. What an adversary would have added to a sum is not
    known, so a sum with one in it has no ratio; neither has a round that diverges without the defense.
    """
    if not defenses.create(plan.defense).stages or any(map(plan.adversary_at, victim.members)):
        return victim
    sent, clean = ledger.sent(victim.round), list[list[Tensor]]()
    for client in victim.members:
        try:
            trained = undefended_round(plan, held[client], Member.simulated(client, plan.seed), victim.round, sent)
        except ModelError as error:
            log.info("no signal-to-noise ratio of client %d: %s", client, error)
            return victim
        share = trained.examples / sum(len(held[one]) for one in victim.members)
        clean.append([share * value for value in change_of(model, sent, trained.weights).values()])
    mean = [torch.stack(parts).sum(0) for parts in zip(*clean, strict=True)]
    return replace(victim, snr_db=finite_or_none(signal_to_noise_db(mean, list(victim.change.values()))))


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The model that clients were sent, other images like theirs, the metrics, and where pictures are kept.

    ``public`` images, and the SPEC of the clients' ``defense``, are known to the attacker.
    """

    model: nn.Module
    image: ImageSpec
    learning_rate: float
    others: Tensor
    judges: Mapping[str, Metric]
    out: Path
    public: Tensor | None = None
    defense: str = "none"

    def attacked(
        self, victim: Victim, text: str, attack: InversionAttack, *, images: int, labels: str, seed: int
    ) -> Row:
        """Attack one update, find the image that each guess is nearest to, and score the pairs."""
        mode: BatchNorm = "train" if batchnorm_layers(self.model) else "eval"
        sighting = Sighting(
            victim.change,
            victim.local_steps,
            self.learning_rate,
            self.image,
            len(victim.truth),
            mode,
            victim.labels if labels == "given" else None,
            victim.statistics,
            self.public,
            self.defense,
        )
        with one_thread():
            rng = torch.Generator().manual_seed(seed)
            found, how = sighting.attacked(attack, self.model, images=images, rng=rng)
        guesses = torch.stack([to_tensor(to_pixels(guess)) for guess in found.images])  # as they are stored
        truth = victim.truth[assigned(guesses, victim.truth)]
        flat = mean_colors(truth)
        return Row(
            victim.name,
            text,
            complete_spec(attack),
            how,
            self._scores(self.judges, truth, guesses),
            self._scores(self.judges, truth, flat),
            self._nearer(truth, guesses, flat),
            points_home(guesses, victim.truth, self.others),
            home_by_chance(victim.truth, self.others),
            _threat(victim, sighting.few(images), attack, labels, share_right(found.labels, victim.labels)),
            self._pictures(truth, guesses),
        )

    def _scores(self, judges: Mapping[str, Metric], truth: Tensor, guess: Tensor) -> dict[str, Interval]:
        """Every metric that is defined for such images."""
        usable = {text: one for text, one in judges.items() if one.why_not(self.image, len(truth)) is None}
        return {text: metric.mean(metric(truth, guess).tolist()) for text, metric in usable.items()}

    def _nearer(self, truth: Tensor, guesses: Tensor, flat: Tensor) -> bool:
        """Whether the guesses are nearer to the truth than mean colours are."""
        judges = {name: cast(Metric, metric_room.create(name)) for name in FLOOR_METRICS}
        found, floor = (self._scores(judges, truth, one) for one in (guesses, flat))
        signs = {name: 1 if judges[name].leaks_when == "high" else -1 for name in found}
        return nearer({name: sign * (found[name].mean - floor[name].mean) > 0 for name, sign in signs.items()})

    def _pictures(self, truth: Tensor, guesses: Tensor) -> tuple[tuple[str, str], ...]:
        """Pairs of pictures, named by what they show: an audit with other settings does not write over them."""

        def kept(image: Tensor) -> str:
            pixels = to_pixels(image)
            return save_picture(Album.of(self.out), opaque_name(fingerprint(pixels)), pixels)[0]

        return tuple((kept(one), kept(two)) for one, two in zip(truth[:SHOWN], guesses[:SHOWN], strict=True))


def assigned(guesses: Tensor, truth: Tensor) -> Tensor:
    """For each guess the place of an image of its own, by the assignment with the least squared error."""
    errors = torch.cdist(guesses.flatten(1).double(), truth.flatten(1).double()).square()
    _, places = linear_sum_assignment(errors.numpy())
    return torch.as_tensor(places)


def points_home(guesses: Tensor, truth: Tensor, others: Tensor) -> Interval:
    """The share of guesses that are more like one of the victim's images than like any of as many others.

    Both are drawn, always alike: a data set may be in the order of its classes.
    """
    count, rng = min(len(truth), len(others)), torch.Generator().manual_seed(0)
    drawn = (part[torch.randperm(len(part), generator=rng)[:count]] for part in (truth, others))
    own, foreign = (likeness(guesses, part).max(1).values for part in drawn)
    return share_interval(int((own > foreign).sum()), len(guesses))


def home_by_chance(truth: Tensor, others: Tensor) -> float:
    """The share of pictures of noise that point home: who holds shuffled images draws noise, where others are not."""
    noise = torch.rand((NOISE, *truth.shape[1:]), generator=torch.Generator().manual_seed(0))
    return max(points_home(noise, truth, others).mean, 0.5)


def _threat(victim: Victim, sighting: Sighting, attack: InversionAttack, labels: str, right: float | None) -> Threat:
    use, normed = attack.labels_used, sighting.batchnorm == "train"  # as clients train, where there is batch norm
    known = Conditions(statistics="running" if sighting.batch_statistics is None else "batch")
    return Threat(
        batchnorm="train" if normed else "none",
        statistics=known.known_statistics("train") if normed else "none",
        labels=labels if use == "given or recovered" else use,
        labels_right=right,
        batch=len(victim.truth),
        local_steps=victim.local_steps,
        clients=victim.clients,
        round=str(victim.round + 1),
        tuning="fixed settings",
        snr_db=victim.snr_db,
        adversary=attack.adversary,
    )
