"""Metrics against the public votes: aggregate figures into docs/results, never a vote, then the page from them alone.

python docs/generate_correlation.py VOTES.csv; without an argument only the page is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from page_tables import table, value

from glasshouse.reports.correlation import draw_matrix, draw_scatter
from glasshouse.studies.correlation import correlate
from glasshouse.votes.judged import JUDGES

FOLDER = Path(__file__).parent / "results"
#: |rho| and |tau| on CIFAR-100 as the SemSim paper prints them in table 1; its SemSim is not that of the public file.
PRINTED = {
    "psnr": (0.670, 0.473),
    "mse": (0.618, 0.429),
    "ssim": (0.394, 0.290),
    "lpips": (0.513, 0.398),
    "semsim": (0.864, 0.714),
}


def export(votes: Path) -> None:
    """Keep what every judge says, and the pictures of the majority's."""
    found = {judge: correlate(votes, judge=judge) for judge in JUDGES}
    FOLDER.joinpath("correlation.json").write_text(
        json.dumps({judge: one.to_json() for judge, one in found.items()}, indent=1, allow_nan=False) + "\n"
    )
    FOLDER.joinpath("correlation-metrics.png").write_bytes(draw_matrix(found["majority"]))
    FOLDER.joinpath("correlation-people.png").write_bytes(draw_scatter(found["majority"]))


def metrics(found: dict) -> list[str]:
    """A row for each metric, the one that tells images of an original apart best first."""
    heads = ["metric", "rho", "tau", "p (tau)", "AUC pooled", "within original", "within model", "resolved pairs"]
    best = sorted(found["metrics"].items(), key=lambda one: -one[1]["auc_within_original"])
    areas = ("auc", "auc_within_original", "auc_within_model")
    rows = [
        [
            f"{name} ({one['leaks_when']} leaks)",
            value(one, "rho"),
            value(one, "tau"),
            f"{one['p']:.4f}",
            *(value(one, area) for area in areas),
            f"{one['resolved_accuracy']:.3f}",
        ]
        for name, one in best
    ]
    return table(heads, rows)


def sentences(found: dict) -> list[str]:
    """What the figures say, derived from them."""
    told = [
        f"People: {found['annotators']} annotators on {found['images']} images of {len(found['recognised'])} models. "
        f"Fleiss' kappa of recognised or not is {value(found, 'kappa')}.",
        f"Ceiling: two annotators rank the models as the other three do with tau {found['ceiling']:.3f} and rho "
        f"{found['ceiling_rho']:.3f} (mean of {found['ceiling_splits']} splits). On single images, the other four tell "
        f"one annotator's vote with AUC {found['ceiling_auc']:.3f}, within an original "
        f"{found['ceiling_auc_within_original']:.3f} (one vote is noisier than the majority, against which metrics are "
        "held, so this is no bound for them).",
        f"Item difficulty: how often an original was recognised through the *other* models tells whether it is "
        f"recognised through this one with AUC {value(found, 'difficulty_auc')}, without a look at the reconstruction.",
        f"The votes resolve {found['resolved_pairs']} of {found['pairs']} pairs of models: the 95 % bootstrap interval "
        "of the difference in recognition, over originals, leaves out 0.",
    ]
    above = [name for name, one in found["metrics"].items() if one["auc"] > found["difficulty_auc"]]
    told.append(f"Metrics whose pooled AUC is above item difficulty: {', '.join(above) or 'none'}.")
    for name, words in (("tau", "ranking models (tau)"), ("auc_within_original", "images within an original (AUC)")):
        sure = [
            f"{one['first']} and {one['second']} ({one[name]:+.3f})"
            for one in found["differences"]
            if one[f"{name}_low"] is not None and (one[f"{name}_low"] > 0 or one[f"{name}_high"] < 0)
        ]
        told.append(
            f"Differences between metrics in {words} whose interval leaves out 0, of {len(found['differences'])}: "
            f"{', '.join(sure) or 'none'}."
        )
    return [f"- {one}" for one in told]


def judges(every: dict) -> list[str]:
    """Rank correlation by each judge."""
    rows = [
        [
            name,
            *(
                f"{every[judge]['metrics'][name]['rho']:.3f} / {every[judge]['metrics'][name]['tau']:.3f}"
                for judge in every
            ),
        ]
        for name in every["majority"]["metrics"]
    ]
    return table(["rho / tau", *every], rows)


def printed(found: dict) -> list[str]:
    """The public file beside what the paper prints."""
    rows = [
        [name, f"{abs(one['rho']):.3f} / {abs(one['tau']):.3f}", "{:.3f} / {:.3f}".format(*PRINTED[name])]
        for name, one in found["metrics"].items()
        if name in PRINTED
    ]
    return table(["size of rho / tau", "public file, majority", "paper, table 1"], rows)


def page() -> str:
    """The page from the export alone."""
    every = json.loads(FOLDER.joinpath("correlation.json").read_text())
    found = every["majority"]
    return "\n".join(
        [INTRODUCTION, *sentences(found), "", *metrics(found), PICTURES, *judges(every), PAPER, *printed(found), ""]
    )


INTRODUCTION = """# Metrics against people

Made by `docs/generate_correlation.py` with [`glasshouse correlate`](../correlate.md) from the public votes on CIFAR-100
reconstructions of the SemSim paper: 14 models, 600 images each, five annotators, with the metric values that came with
them (the SemSim values are a third party's, not those of a network of ours). Source: the authors of SemSim; terms of
the votes: CC BY-NC 4.0, so use these figures for non-commercial purposes only. The votes themselves are not here, and
no weight of Glasshouse was fitted to them.

With 14 models every interval is wide. Read the column *within original* first: it asks, of two reconstructions of the
same image, which one people recognise, so an easy original helps nobody.
"""
PICTURES = """
![each model's metric against the share that people recognised](correlation-people.png)

Each point is a model; the bars are 95 % intervals over originals (figure 3B of the paper).

![ranks of models by each pair of metrics](correlation-metrics.png)

Ranks of the models by two metrics, and their rho and tau (figure 3A).

## By other judges

The majority of all votes, the mean share of votes, and the chance that Dawid and Skene's estimate gives when annotators
are weighed by their reliability:
"""
PAPER = """
## Beside the paper

The paper's own figures do not come out of the public file:
"""

if len(sys.argv) > 1:
    export(Path(sys.argv[1]))
FOLDER.joinpath("correlation.md").write_text(page())
