"""What the CSVAR paper's evaluation found, in a sentence or two for each network."""

from __future__ import annotations

from federations_claimed import CSVAR, LOSS, NOISE, NONE, WORDS, published_cost
from federations_rows import learned, networks, of_way, planned

from glasshouse.reports.federations_claims import CLEAN, Claim, area, best_accuracy, gap, judged, worst_area
from glasshouse.reports.federations_controls import matched, most_told
from glasshouse.reports.federations_view import together
from glasshouse.studies.federations.results import behind, told
from glasshouse.types import Interval

FELL, ROSE = 0.2, 0.1  # by so much in the last quarter of its rounds a training has not settled
AUGMENTED = behind({"defense": NONE, "augment": True})


def short(rows: list[dict]) -> list[str]:
    """What was found, a sentence or two for each network."""
    found = [(place, in_words(*place, own)) for place, own in planned(rows).items()]
    asked = {place: own for place, own in networks(rows).items() if any(map(shadowed, own))}
    found += [(place, told_by_shadows(place[0], own)) for place, own in asked.items()]
    return [f"- **{dataset}, {model}**: {words}" for (dataset, model), words in found]


def shadowed(row: dict) -> bool:
    """Whether attacks with shadow models were asked about it."""
    return "shadowed" in row


def told_by_shadows(dataset: str, rows: list[dict]) -> str:
    """How well the strongest of all attacks tells members of each way to train."""
    parts = []
    for row in filter(shadowed, rows):
        name, strongest = max(told(row).items(), key=lambda one: one[1]["auc"]["mean"])
        auc = strongest["auc"]
        share = f"right on {best_accuracy(row)['mean']:.1%}"
        parts.append(f"{behind(row)}, {share}: AUC {auc['mean']:.3f} [{auc['low']:.3f}, {auc['high']:.3f}] ({name})")
    words = f"the strongest attack, shadow models among them, seed by seed: {'; '.join(parts)}{cut_short(rows)}"
    return f"{words}." if learned(dataset, rows) else f"{words}; the network hardly learned, and so decides nothing."


def in_words(dataset: str, model: str, rows: list[dict]) -> str:
    """What was found of one network."""
    plain, shuffled = of_way(rows, NONE), of_way(rows, CSVAR)
    if not plain:
        return "not run yet."
    share = together([best_accuracy(row) for row in plain])
    undefended = f"right on {share.mean:.1%} of test images undefended"
    if not learned(dataset, rows):
        return f"{undefended}; it hardly learned, and so ranks no defenses."
    if not shuffled:
        return f"{undefended}; CSVAR was not run yet."
    costs = [cost(dataset, model, way, rows) for way in (CSVAR, NOISE) if of_way(rows, way)]
    printed = [row for row in rows if behind(row) in WORDS]  # what table I has
    return " ".join(filter(None, [f"{undefended}; {'; '.join(costs)}. {leaks(rows)}", *map(unsettled, printed)]))


def unsettled(row: dict) -> str:
    """What a mean would hide of a training: that it fell at the end, or had not come to one."""
    curve = row["curve"]
    before, last = max(curve[: -(len(curve) // 4) or None]), curve[-1]
    name = f"{behind(row)}, seed {row['seed']}"
    if last < before - FELL:
        return f"**{name} fell** from {before:.0%} to {last:.0%} of clean test images at the end."
    if last > before + ROSE:
        return f"{name} still rose at the end, from {before:.0%} to {last:.0%} of clean test images."
    return ""


def cost(dataset: str, model: str, way: str, rows: list[dict]) -> str:
    """How many points of accuracy a defense costs, beside what was published."""
    lost = judged(Claim("", (NONE, way), best_accuracy), rows).steps[0].difference
    said = published_cost(dataset, model, way)
    return f"{WORDS[way]} costs {points(lost)} points of accuracy (published: {100 * said:.1f})"


def points(value: Interval) -> str:
    """A difference of shares in points of a hundred."""
    low, high = (100 * min(max(end, -1), 1) for end in (value.low, value.high))  # Student's t knows no ends
    return f"{100 * value.mean:.1f} [{low:.1f}, {high:.1f}]"


def leaks(rows: list[dict]) -> str:
    """How well members are told, undefended, defended, and undefended but cut short."""
    areas = {way: together(list(map(worst_area(LOSS), of_way(rows, way)))).mean for way in WORDS if of_way(rows, way)}
    raw = together(list(map(area(LOSS, CLEAN), of_way(rows, CSVAR)))).mean
    told_by = ", ".join(f"{areas[way]:.3f} {WORDS[way]}" for way in areas)
    words = f"Members are told with AUC {told_by} ({raw:.3f} if asked with raw images only)"
    return f"{words}{instead(rows)}{cut_short(rows)}."


def cut_short(rows: list[dict]) -> str:
    """How vanilla training leaks that is stopped once it is as accurate as CSVAR; some never is."""
    as_good = matched(rows)
    missed = sorted({row["seed"] for row in of_way(rows, CSVAR)} - {row["seed"] for row, _, _ in as_good})
    never = f"; vanilla training never is as accurate as CSVAR in seed {', '.join(map(str, missed))}" if missed else ""
    if not as_good:
        return never
    pairs = [(worst_area(LOSS)(row), most_told(plain, at)) for plain, at, row in as_good]
    stopped, more = together([two for _, two in pairs]).mean, gap(pairs)
    rounds = ", ".join(str(at) for _, at, _ in as_good)
    return (
        f"; vanilla training stopped once it is as accurate as CSVAR (round {rounds}) has {stopped:.3f} by the loss "
        f"attack, CSVAR minus that {estimate(more)}{never}"
    )


def instead(rows: list[dict]) -> str:
    """What ordinary augmentation does in the place of a shuffle, where that was tried."""
    plain = {row["seed"]: row for row in of_way(rows, AUGMENTED)}
    pairs = [(row, plain[row["seed"]]) for row in of_way(rows, CSVAR) if row["seed"] in plain]
    if not pairs:
        return ""
    right, shuffled_right = (together([best_accuracy(pair[place]) for pair in pairs]).mean for place in (1, 0))
    raw = area(LOSS, CLEAN)
    auc, less = together([raw(row) for _, row in pairs]).mean, gap([(raw(one), raw(two)) for one, two in pairs])
    return (
        f"; clients that shift and mirror images instead are right on {right:.1%} (CSVAR: {shuffled_right:.1%}) and "
        f"have {auc:.3f} asked with raw images, CSVAR asked alike minus that {estimate(less)}"
    )


def estimate(value: Interval) -> str:
    """A difference with its interval."""
    return f"{value.mean:+.3f} [{value.low:+.3f}, {value.high:+.3f}]"
