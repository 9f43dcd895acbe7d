"""Figures of the shipped SemSim: what an evaluation found into docs/results/semsim.json, then the model card from it.

python docs/generate_semsim.py EVALUATION_DIR STUDY...; without arguments only the page is written. EVALUATION_DIR holds
evaluation.json (``glasshouse semsim evaluate --out``) and, where it was made, ablation.json.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
from page_tables import table, value

from glasshouse.functional.intervals import bootstrap_interval
from glasshouse.reports.semsim import draw_ablation
from glasshouse.semsim import notes
from glasshouse.semsim.files import SHIPPED, digest
from glasshouse.studies.judging import skills

DOCS = Path(__file__).parent
RESULTS = DOCS / "results" / "semsim.json"
RATED = DOCS / "results" / "semsim-viewer.json"
PICTURE = DOCS / "results" / "semsim-ablation.png"
PAGE = DOCS / "metrics" / "semsim.md"
FIGURES = re.compile(r"(<!-- figures: [^\n]*-->\n).*?(<!-- end of figures -->)", re.DOTALL)
LEAKS_HIGH = ("ssim",)
MEASURES = ("mse", "ssim", "lpips", "lpips:net=vgg", "semsim before", "semsim")
CLEARLY = 0.25  # of three grades: a smaller difference orders nothing
HEADS = ["left out", "metric", "rho", "tau", "AUC within original", "AUC within model", "resolved pairs"]


def export(folder: Path, studies: list[Path]) -> None:
    """Keep what was found; no vote and no picture of anybody."""
    found = {
        "weights": digest(SHIPPED),
        "notes": notes(SHIPPED),
        "judges": [skill for study in studies for skill in skills(study)],
        "evaluation": json.loads((folder / "evaluation.json").read_text()),
        "ablation": None,
    }
    if (folder / "ablation.json").is_file():
        found["ablation"] = json.loads((folder / "ablation.json").read_text())
        PICTURE.write_bytes(draw_ablation(found["ablation"]["rows"]))
    RESULTS.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


def tests(evaluation: dict) -> list[list[str]]:
    """A row for each test and metric."""
    rows = []
    for test in evaluation["tests"]:
        left = f"{test['axis']} {test['left_out']}"
        if test["correlation"] is None:
            rows.append([left, "none", test["failed"], *[""] * 4])
            continue
        for name, one in test["correlation"]["metrics"].items():
            areas = (value(one, area) for area in ("auc_within_original", "auc_within_model"))
            resolved = one["resolved_accuracy"]
            told = "n/a" if resolved is None else f"{resolved:.3f}"
            rows.append([left, name, value(one, "rho"), value(one, "tau"), *areas, told])
        alone = value(test["correlation"], "difficulty_auc_within_model")
        rows.append([left, "item difficulty", "n/a", "n/a", "n/a", alone, "n/a"])
    return rows


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
        shares = [in_order(rated, name) for name in MEASURES]
        rows.append(["led the choice" if chosen else "fresh", attacked, str(len(rated)), *shares])
    return rows


def in_order(rated: list[dict], name: str) -> str:
    """The share of pairs that a metric has in the viewer's order, with an interval over originals."""
    sign = 1 if name in LEAKS_HIGH else -1
    groups: dict[tuple, list[dict]] = {}
    for one in rated:
        groups.setdefault((one["sheet"], one["original"]), []).append(one)
    right, pairs = np.zeros(len(groups)), np.zeros(len(groups))
    for number, group in enumerate(groups.values()):
        for first in group:
            for second in group:
                if first["grade"] - second["grade"] >= CLEARLY:
                    pairs[number] += 1
                    right[number] += np.heaviside(sign * (first[name] - second[name]), 0.5)
    return f"{bootstrap_interval(lambda counts: counts @ right / (counts @ pairs), len(groups)):.3f}"


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


def viewer() -> list[str]:
    """What a viewer says of the metrics, where the ratings are of the network that is shipped."""
    found = json.loads(RATED.read_text())
    if found["weights"] != digest(SHIPPED):
        return []
    return [
        f"And by eye: {found['viewer']}, who saw the originals and neither conditions nor metrics, rated "
        f"{len(found['rated'])} reconstructions from 0 (nothing to see) to 3 (as good as the original). The share of "
        "pairs of one original, clearly apart, that a metric has in that order; intervals over originals. *Semsim "
        f"before* is the network that was shipped before (`{found['before']}`). Some ratings led to the choice of "
        "where the weights begin and of the haze, and flatter it; the *fresh* ones came after, on other pictures, "
        "though of LeNet alone on other originals. 96 of those that led the choice have three grades only.",
        "",
        *table(["ratings", "attacked", "rated", *MEASURES], viewed(found)),
        "",
    ]


def ends(interval: dict) -> dict:
    """The ends of an interval under the names that ``value`` knows."""
    return {"a_low": interval["low"], "a_high": interval["high"]}


def figures(found: dict) -> str:
    """The generated part of the model card."""
    evaluation = found["evaluation"]
    told = found["notes"]
    lines = [
        f"The shipped network (`{found['weights']}`) learned from {told['judges']}; data sets: {told['datasets']}; "
        f"{told['originals']} originals, {told['guesses']} guesses, decoys among them; {told['recipe']}.",
        "",
        "### How good",
        "",
        f"Taught by {evaluation['teachers']}; tested by {evaluation['testers']}, who taught nothing, on what was left "
        "out of training. 95 % intervals; rho and tau over models, signed.",
        "",
        *table(HEADS, tests(evaluation)),
        "",
        *viewer(),
        "The judges, and the share of clean images that they name rightly where they name:",
        "",
        *table(["data set", "eye", "role", "way", "clean images right"], judges(found["judges"])),
    ]
    if found["ablation"] is not None:
        lines += ["", "![What SemSim owes to data, backbone, loss and margin](../results/semsim-ablation.png)"]
    return "\n".join(lines)


def main() -> None:
    """Write the results where a directory is given, and the page."""
    if len(sys.argv) > 1:
        export(Path(sys.argv[1]), [Path(study) for study in sys.argv[2:]])
    if RESULTS.is_file():
        text = figures(json.loads(RESULTS.read_text()))
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(FIGURES.sub(lambda match: f"{match[1]}\n{text}\n\n{match[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
