"""Every defense beside one another: what a study of the preset ``defenses`` found, into docs/results, then the page.

python docs/generate_defenses.py STUDY; without an argument only the page is written.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure
from page_tables import table
from PIL import Image

from glasshouse.attacks import attacks
from glasshouse.registry import parse_spec
from glasshouse.reports.grid_balance import (
    NOTHING,
    WAITING,
    Balance,
    as_planned,
    balances,
    number,
    percent,
    shown,
    strongest,
)
from glasshouse.reports.grid_balance import table as compared
from glasshouse.reports.grid_figures import front, matrix_png, pareto_png
from glasshouse.studies.grid.lines import lines
from glasshouse.studies.grid.plan import meant_for
from glasshouse.studies.grid.results import read_results
from glasshouse.studies.scoring import MARGINS

FILE = Path(__file__).parent / "results" / "defenses.json"
KEPT = (
    "datasets",
    "models",
    "training_images",
    "epochs",
    "training_batch",
    "lr",
    "images",
    "batch",
    "batchnorm",
    "labels",
    "tune",
    "attacks",
    "without",
    "public",
    "practice",
    "seed",
)
PICTURES = FILE.with_name("defenses-pictures.png")
GRID = FILE.with_name("defenses-grid.png")
UNDEFENDED = "none"
SHOWN = (
    UNDEFENDED,
    "image_noise:sigma=50",
    "pixelate:factor=4",
    "visual_mixer",
    "csvar",
    "csvar_exchange",
    "soteria",
    "dp_sgd:epsilon=8",
    "gaussian:sigma=0.01",
    "prune:percent=90",
    "clip:norm=1,noise=0.01",
)
SEMSIM = "semsim"


def export(study: Path) -> None:
    """Keep the balances and what is still missing, and draw the picture."""
    results = read_results(study)
    found = balances(results)
    content = {
        "settings": {name: results["settings"][name] for name in KEPT},
        "left_out": results["left_out"],
        "left": {
            "networks": sum(one["state"] != "done" for one in results["targets"]),
            "probes": sum(one["state"] != "done" for one in results["probes"]),
            "cases": results["pending"],
            "failures": len(results["failures"]),
        },
        "sources": [{name: one[name] for name in ("dataset", "terms")} for one in results["sources"]],
        "asked": [
            {name: one.get(name) for name in ("kind", "dataset", "asked")}
            for one in results["probes"]
            if one["state"] == "done" and "asked" in one
        ],
        "balances": [dataclasses.asdict(one) for one in found],
        "margins": MARGINS,
    }
    FILE.write_text(json.dumps(content, indent=0, allow_nan=False) + "\n")
    several = _attacked(found)
    FILE.with_suffix(".png").write_bytes(pareto_png([one for one in found if one.model in several]))
    GRID.write_bytes(matrix_png(found))
    PICTURES.write_bytes(draw_pictures(study))


def _attacked(found: list[Balance]) -> set[str]:
    """The networks that several attacks were tried on, which one picture has room for."""
    met: dict[str, set[str]] = {}
    for one in found:
        met.setdefault(one.model, set()).update([one.attack] if one.attack else [])
    return {model for model, names in met.items() if len(names) > 1}


def draw_pictures(study: Path) -> bytes:
    """The first image of each data set, and what was seen of it behind some defenses: 24 thumbnails at most.

    Of several networks behind a defense that is shown through which most was seen, first by *seen*, then by SemSim. Who
    does more than watch an ordinary federation is left out, for a prepared network shows what no other would.
    """
    found = lines(study)
    ranked = sorted(strongest([one for one in balances(read_results(study)) if one.curious]), key=_leak)
    strong = {(one.dataset, one.defense): (one.model, one.attack) for one in ranked}
    datasets = list(dict.fromkeys(one.dataset for one in found))
    figure = Figure(figsize=(1 + len(SHOWN), 1.25 * len(datasets) + 0.3), layout="constrained")
    for axes in figure.subplots(len(datasets), 1 + len(SHOWN), squeeze=False).flat:
        axes.axis("off")
    for row, dataset in enumerate(datasets):
        first = min(one.image for one in found if one.dataset == dataset)
        own = {
            one.defense: one
            for one in found
            if (one.dataset, one.image) == (dataset, first)
            and strong.get((dataset, one.defense)) == (one.model, one.attack)
        }
        pictures = {"private": next(iter(own.values())).truth} | {
            name: own[name].guess for name in SHOWN if name in own
        }
        for place, name in enumerate(("private", *SHOWN)):
            axes = figure.axes[row * (1 + len(SHOWN)) + place]
            axes.set_title(name.replace(":", "\n"), fontsize=6)
            if name in pictures:
                axes.imshow(Image.open(study / pictures[name]), cmap="gray")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


def _leak(one: Balance) -> tuple[float, float]:
    """What sorts last leaks most; what is not known leaks nothing yet."""
    return one.seen["mean"] if one.seen else -1.0, shown(one.metrics)


def by_attack(found: list[Balance]) -> list[str]:
    """What each attack saw behind each defense, in one line for a defense."""
    attacks = list(dict.fromkeys(one.attack for one in found if one.attack))
    if len(attacks) < 2:
        return []
    cells = {(one.defense, one.attack): f"{percent(one.seen)}, {number(one.metrics.get(SEMSIM))}" for one in found}
    unfit = {(one.defense, attack): NOTHING for one in found for attack in one.unfit}
    defenses = dict.fromkeys(one.defense for one in found)
    rows = [
        [defense, *(cells.get((defense, one), unfit.get((defense, as_planned(one)), WAITING)) for one in attacks)]
        for defense in defenses
    ]
    return ["Seen, and SemSim, by attack:", "", *table(["defense", *attacks], rows), ""]


def blind(found: list[Balance]) -> list[str]:
    """Attacks that saw nothing even undefended: what they did not see behind a defense is no merit of it."""
    names = [one.attack for one in found if one.defense == UNDEFENDED and one.seen and one.seen["mean"] == 0]
    words = "What these do not see behind a defense is no merit of it, for they saw nothing of undefended images"
    return [f"{words}: {', '.join(names)}.", ""] if names else []


def sentences(every: list[Balance], found: list[Balance]) -> list[str]:
    """What the figures of one data set and network say, derived from them."""
    told = []
    tried = list(dict.fromkeys(one.attack for one in every if one.attack))
    if len(tried) == 1:
        told.append(f"Only {tried[0].partition(':')[0]} was tried on this network: another may see what it did not.")
    bare = next((one for one in found if one.defense == UNDEFENDED), None)
    if bare is not None and bare.seen is not None:
        told.append(f"Undefended, {bare.cells()[1]} of the images were seen at an accuracy of {bare.cells()[0]}.")
    fewer = [one.defense for one in found if bare is not None and set(one.unfit) - set(bare.unfit)]
    attacked = {
        one.defense: one for one in found if one.metrics.get(SEMSIM) and one.accuracy and one.defense not in fewer
    }
    best = front([(one.accuracy["mean"], -one.metrics[SEMSIM]["mean"]) for one in attacked.values()])
    names = [
        name for name, one in attacked.items() if (one.accuracy["mean"], -one.metrics[SEMSIM]["mean"]) in set(best)
    ]
    if names and len(tried) > 1:
        told.append(f"Nothing beats these in accuracy and SemSim at once: {listed(names)}.")
    if fewer:
        told.append(f"Not compared, because fewer attacks fit behind them than undefended: {', '.join(fewer)}.")
    asked = [one for one in found if one.auc]
    if asked:
        sure = listed(one.defense for one in asked if one.auc["low"] > 0.5)
        told.append(f"Members can be told from others (the interval of the AUC lies above 0.5) behind: {sure}.")
    sought = [one for one in found if one.identified]
    if sought:
        linked = listed(one.defense for one in sought if one.identified["mean"] >= 0.5)
        told.append(f"Half or more of the protected images are found in a gallery behind: {linked}.")
    return [f"- {one}" for one in told] + [""]


def listed(names: Iterable[str]) -> str:
    """Defenses in a line; the one that is called none is no word for nothing."""
    return ", ".join("none (undefended)" if name == UNDEFENDED else name for name in names) or "not a single one"


def missing(found: dict) -> list[str]:
    """What the study has not done yet, if anything."""
    left = [f"{count} {name}" for name, count in found["left"].items() if count]
    if not left:
        return []
    return [f"**The study is not finished.** Left or failed: {', '.join(left)}; '{WAITING}' marks them below.", ""]


def asked(found: dict) -> list[str]:
    """Upon how many images membership and linkage rest."""
    rows = {(one["dataset"], one["kind"]): one["asked"] for one in found["asked"]}
    return [
        f"- {dataset}, {kind}: {', '.join(f'{count} {name}' for name, count in counts.items())}."
        for (dataset, kind), counts in sorted(rows.items())
    ]


def older(found: dict) -> list[str]:
    """That *seen* was counted by narrower margins, where the export does not name today's."""
    if found.get("margins") == MARGINS:
        return []
    return [
        "**Seen follows an older, more lenient rule here** (0.1 in SSIM or 3 dB in PSNR above the floor).",
        "",
    ]


