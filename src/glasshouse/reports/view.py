"""What the page shows, as plain values: the results regrouped for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from glasshouse.defenses import create as create_defense
from glasshouse.metrics import metrics
from glasshouse.registry import parse_spec
from glasshouse.studies.rows import FIXED, chosen_settings, why_no_interval
from glasshouse.types import JSON
from glasshouse.votes.judgement import Judgement


@dataclass(frozen=True, slots=True)
class Column:
    """A metric as a column: how it is called and which way leaks."""

    metric: str
    label: str
    leaks_when: str

    @property
    def hint(self) -> str:
        """What a reader should look for."""
        return "higher = more can be seen" if self.leaks_when == "high" else "lower = more can be seen"


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of the table, written out."""

    text: str
    interval: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One setup of the table with its threat card."""

    name: tuple[str, ...]
    threat: JSON
    finished: bool
    seen: str
    told: str
    people: str
    acts_on: str
    settings: str
    attack_spec: str
    defense_spec: str
    cells: tuple[Cell, ...]


def setup_of(row: JSON) -> tuple[str, ...]:
    """The words that tell one setup from another."""
    threat = row["threat"]
    return row["defense"], row["attack"], row["model"], threat["round"], threat["batchnorm"], str(threat["batch"])


def columns(results: JSON) -> tuple[Column, ...]:
    """The metrics of the study in the order of its plan."""
    found = []
    for metric in results["settings"]["metrics"]:
        cls = metrics.get(parse_spec(metric)[0])
        label = cls.label if ":" not in metric else f"{cls.label} {metric.partition(':')[2]}"
        found.append(Column(metric, label, cls.leaks_when))
    return tuple(found)


def lines(results: JSON, people: Mapping[str, Judgement] = MappingProxyType({})) -> tuple[Line, ...]:
    """The table, one line per setup; ``people`` is what votes say of reconstructions, by their files."""
    asked: dict[tuple[str, ...], dict[str, bool]] = {}
    for one in results["per_image"] if people else ():
        if one["guess"] in people:
            asked.setdefault(setup_of(one), {})[one["guess"]] = people[one["guess"]].recognised
    seen = {setup_of(one): one for one in results["identified"]}
    by_setup: dict[tuple[str, ...], dict[str, JSON]] = {}
    for row in results["rows"]:
        by_setup.setdefault(setup_of(row), {})[row["metric"]] = row
    table = []
    for name, rows in by_setup.items():
        first = next(iter(rows.values()))
        found = seen.get(name)
        table.append(
            Line(
                name,
                first["threat"],
                found is not None,
                f"{len(found['which'])} of {found['images']}" if found else "none finished",
                f"{round(found['told']['mean'] * found['images'])} of {found['images']}" if found else "",
                f"{sum(asked[name].values())} of {len(asked[name])}" if name in asked else "nobody asked",
                create_defense(name[0]).acts_on,
                chosen_settings(first["attack_spec"], first["threat"]["tuning"]),
                first["attack_spec"],
                first["defense_spec"],
                tuple(cell(rows.get(column.metric)) for column in columns(results)),
            )
        )
    return tuple(table)


def cell(row: JSON | None) -> Cell:
    """A value with its interval, or n/a with the reason."""
    if row is None or not row["images"]:
        return Cell("n/a", reason=row["reason"] if row else "not measured")
    if row["mean"] is None:
        return Cell(
            row["reason"] or "identical", reason="a reconstruction that equals its original has no finite value"
        )
    if row["low"] is None:
        return Cell(short(row["mean"]), reason=why_no_interval(row["images"]))
    return Cell(short(row["mean"]), f"{short(row['low'])} to {short(row['high'])}")


def with_interval(value: JSON, form: str) -> str:
    """A mean and, where there is one, its 95 % interval."""
    ends = "" if value["low"] is None else f" [{value['low']:{form}}, {value['high']:{form}}]"
    return f"{value['mean']:{form}}{ends}"


def short(value: float) -> str:
    """A number with three digits that matter and no exponent where people would not want one."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}" if abs(value) < 0.01 else f"{value:.3f}"


