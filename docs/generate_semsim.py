"""Figures of the shipped SemSim: what an evaluation found into docs/results/semsim.json, then the model card from it.

python docs/generate_semsim.py EVALUATION_DIR STUDY...; without arguments only the page is written. EVALUATION_DIR holds
evaluation.json (``glasshouse semsim evaluate --out``) and, where it was made, ablation.json. A further argument
BEFORE.safetensors, the network that was shipped before, says how alike both are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
from page_tables import table, value
from torch.nn import functional as F

from glasshouse import data
from glasshouse.functional.intervals import mean_interval
from glasshouse.metrics import create
from glasshouse.reports.semsim import EVALUATED, draw_ablation, evaluation_rows
from glasshouse.semsim import Perceptual, load, notes, shipped
from glasshouse.semsim.files import SHIPPED, digest
from glasshouse.semsim.network import SIDES
from glasshouse.studies.evaluation import distances, learned
from glasshouse.studies.judging import skills
from glasshouse.studies.semsim import whose
from glasshouse.studies.voted import by_testers

DOCS = Path(__file__).parent
RESULTS = DOCS / "results" / "semsim.json"
RATED = DOCS / "results" / "semsim-viewer.json"
PICTURE = DOCS / "results" / "semsim-ablation.png"
PAGE = DOCS / "metrics" / "semsim.md"
FIGURES = re.compile(r"(<!-- figures: [^\n]*-->\n).*?(<!-- end of figures -->)", re.DOTALL)
OURS, BEFORE = "semsim", "semsim before"  # the viewer rated for the one before, and its pictures are gone
RIVAL = "lpips"  # the strongest of the others, and where our weights began
MEASURES = ("mse", "ssim", "lpips", "lpips:net=vgg", BEFORE)
CLEARLY = 0.25  # of three grades: a smaller difference orders nothing
SHARES = (0.25, 0.75)  # between which the share that is recognised should lie for a ranking to mean much
LIKENESS = ["data set", "beside its original", "pairs", "distance", "probability", "probability above one half"]
ALIKE = ("orl_faces:size=32", "digits", "imagenette:size=32", "stanford_dogs:size=32")
PAIRS = 40
NOISE = 0.1  # standard deviation of the noise that is called slight
CALIBRATED = ["study", "judges", "guesses", "recognised", "probability", "off by"]
BINS = 10
LIKE = ("dataset", "what", "pairs", "distance", "probability", "above")
TRUSTED = ("study", "judges", "guesses", "recognised", "probability", "off")
TESTED = [
    "left out",
    "judges",
    "originals",
    "models",
    "recognised: least, mean, most",
    "pairs of models that votes resolve",
]
LESS = ["left out", "tau", "AUC within original"]


def export(folder: Path, studies: list[Path], before: Path | None) -> None:
    """Keep what was found; no vote and no picture of anybody."""
    found = {
        "weights": digest(SHIPPED),
        "notes": notes(SHIPPED),
        "judges": [skill for study in studies for skill in skills(study)],
        "evaluation": json.loads((folder / "evaluation.json").read_text()),
        "moved": moved(),
        "alike": None if before is None else alike(before, studies),
        "likeness": [row for name in ALIKE for row in likeness(name)],
        "calibrated": [row for study in studies for row in calibrated(study)],
        "ablation": None,
    }
    if (folder / "ablation.json").is_file():
        found["ablation"] = json.loads((folder / "ablation.json").read_text())
        PICTURE.write_bytes(draw_ablation(found["ablation"]["rows"]))
    RESULTS.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


@torch.no_grad()
def moved() -> dict[str, float]:
    """By how much training moved the weights of windows, channels and head from where they began."""
    began, ends = Perceptual.pretrained(), shipped()
    windows = sum(ends.channels[: len(SIDES)])
    first, last = began.importance(), ends.importance()
    parts = {"windows": slice(windows), "channels": slice(windows, None)}
    found = {name: float((last[part] - first[part]).abs().sum() / first[part].sum()) for name, part in parts.items()}
    return found | {"head": float(F.softplus(ends.balance) / F.softplus(began.balance) - 1)}


def alike(before: Path, studies: list[Path]) -> dict[str, str | float]:
    """How the distances of the network before go with ours, over what attacks made of all originals in some studies."""
    some = by_testers(studies, "classifier")
    ours, theirs = (distances(network, some) for network in (shipped(), load(before)))
    return {"network": digest(before), "correlation": float(np.corrcoef(ours, theirs)[0, 1])}


@torch.no_grad()
def likeness(name: str) -> list[dict]:
    """How near another image of the same class, one of another class, and the original in slight noise are."""
    images = data.load(name)
    of_class: dict[int, list[int]] = {}
    for place in images.spread(len(images), seed=0):
        of_class.setdefault(int(images.labels[place]), []).append(place)
    groups = [places for places in of_class.values() if len(places) > 1]
    twos = [places[k : k + 2] for k in range(0, max(map(len, groups)) - 1, 2) for places in groups]
    twos = [two for two in twos if len(two) == 2][:PAIRS]
    first, second = (images.batch([two[k] for two in twos])[0] for k in (0, 1))
    noisy = first + NOISE * torch.randn(first.shape, generator=torch.Generator().manual_seed(0))
    shown = {
        "another image of its class": second,
        "an image of another class": second.roll(1, 0),
        f"itself in noise of {NOISE:g}": noisy.clamp(0, 1),
    }
    rows = []
    for what, guess in shown.items():
        found = shipped().distances(first, guess)
        seen = shipped().probabilities(found)
        row = {"dataset": name, "what": what, "pairs": len(found), "distance": float(found.mean())}
        rows.append(row | {"probability": float(seen.mean()), "above": float((seen > 0.5).double().mean())})
    return rows


def calibrated(study: Path) -> list[dict]:
    """How far the probability may be trusted on a study whose data sets taught nothing; none of others."""
    some = learned(by_testers([study], "classifier"))
    if set(some.datasets) & set(notes(SHIPPED)["datasets"].split(", ")):
        return []
    said = np.array([guess.share for guess in some.guesses])
    given = shipped().probabilities(torch.tensor(distances(shipped(), some))).numpy()
    row = {"study": ", ".join(some.datasets), "judges": whose(some), "guesses": len(said)}
    return [row | {"recognised": float(said.mean()), "probability": float(given.mean()), "off": off(given, said)}]


def off(given: np.ndarray, said: np.ndarray) -> float:
    """How far probabilities are from the shares that they foretell: the mean over tenths, by how many are in each."""
    places = np.clip((given * BINS).astype(int), 0, BINS - 1)
    return float(sum(abs((given - said)[places == place].sum()) for place in range(BINS)) / len(said))


def tested(evaluation: dict) -> list[list[str]]:
    """A row for each test: on how much it rests."""
    rows = []
    for test in evaluation["tests"]:
        found = test["correlation"]
        if found is not None:
            shares = found["recognised"].values()
            spread = f"{min(shares):.1%}, {sum(shares) / len(shares):.1%}, {max(shares):.1%}"
            told = f"{found['resolved_pairs']} of {found['pairs']}"
            counts = (found["annotators"], test["tested_originals"], len(shares))
            rows.append([f"{test['axis']} {test['left_out']}", *map(str, counts), spread, told])
    return rows


def differences(evaluation: dict) -> Iterator[tuple[str, str, dict]]:
    """What was left out, another metric, and by how much SemSim agrees better with the judges than that."""
    for test in evaluation["tests"]:
        for one in test["correlation"]["differences"] if test["correlation"] is not None else ():
            if OURS in (one["first"], one["second"]):
                first = one["first"] == OURS
                yield test["left_out"], one["second" if first else "first"], one if first else turned(one)


def turned(difference: dict) -> dict:
    """The same difference the other way round."""
    found = {}
    for name in ("tau", "auc_within_original"):
        low, high = difference[f"{name}_low"], difference[f"{name}_high"]
        found[name] = None if difference[name] is None else -difference[name]
        found[f"{name}_low"], found[f"{name}_high"] = (None if end is None else -end for end in (high, low))
    return found


def resolved(evaluation: dict) -> str:
    """Which differences to other metrics leave out 0, either way."""
    told: dict[bool, list[str]] = {True: [], False: []}
    count = 0
    for left, other, one in differences(evaluation):
        for name, called in (("tau", "tau"), ("auc_within_original", "AUC within original")):
            low, high = one[f"{name}_low"], one[f"{name}_high"]
            count += low is not None
            if low is not None and (low > 0 or high < 0):
                told[low > 0].append(f"{other} ({called}, {left})")
    better, worse = (", ".join(some) or "none" for some in (told[True], told[False]))
    return (
        f"Of {count} paired differences in tau or in AUC within an original between SemSim and another metric, the "
        f"95 % interval leaves out 0 in favour of SemSim against: {better}; to its disadvantage against: {worse}. "
        "So many intervals leave out 0 about once in twenty times by chance alone."
    )


def viewed(found: dict) -> list[list[str]]:
    """A row for each kind of ratings: of how many pairs of one original the metrics have the viewer's order."""
    rows = []
    kinds = dict.fromkeys((one["sheet"] in found["chosen_by"], one["attacked"]) for one in found["rated"])
    for chosen, attacked in sorted(kinds):
        rated = [
            one
            for one in found["rated"]
            if one["attacked"] == attacked and (one["sheet"] in found["chosen_by"]) is chosen
        ]
        shares = {name: in_order(rated, name) for name in MEASURES}
        less = mean_interval([one - other for one, other in zip(shares[BEFORE], shares[RIVAL], strict=True)])
        means = (f"{mean_interval(some, within=(0, 1)):.3f}" for some in shares.values())
        counts = str(len(rated)), str(len(shares[BEFORE]))
        rows.append(["led the choice" if chosen else "fresh", attacked, *counts, *means, f"{less:.3f}"])
    return rows


