"""What SemSim owes to its data, its backbone, its loss and its margin (figures 7 and 9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from glasshouse import checks
from glasshouse.errors import DataError, SettingError
from glasshouse.functional.threads import one_thread
from glasshouse.semsim.backbones import BACKBONES
from glasshouse.semsim.fit import FEWEST
from glasshouse.semsim.losses import LOSSES
from glasshouse.studies.evaluation import AXES, Evaluated, panels, without
from glasshouse.studies.judgements import Judgements
from glasshouse.studies.runner import RunProgress
from glasshouse.studies.semsim import Lesson, whose
from glasshouse.types import JSON, flat

SCHEMA = 3  # the first did not say what was asked, the second not of which votes
SIZES_PANEL = "training originals"
SIZES = (50, 100, 200, 400, 800)
MOST = 10**6  # originals
MARGINS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0)
PAPER_LOSS = "triplet"  # whose margin figure 9 is about
AXIS = "data set"


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """What is tried; an empty range leaves its panel out.

    All but ``sizes`` learn from so many ``originals``, from all where it is None: large backbones take long.
    """

    sizes: tuple[int, ...] = SIZES
    backbones: tuple[str, ...] = BACKBONES
    losses: tuple[str, ...] = tuple(LOSSES)
    margins: tuple[float, ...] = MARGINS
    originals: int | None = None

    def __post_init__(self) -> None:
        for size in self.sizes:
            checks.whole("sizes", size, FEWEST, MOST)
        if self.originals is not None:
            checks.whole("originals", self.originals, FEWEST, MOST)
        if not (self.sizes or self.backbones or self.losses or self.margins):
            raise SettingError("There is nothing to try: give sizes, backbones, losses or margins.")


@dataclass(frozen=True, slots=True)
class Variant:
    """One training: the panel of the figure that it belongs to, its place there, and what it does.

    Of no ``originals`` it has all; of 0 it learns nothing, and ranks as the network did before.
    """

    panel: str
    value: str
    lesson: Lesson
    originals: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ablated:
    """A variant, its test, and who made it."""

    variant: Variant
    test: Evaluated
    testers: str

    @property
    def shown(self) -> int:
        """How many originals the network learned from."""
        return 0 if self.variant.originals == 0 else self.test.originals

    def to_json(self) -> JSON:
        """Flat, with ``_low`` and ``_high`` beside each value; null where there is none, and ``failed`` says why."""
        found = () if self.test.found is None else self.test.found.metrics
        metric = next((one for one in found if one.name == "semsim"), None)
        collapsed = self.test.missing.get("semsim")
        row: JSON = {"panel": self.variant.panel, "value": self.variant.value}
        row |= {"left_out": self.test.left_out, "testers": self.testers, "originals": self.shown}
        for name in ("rho", "tau", "auc_within_original"):
            row |= flat(name, None if metric is None else getattr(metric, name))
        return row | {"failed": f"SemSim is {collapsed}" if collapsed else self.test.failed}


def ablate(
    studies: Sequence[Path],
    lesson: Lesson,
    *,
    lessons: Sequence[Path] = (),
    left_out: str | None = None,
    ranges: Ranges | None = None,
    done: Collection[tuple[str, str]] = (),
    progress: RunProgress = lambda done, total: None,
) -> Iterator[Ablated]:
    """Train every variant without one data set, the first unless it is named, and test it there, one after another.

    What is ``done``, by its panel and value, is left out.
    """
    teaching, testing = panels(studies, lessons)
    known = sorted({AXES[AXIS](testing, guess) for guess in testing.guesses})
    target = left_out or known[0]
    rest = teaching.only(lambda guess: AXES[AXIS](teaching, guess) != target)
    if target not in known or not rest.guesses:
        raise DataError(
            f"To test on '{target}' takes votes on it and on another data set to learn from: "
            f"here are {', '.join(known)}."
        )
    work = list(variants(lesson, ranges or Ranges(), len(rest.originals)))
    tests: dict[tuple[Lesson, int], Evaluated] = {}
    for number, variant in enumerate(work):
        progress(number, len(work))
        if (variant.panel, variant.value) in done:
            continue
        some = _some(rest, variant.originals, lesson.recipe.seed)
        alike = variant.lesson, len(some.originals)
        if alike not in tests:  # several panels hold the plain lesson
            with one_thread():
                tests[alike] = without(some, testing, AXIS, target, variant.lesson)
        yield Ablated(variant, tests[alike], whose(testing))
    progress(len(work), len(work))


def in_panels(rows: Iterable[JSON]) -> list[JSON]:
    """Rows that may have been made at different times, panel by panel, by how many originals taught."""
    found = list(rows)
    panels = list(dict.fromkeys(row["panel"] for row in found))
    return sorted(found, key=lambda row: (panels.index(row["panel"]), row["originals"]))


def variants(lesson: Lesson, ranges: Ranges, originals: int) -> Iterator[Variant]:
    """Each variant differs from the lesson in one thing; margins are those of the paper's loss."""
    if ranges.sizes:
        yield Variant(SIZES_PANEL, "0", replace(lesson, recipe=replace(lesson.recipe, epochs=0)), 0)
    for size in (*(size for size in ranges.sizes if size < originals), *([originals] if ranges.sizes else [])):
        yield Variant(SIZES_PANEL, str(size), lesson, size)
    for backbone in ranges.backbones:
        yield Variant("backbone", backbone, replace(lesson, backbone=backbone, pretrained=None), ranges.originals)
    for loss in ranges.losses:
        yield Variant("loss", loss, replace(lesson, recipe=replace(lesson.recipe, loss=loss)), ranges.originals)
    for margin in ranges.margins:
        recipe = replace(lesson.recipe, loss=PAPER_LOSS, margin=margin)
        panel = f"margin of the {PAPER_LOSS} loss"
        yield Variant(panel, f"{margin:g}", replace(lesson, recipe=recipe), ranges.originals)


def _some(judgements: Judgements, count: int | None, seed: int) -> Judgements:
    """Some of the originals, drawn by the seed, and all of their guesses."""
    if not count or count >= len(judgements.originals):
        return judgements
    mixed = torch.randperm(len(judgements.originals), generator=torch.Generator().manual_seed(seed))
    kept = frozenset(mixed[:count].tolist())
    return judgements.only(lambda guess: guess.owner in kept)