def condition(training: str, batchnorm: str) -> str:
    """A round and batch-norm mode in words."""
    rounds = {"0": "before training (round 0)", "trained": "trained model", "given": "the model as given"}
    modes = {
        "eval": ", batch norm in eval mode (the literature's worst case)",
        "train": ", batch norm in train mode (what clients send)",
    }
    return rounds.get(training, f"round {training}").capitalize() + modes.get(batchnorm, "")


def verdict(results: JSON) -> tuple[str, tuple[str, ...]]:
    """One sentence and one line per defense, from the worst attack under each; never a human's judgement."""
    worst = worst_by_defense(results["identified"])
    if not worst:
        return "Nothing was finished yet, so nothing can be said.", ()
    sentences = []
    for defense, one in worst.items():
        name = "Without a defense" if defense == "none" else f"With {defense}"
        low, high = one["low"], one["high"]
        sentences.append(
            f"{name}, {len(one['which'])} of {one['images']} images could be seen "
            f"(worst attack: {one['attack']}; share {one['mean']:.0%}, 95 % interval {low:.0%} to {high:.0%})."
        )
    fixed = {one["defense"] for one in results["identified"] if at_fixed_settings(one)}
    return _headline(worst, fixed), tuple(sentences)


def _headline(worst: dict[str, JSON], fixed: set[str]) -> str:
    """What the counts allow to be said, and no more.

    A defense is credited only where the intervals are apart, and where the attacks were tuned to it, which those on
    ``fixed`` ones were not.
    """
    bare = worst.get("none")
    if bare is None:
        return "The undefended gradient was not attacked, so no defense can be credited."
    others = {name: one for name, one in worst.items() if name != "none"}
    if not bare["which"]:
        seen = any(one["which"] for one in others.values())
        what = "little, with or without a defense" if seen else "nothing, even undefended"
        return f"These attacks saw {what}: try stronger ones before you trust that."
    parts = [f"Undefended, {len(bare['which'])} of {bare['images']} private images could be seen."]
    hid = [name for name, one in others.items() if one["high"] < bare["low"]]
    unclear = [name for name, one in others.items() if name not in hid and one["mean"] < bare["mean"]]
    open_ones = [name for name in others if name not in (*hid, *unclear)]
    if hid:
        parts.append(f"{' and '.join(hid)} hid more of them than chance explains{untuned(not fixed.isdisjoint(hid))}.")
    if unclear:
        parts.append(f"There are too few images to tell whether {' or '.join(unclear)} helped.")
    if open_ones:
        parts.append(f"Behind {' and '.join(open_ones)} no fewer could be seen.")
    return " ".join(parts)


def at_fixed_settings(one: JSON) -> bool:
    """Whether the attack of a row was not tuned though it has something to tune."""
    return bool(one["threat"]["tuning"] == FIXED)


def untuned(fixed: bool) -> str:
    """What keeps defenses from being credited, if not every attack was tuned for them."""
    return ", but only from attacks at fixed settings: tune them before you rely on that" if fixed else ""


def worst_by_defense(identified: Iterable[JSON]) -> dict[str, JSON]:
    """For each defense the setup in which most was seen."""
    worst: dict[str, JSON] = {}
    for one in identified:
        if one["defense"] not in worst or one["mean"] > worst[one["defense"]]["mean"]:
            worst[one["defense"]] = one
    return worst


def worst_image(results: JSON) -> JSON | None:
    """The reconstruction that shows most, by the most perceptual metric that the study has."""
    for name in ("lpips", "ssim", "psnr", "mse"):
        found: list[JSON] = [one for one in results["per_image"] if parse_spec(one["metric"])[0] == name]
        if found:
            high = metrics.get(name).leaks_when == "high"
            worst = float("inf") if high else float("-inf")
            return max(found, key=lambda one: (1 if high else -1) * (worst if one["value"] is None else one["value"]))
    return None