def in_order(rated: list[dict], name: str) -> list[float]:
    """Of each original that has any, the share of pairs clearly apart that a metric has in the viewer's order."""
    sign = 1 if create(name.removesuffix(" before")).leaks_when == "high" else -1
    groups: dict[int, list[dict]] = {}
    for one in rated:
        groups.setdefault(one["original"], []).append(one)
    pairs = (
        [np.heaviside(sign * (one[name] - two[name]), 0.5) for one, two in permutations(group, 2) if apart(one, two)]
        for group in groups.values()
    )
    return [float(np.mean(some)) for some in pairs if some]


def apart(better: dict, worse: dict) -> bool:
    """Whether one viewing clearly graded the first higher; grades of two viewings are not compared."""
    return better["sheet"] == worse["sheet"] and better["grade"] - worse["grade"] >= CLEARLY


def judges(found: list[dict]) -> list[list[str]]:
    """A row for each judge of a data set."""
    return [
        [
            one["dataset"],
            one["eye"],
            "teaches" if one["teaches"] else "tests",
            one["way"],
            "n/a" if one["accuracy"] is None else value({"a": one["accuracy"]["mean"]} | ends(one["accuracy"]), "a"),
        ]
        for one in found
    ]


def viewer(alike: dict | None) -> list[str]:
    """What a viewer says of the metrics and of the network that was shipped before."""
    found = json.loads(RATED.read_text())
    if alike is None or alike["network"] != found["network"]:
        return []
    return [
        f"And by eye: {found['viewer']}, who saw the originals and neither conditions nor metrics, rated "
        f"{len(found['rated'])} reconstructions from 0 (nothing to see) to 3 (as good as the original). The share of "
        "pairs of one original, clearly apart, that a metric has in that order, averaged over originals, with its "
        f"interval; last, by how much SemSim is ahead of {RIVAL}. *Semsim before* is the network that "
        f"was shipped before (`{alike['network']}`), whose distances correlate with those of this one at "
        f"{alike['correlation']:.3f}. Some ratings led to the choice of where the weights begin and of "
        "the haze, and flatter it; the *fresh* ones came after, on other pictures, "
        "though of LeNet alone on other originals. 96 of those that led the choice have three grades only. The "
        "originals of all LeNet ratings, the fresh ones too, and of the 141 through ResNet20 that led the choice are "
        "among those that taught the shipped network, though not by this viewer's votes; those of other kinds are not.",
        "",
        *table(["ratings", "attacked", "rated", "originals", *MEASURES, f"{BEFORE} less {RIVAL}"], viewed(found)),
        "",
    ]