def absent(found: dict) -> str:
    """The attacks that ship and are not in the plan."""
    planned = {parse_spec(meant_for(row)[1])[0] for row in found["settings"]["attacks"]}
    return ", ".join(name for name in attacks.names() if name not in planned)


def page() -> str:
    """The page from the export alone."""
    found = json.loads(FILE.read_text())
    rows = [Balance(**one) for one in found["balances"]]
    text = [
        INTRODUCTION,
        *missing(found),
        *older(found),
        "![Accuracy against leakage](defenses.png)",
        "",
        FRONT,
        "",
        PICTURED,
        "",
    ]
    for dataset, model in itertools.product(found["settings"]["datasets"], found["settings"]["models"]):
        own = [one for one in rows if (one.dataset, one.model) == (dataset, model)]
        if own:
            strong = strongest(own)
            text += [
                f"## {dataset}, {model}",
                "",
                *sentences(own, strong),
                *table(*compared(strong)),
                "",
                *by_attack(own),
                *blind(own),
            ]
    settings = ", ".join(f"{name} {value}" for name, value in found["settings"].items())
    slow = [
        f"Any attack on {model} behind {recipe}: not trained, because it would take hours."
        for model, recipe in map(meant_for, found["settings"].get("without", []))
    ]
    text += [
        "## What is missing",
        "",
        MISSING.format(absent(found)),
        "",
        *(f"- {line}" for line in (*found["left_out"], *slow)),
        "",
    ]
    text += [HOW, *asked(found), "", f"Settings: {settings}.", ""]
    text += [f"Images of {one['dataset']}: {one['terms']}" for one in found["sources"]]
    return "\n".join(text) + "\n"


