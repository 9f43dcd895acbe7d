"""Image defenses beside one another: what each costs in accuracy, and what the worst attack on it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from glasshouse.reports.drawing import png
from glasshouse.reports.view import with_interval
from glasshouse.studies.adaptive import SHOWN
from glasshouse.studies.shuffled import IN_THE_SET
from glasshouse.types import JSON

COLUMNS = (
    "defense",
    "accuracy, protected test",
    "accuracy, clean test",
    "reconstruction: LPIPS",
    "PSNR",
    "by",
    "nearest picture: SemSim",
    "recognised by a classifier",
    "re-identified",
    "versions linked",
    "in the set: AUC",
    "its group found",
)
PICTURED = 7  # columns that tell of accuracy and pictures; the others tell images apart
LABELS = 1.6  # inches left of the pictures
LEAKS = {
    "semsim": "nearest picture: SemSim (far is hidden)",
    "recognised": "recognised by a classifier (worst attack)",
    "identified": "re-identified (worst attack)",
    "linked": "versions linked (worst attack)",
    "member": "in the set: AUC (worst attack)",
}
HEADS = {"original": "private", "protected": "sent", "A": "A", "B": "B", "C": "C", "D": "D", "E": "E"}


@dataclass(frozen=True, slots=True)
class Worst:
    """The best any attack did against one defense, column by column."""

    variant: str
    accuracy: dict[str, JSON]
    sharpest: str
    lpips: JSON
    psnr: JSON | None
    nearest: str
    semsim: JSON | None
    recognised: JSON
    identified: JSON
    linked: JSON | None
    member: JSON | None
    group: JSON | None

    def cells(self) -> list[str]:
        """The row of a table."""
        return [
            self.variant,
            percent(self.accuracy["protected"]),
            percent(self.accuracy["clean"]),
            number(self.lpips),
            "identical" if self.psnr is None else number(self.psnr),
            self.sharpest,
            "" if self.semsim is None else f"{number(self.semsim)}, {self.nearest}",
            percent(self.recognised),
            percent(self.identified),
            "" if self.linked is None else percent(self.linked),
            "" if self.member is None else number(self.member),
            "" if self.group is None else percent(self.group),
        ]


def worst(row: JSON) -> Worst:
    """The row of one defense; what was sent counts as an attack that does nothing."""
    parts = {part["part"]: part["scores"] for part in row["parts"]}
    pictures = {name: scores for name, scores in parts.items() if "lpips" in scores and not name.startswith("baseline")}
    sharpest = min(pictures, key=lambda name: pictures[name]["lpips"]["mean"])
    psnr = pictures[sharpest]["psnr"]
    closest, semsim = nearest(pictures)
    linked = [scores["share"] for name, scores in parts.items() if name.startswith("F linked")]
    asked = [scores for name, scores in parts.items() if name.startswith(IN_THE_SET)]
    return Worst(
        variant=row["variant"],
        accuracy=row["accuracy"],
        sharpest=sharpest,
        lpips=pictures[sharpest]["lpips"],
        psnr=None if psnr["mean"] is None else psnr,
        nearest=closest,
        semsim=semsim,
        recognised=_most([scores["recognised"] for scores in pictures.values()]),
        identified=_most([scores["share"] for name, scores in parts.items() if name.startswith("re-identified")]),
        linked=_most(linked) if linked else None,
        member=_most([scores["auc"] for scores in asked]) if asked else None,
        group=_most([scores["group found"] for scores in asked]) if asked else None,
    )


def nearest(pictures: Mapping[str, JSON]) -> tuple[str, JSON | None]:
    """Which picture comes nearest to its original by SemSim, and how near; nothing where it was not asked."""
    distances = {name: scores["semsim"] for name, scores in pictures.items() if "semsim" in scores}
    return min(distances.items(), key=lambda one: one[1]["mean"], default=("", None))


def _most(shares: Sequence[JSON]) -> JSON:
    return max(shares, key=lambda share: share["mean"])


def percent(value: JSON) -> str:
    """A share with its interval."""
    return with_interval(value, ".0%")


def number(value: JSON) -> str:
    """A mean with its interval."""
    return with_interval(value, ".3g")


def draw_tradeoff(rows: Sequence[JSON]) -> bytes:
    """Accuracy against what the worst attack gets, in all ways that were measured: points with intervals."""
    from matplotlib.figure import Figure

    found = [worst(row) for row in rows]
    shown = {name: title for name, title in LEAKS.items() if any(getattr(one, name) is not None for one in found)}
    figure = Figure(figsize=(4.6 * len(shown), 4.6), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, len(shown), sharey=True), shown.items(), strict=True):
        for one in found:
            leak = getattr(one, name)
            if leak is not None:
                _point(axes, leak, one.accuracy["protected"], one.variant)
        axes.set_xlabel(title)
        axes.set_xlim(-0.05, 1.05)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("accuracy on protected test images")
    return png(figure, dpi=90)


def _point(axes: Any, leak: JSON, accuracy: JSON, name: str) -> None:
    x, y = leak["mean"], accuracy["mean"]
    spread = [
        [[max(value["mean"] - value["low"], 0)], [max(value["high"] - value["mean"], 0)]] for value in (leak, accuracy)
    ]
    axes.errorbar([x], [y], xerr=spread[0], yerr=spread[1], fmt="o", capsize=2)
    side, ends = ("right", -6) if x > 0.5 else ("left", 6)  # so that names stay inside the picture
    axes.annotate(name, (x, y), textcoords="offset points", xytext=(ends, 4), fontsize=7, ha=side)


def draw_pictures(directory: Path, rows: Sequence[tuple[JSON, str]], images: int) -> bytes:
    """For each defense what was sent and what each part made of it, ``images`` pictures in each line.

    ``rows`` are results with the stem of their picture files.
    """
    from matplotlib.figure import Figure

    shown = [(row["variant"], name, directory / f"{stem}.{name}.png") for row, stem in rows for name in row["pictures"]]
    first = shown[0]
    lines = [first, *(line for line in shown if line[1] != "original")]
    width = LABELS + 1.1 * images
    figure = Figure(figsize=(width, 1.15 * len(lines)))
    figure.subplots_adjust(left=LABELS / width, right=1, top=1, bottom=0, hspace=0.06)
    for axes, (variant, name, file) in zip(figure.subplots(len(lines), 1, squeeze=False)[:, 0], lines, strict=True):
        with Image.open(file) as strip:
            side = strip.width // SHOWN
            axes.imshow(
                strip.crop((0, 0, side * images, strip.height)), cmap="gray", vmin=0, vmax=255, interpolation="nearest"
            )
        axes.set_axis_off()
        text = "private" if name == "original" else f"{variant}\n{HEADS[name]}".replace(":", ":\n")
        axes.text(-0.01, 0.5, text, transform=axes.transAxes, ha="right", va="center", fontsize=8)
    return png(figure, dpi=90)