def ends(interval: dict) -> dict:
    """The ends of an interval under the names that ``value`` knows."""
    return {"a_low": interval["low"], "a_high": interval["high"]}


def _shown(value: str | float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def unique(rows: list[list[str]]) -> list[list[str]]:
    """Judges whose eyes were changed stand in a study twice."""
    return [list(row) for row in dict.fromkeys(map(tuple, rows))]


def figures(found: dict) -> str:
    """The generated part of the model card."""
    evaluation = found["evaluation"]
    told = found["notes"]
    lines = [
        f"The shipped network (`{found['weights']}`) learned from {told['judges']}; data sets: {told['datasets']}; "
        f"{told['originals']} originals, {told['guesses']} guesses, decoys among them; {told['recipe']}.",
        "",
        f"Training moved the weights of AlexNet's channels by {found['moved']['channels']:.2%} of their sum, those of "
        f"windows by {found['moved']['windows']:.2%} and that of the head by {found['moved']['head']:.1%}: but for "
        "what the head summarises, the network is where it was set to begin, and owes what it is to LPIPS, windows and "
        "haze.",
        "",
        "### How good",
        "",
        f"Taught by {evaluation['teachers']}; tested by {evaluation['testers']}, who taught nothing, on what was left "
        "out of training. 95 % intervals; rho and tau over models, signed.",
        "",
        *table(TESTED, tested(evaluation)),
        "",
        f"A ranking means little unless {SHARES[0]:.0%} to {SHARES[1]:.0%} are recognised.",
        "",
        *table(EVALUATED, evaluation_rows(evaluation["tests"])),
        "",
        f"SemSim less {RIVAL}, by how much it agrees better with the judges, paired:",
        "",
        *table(
            LESS,
            [
                [left, *(value(one, name) for name in ("tau", "auc_within_original"))]
                for left, other, one in differences(evaluation)
                if other == RIVAL
            ],
        ),
        "",
        resolved(evaluation),
        "",
        *viewer(found["alike"]),
        "How near pictures are that are not the original, and the original in slight noise:",
        "",
        *table(LIKENESS, [[_shown(one[name]) for name in LIKE] for one in found["likeness"]]),
        "",
        "How far the probability can be trusted on attacks, networks and images that taught nothing: the mean of "
        "what it says, of what the judges who test recognised, and how far both are apart on average over tenths.",
        "",
        *table(CALIBRATED, [[_shown(one[name]) for name in TRUSTED] for one in found["calibrated"]]),
        "",
        "The judges, and the share of clean images that they name rightly where they name:",
        "",
        *table(["data set", "eye", "role", "way", "clean images right"], unique(judges(found["judges"]))),
    ]
    if found["ablation"] is not None:
        lines += ["", "![What SemSim owes to data, backbone, loss and margin](../results/semsim-ablation.png)"]
    return "\n".join(lines)


def main() -> None:
    """Write the results where a directory is given, and the page."""
    if len(sys.argv) > 1:
        given = [Path(argument) for argument in sys.argv[2:]]
        before = next((one for one in given if one.suffix == ".safetensors"), None)
        export(Path(sys.argv[1]), [one for one in given if one != before], before)
    if RESULTS.is_file():
        text = figures(json.loads(RESULTS.read_text()))
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(FIGURES.sub(lambda match: f"{match[1]}\n{text}\n\n{match[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
