"""Train SemSim on the judgements of studies, and keep it with a word on whose judgements they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from glasshouse import checks
from glasshouse.errors import UnknownNameError
from glasshouse.functional.threads import one_thread
from glasshouse.semsim import Network, Recipe, fit, save
from glasshouse.semsim.backbones import DEFAULT, builder
from glasshouse.semsim.files import refuse_taken
from glasshouse.semsim.fit import Fitted
from glasshouse.store import Kind
from glasshouse.studies.judgements import TEACHERS, Judgements, kind_of, read
from glasshouse.studies.teaching import taught, values
from glasshouse.types import Progress, no_progress

#: What is trained, and how, unless something else is asked for.
PRESETS: Mapping[str, tuple[str, Callable[[], Recipe]]] = {
    "quick": (DEFAULT, Recipe),
    "paper": ("resnet50", Recipe.paper),
}


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What is trained, and how."""

    backbone: str = DEFAULT
    pretrained: bool | None = None
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        builder(self.backbone, self.pretrained)

    @classmethod
    def of(
        cls,
        preset: str,
        backbone: str | None = None,
        pretrained: bool | None = None,
        **changes: float | str | None,
    ) -> Lesson:
        """That of a preset, but for what is not None."""
        checks.one_of("preset", preset, tuple(PRESETS))
        usual, recipe = PRESETS[preset]
        given = {name: value for name, value in changes.items() if value is not None}
        return cls(backbone=backbone or usual, pretrained=pretrained, recipe=replace(recipe(), **given))  # type: ignore[arg-type]

    def learn(self, judgements: Judgements, progress: Progress = no_progress) -> tuple[Network, Fitted]:
        """A network that was trained on some judgements, and how that went."""
        network = builder(self.backbone, self.pretrained)(self.recipe.seed)
        judged = taught(judgements, values(judgements), self.recipe)
        return network, fit(network, judged, self.recipe, progress=progress)


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A training: on whose judgements of which data sets, and how it went."""

    judges: str
    datasets: tuple[str, ...]
    fitted: Fitted


def whose(judgements: Judgements) -> str:
    """Whose judgements they are: classifiers by name, people by number, for who took part is nobody's business."""
    count = len(judgements.voters)
    if judgements.kind == "human":
        return f"human: {count} {'people' if count > 1 else 'person'}"
    return f"{judgements.kind}: {', '.join(judgements.voters)}"


def teachers(studies: Sequence[Path], judges: Kind | None = None, leave_out: Sequence[str] = ()) -> Judgements:
    """The judgements to learn from: people's where there are any, else those of classifiers that may teach.

    Data sets can be left out, by the name before any settings.
    """
    kind = kind_of(studies, judges)
    found = read(studies, kind, None if kind == "human" else TEACHERS)
    names = {name.partition(":")[0] for name in found.datasets}
    for name in leave_out:
        if name not in names:
            raise UnknownNameError("data set to leave out", name, sorted(names))
    return found.only(lambda guess: found.dataset_of(guess).partition(":")[0] not in leave_out)


def train(
    studies: Sequence[Path],
    file: Path,
    lesson: Lesson,
    *,
    judges: Kind | None = None,
    leave_out: Sequence[str] = (),
    progress: Progress = no_progress,
) -> Trained:
    """Train a network on the judgements of studies and write it to a file, which must not be there."""
    refuse_taken(file)
    judgements = teachers(studies, judges, leave_out)
    with one_thread():
        network, fitted = lesson.learn(judgements, progress)
    recipe, epochs = lesson.recipe, lesson.recipe.epochs_of(network)
    save(
        network,
        file,
        judges=whose(judgements),
        datasets=", ".join(judgements.datasets),
        originals=str(fitted.originals),
        guesses=str(fitted.guesses),
        order="unknown" if fitted.order is None else f"{fitted.order:.4f}",
        recipe=f"{recipe.loss} loss, margin {recipe.margin:g}, best of {epochs} epochs: {fitted.epochs}",
        seed=str(recipe.seed),
    )
    return Trained(whose(judgements), judgements.datasets, fitted)
