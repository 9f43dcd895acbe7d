"""The contract of membership attacks: an author writes ``run``, the base class checks what goes in and out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from glasshouse import checks, devices
from glasshouse.errors import AttackError, CapabilityError, DataError, ModelError, SettingError
from glasshouse.membership.queries import View, logits, plainly
from glasshouse.membership.shadows import Bank, Shadows
from glasshouse.models.batchnorm import batchnorm_mode
from glasshouse.registry import Registry, setting
from glasshouse.training import Samples
from glasshouse.types import ImageSpec


@dataclass(frozen=True, slots=True, eq=False)
class Public:
    """What an attacker has beside the model: images and labels of the same kind, none of them a member.

    ``bank`` trains shadow models; without it only attacks that need none can run. ``view`` is how the target and
    the shadows are queried; what shadows said is remembered for the next attack.
    """

    images: Tensor
    labels: Tensor
    bank: Bank | None = None
    view: View = plainly
    remembered: dict[str, Tensor] = field(default_factory=dict, init=False)

    def shadows(self, candidates: Tensor, labels: Tensor, count: int) -> Shadows:
        """``count`` shadow models, trained now where that was not done before."""
        if self.bank is None:
            raise CapabilityError(
                "This attack needs shadow models, and nobody said how to train them: give Public(bank=Bank(...))."
            )
        found = self.bank.shadows(Samples(candidates, labels), Samples(self.images, self.labels), count)
        found.train()
        return found

    def said(self, shadows: Shadows, images: Tensor, name: str) -> Tensor:
        """Logits (S, N, classes) of every shadow; each is asked once only about the images of one name."""
        for number in range(len(shadows)):
            key = f"{name} {shadows.name(number)}"
            if key not in self.remembered:
                self.remembered[key] = logits(self.view(shadows.model(number)), images)
        return torch.stack([self.remembered[f"{name} {shadows.name(number)}"] for number in range(len(shadows))])


class MembershipAttack(ABC):
    """Scores how likely each candidate was among the images that a model was trained on.

    ``version`` counts changes of the algorithm that change its results.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    adversary: ClassVar[str] = "anyone who may query the trained model"
    version: ClassVar[int] = 1

    @property
    def shadow_count(self) -> int:
        """How many shadow models the attack wants."""
        return 0

    @final
    def __call__(
        self,
        model: nn.Module,
        candidates: Tensor,
        labels: Tensor,
        *,
        public: Public | None = None,
        rng: torch.Generator,
    ) -> Tensor:
        """Check what is given, run the attack, check what came out: scores (N,), high for members."""
        public = public or Public(candidates[:0], labels[:0])
        self.refuse(model, candidates, labels, public)
        with batchnorm_mode(model, "eval"):
            scores = self.run(public.view(model), candidates, labels, public=public, rng=rng)
        if scores.shape != (len(candidates),):
            raise AttackError(
                f"Attack '{self.name}' returned shape {tuple(scores.shape)} instead of {(len(candidates),)}: "
                "this is a bug in the attack."
            )
        if not bool(scores.isfinite().all()):
            raise AttackError(f"Attack '{self.name}' returned scores that are not finite: check the model's weights.")
        return scores

    def refuse(self, model: nn.Module, candidates: Tensor, labels: Tensor, public: Public) -> None:
        """Raise before any work where this attack cannot work; subclasses add their own reasons."""
        checks.images("candidates", candidates)
        channels, height, width = candidates.shape[1:]
        spec = ImageSpec(channels, height, width, _outputs(model, candidates))
        checks.labels(labels, spec, len(candidates))
        if not len(public.images):
            return
        checks.images("public images", public.images)
        if public.images.shape[1:] != candidates.shape[1:]:
            raise DataError(
                f"public images have shape {tuple(public.images.shape[1:])}, candidates "
                f"{tuple(candidates.shape[1:])}: use one shape."
            )
        checks.labels(public.labels, spec, len(public.images))

    @abstractmethod
    def run(
        self, model: nn.Module, candidates: Tensor, labels: Tensor, *, public: Public, rng: torch.Generator
    ) -> Tensor:
        """Return scores (N,), high for members; the model is in eval mode."""


@dataclass(frozen=True, kw_only=True)
class ShadowAttack(MembershipAttack):
    """An attack that compares the target with models of which it knows what they were trained on."""

    fewest: ClassVar[int] = 2  # shadow models that it needs

    shadows: int = setting(16, "shadow models, an even number: each image is in half of them; shared by all attacks")

    def __post_init__(self) -> None:
        checks.at_least("shadows", self.shadows, self.fewest)
        if self.shadows % 2:
            raise SettingError(
                f"shadows={self.shadows} is odd: use an even number, so that images are in half of them."
            )

    @property
    def shadow_count(self) -> int:
        """How many shadow models the attack wants."""
        return self.shadows

    def refuse(self, model: nn.Module, candidates: Tensor, labels: Tensor, public: Public) -> None:
        """Refuse also where there is nothing to train shadow models with."""
        super().refuse(model, candidates, labels, public)
        if not len(public.images):
            raise DataError(
                f"There are no public images, which attack '{self.name}' needs: give some that the model was not "
                "trained on, or use the attack 'loss', which needs none."
            )
        if public.bank is None:
            raise CapabilityError(
                f"Attack '{self.name}' needs shadow models, and nobody said how to train them: give "
                "Public(images, labels, bank=Bank(...)), or use the attack 'loss', which needs none."
            )

    def run(
        self, model: nn.Module, candidates: Tensor, labels: Tensor, *, public: Public, rng: torch.Generator
    ) -> Tensor:
        """Train shadow models where they are missing, ask them and the target the same, and compare."""
        shadows = public.shadows(candidates, labels, self.shadows)
        scores = [
            self.compare(logits(model, images), public.said(shadows, images, name), shadows)
            for name, images in self.queries(shadows.pool.images).items()
        ]
        return torch.stack(scores).mean(0)

    def queries(self, images: Tensor) -> dict[str, Tensor]:
        """What is asked about images, by name; the score is the mean over them."""
        return {"plain": images}

    @abstractmethod
    def compare(self, target: Tensor, said: Tensor, shadows: Shadows) -> Tensor:
        """Scores (candidates,) from the logits of the target (N, classes) and of the shadows (S, N, classes).

        The N images are the shadows' pool: the candidates, then the public ones.
        """


membership: Registry[MembershipAttack] = Registry("membership attack", "glasshouse.membership")


def _outputs(model: nn.Module, candidates: Tensor) -> int:
    """How many classes a model tells apart; one that cannot look at the candidates is refused."""
    try:
        with batchnorm_mode(model, "eval"), torch.no_grad():
            found = model(candidates[:2].to(devices.home_of(model)))
    except (RuntimeError, ValueError, TypeError, LookupError, AssertionError, AttributeError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"The model does not take images of shape {tuple(candidates.shape[1:])} ({first}): "
            "give images of the shape it was made for."
        ) from error
    if not isinstance(found, Tensor) or found.ndim != 2 or found.shape[1] < 2:
        given = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ModelError(
            f"The model returns {given} for two images: return logits (N, classes) of two classes or more."
        )
    if not bool(found.isfinite().all()):
        raise ModelError("The model returns NaN or infinite logits: check its weights.")
    return int(found.shape[1])