INTRODUCTION = """# Every defense beside one another

Made by `docs/generate_defenses.py` from the file beside this page, which comes from
`glasshouse study new DIR --preset defenses` and `glasshouse study run DIR`. Each of its small networks is trained
behind a defense, then shares gradients behind the same defense, and the attacks try to see the private images. Attacks
that have something to tune were tuned for this very network and defense, on two images of the same data set that nobody
attacks and no network was trained on; attacks that learn from public images had those that the settings below name, or
crops of photographs where they name none. A defense stands where the strongest attack puts it, in each column by that
column. Intervals are 95 %, over images. One seed of training: another may change the order of neighbours. Every row is
a network of its own, and one that learned less may be easier to invert: a defense can look leakier than none by what it
does to training.

![What every attack saw behind every defense](defenses-grid.png)

The share of images that each attack saw through each network. A cell is empty where the attack does not fit, the
network would take too long to train behind that defense, or the attack failed or is still to come; the end of this page
names them. Columns with a star have another adversary, and do not compare with the rest: one who prepares the network,
or who serves a vertical federation.
"""

MISSING = """Of the attacks that ship, these are not in this study: {}. (The [GAN](gan.md) takes part in a federation.)
Cells that stay empty, and why:"""

FRONT = """Accuracy against leakage, of the networks that several attacks were tried on."""

PICTURED = """![What was seen of one image of each data set](defenses-pictures.png)

The first attacked image of each data set, and what the strongest attack made of it behind some defenses, on the network
through which most was seen; adversaries who do more than watch an ordinary federation are left out here."""

HOW = """## How each column is measured

- **accuracy** on test images that nobody attacks. A network that learned from protected images may be asked about
  protected ones as well; the better way counts, and is named where it is not the plain one.
- **seen**: told from a hundred others, and clearly better than the image's own mean colour. No person was asked.
- **membership AUC**, **TPR at 1 % FPR**: the [loss attack](../membership/loss.md) on the images that the network was
  trained on, against test images; the stronger way to ask counts. 0.5 is guessing. With fewer than a hundred
  non-members a false positive rate of 1 % is not estimable.
- **re-identified**, **versions linked**: of protected training images, how many are found in a gallery of originals,
  and how many are known again in the next epoch's version, by the best method of
  [unshuffle](../attacks/unshuffle.md)'s part F. A defense of gradients changes no image: n/a.
- **bytes of a message**: one shared gradient, each tensor in the shortest of three exact codings: every value in 32
  bits; those that are not zero and a bit for each place; those that are not zero and the number of their place.
- **training step**: seconds of the processor with the defense, divided by those without it.
- **attack, s per image**: by the clock, with the settings that tuning chose; the search itself is not in it. Other work
  ran on the same machine and slowed some rows several times over, so that only orders of magnitude can be compared.

One image is behind each gradient, so that there is nobody to mix it with: [mixup](../defenses/mixup.md),
[instahide](../defenses/instahide.md) and the exchange of [csvar_exchange](../defenses/csvar_exchange.md) hide in what
is attacked here only what they do to a single image, while they mix as published in training and linkage.
"""

if len(sys.argv) > 1:
    export(Path(sys.argv[1]))
FILE.with_suffix(".md").write_text(page())
