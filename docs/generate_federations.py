"""The CSVAR paper's evaluation on real data: what studies of the preset ``csvar`` found, into docs/results, as a page.

python docs/generate_federations.py STUDY ..., directories of 'glasshouse study run', finished or not. What was found is
added to what is kept already, so that a long plan may be run in parts; without arguments only the page is written.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from page_tables import table

from glasshouse.reports.federations import choices
from glasshouse.reports.federations_claims import (
    CLEAN,
    FAILS,
    HOLDS,
    OPEN,
    PROTECTED,
    Claim,
    Verdict,
    accuracy,
    area,
    judged,
    worst_area,
)
from glasshouse.reports.federations_controls import controls, most_told
from glasshouse.reports.federations_view import Place, last_round, number, percent, places, together
from glasshouse.studies.federations.results import behind, finished, read_results, told
from glasshouse.studies.presets import csvar, csvar_dp, csvar_pretrained

FILE = Path(__file__).parent / "results" / "federations.json"
ROC, ROUNDS = FILE.with_name("federations-roc.png"), FILE.with_name("federations-rounds.png")
POINTS = 30  # of a ROC curve that is kept
DIGITS = 4
RARE = "tpr_at_fpr_0.01"
LOSS = "loss"
NONE, NOISE, CSVAR = "none", "image_noise:sigma=50", "csvar"
WORDS = {NONE: "vanilla", NOISE: "noise sigma 50", CSVAR: "CSVAR"}
PRESETS = (csvar.laptop(), csvar_pretrained.laptop(), csvar_dp.laptop())
#: Settings that may differ between parts of one study: what they run, and words about it.
LISTS = ("datasets", "models", "defenses", "extra", "single", "brief", "seeds", "shadow_membership")
LABELS = ("title", "versions")
ACROSS = 3  # panels beside one another
NETWORKS = ("resnet50", "shufflenet_v2", "mobilenet_v2")
#: Table I of the paper, in percent: vanilla, noise, CSVAR for each of the networks; its "CelebA" is the ORL faces.
TABLE_I = {
    "mnist": ((97.42, 97.09, 97.39), (96.88, 95.44, 95.67), (97.08, 96.92, 97.03)),
    "cifar10": ((84.24, 80.49, 84.17), (85.09, 82.33, 83.71), (85.18, 80.03, 84.67)),
    "orl_faces": ((89.75, 65.50, 85.25), (85.50, 77.25, 82.74), (86.75, 78.75, 82.75)),
}
FIGURE_7 = {NONE: 0.70, NOISE: 0.66, CSVAR: 0.60}
ORDER = (NONE, CSVAR, NOISE)
DECIDED = (FAILS, HOLDS)
VERDICTS = (*DECIDED, OPEN, "not measured yet")  # as claims are judged, surest first
CLAIMS = (
    Claim("accuracy vanilla >= CSVAR > noise, clean test images", ORDER, accuracy(CLEAN)),
    Claim("accuracy vanilla >= CSVAR > noise, protected test images", ORDER, accuracy(PROTECTED)),
    Claim("MIA AUC vanilla > CSVAR, raw queries", (NONE, CSVAR), area(LOSS, CLEAN)),
    Claim("MIA AUC vanilla > CSVAR, stronger queries", (NONE, CSVAR), worst_area(LOSS)),
)


def export(studies: list[Path]) -> None:
    """Add settings and figures of the studies to those that are kept, and draw the pictures."""
    held = json.loads(FILE.read_text()) if FILE.is_file() else []
    content = merged([*held, *(kept(read_results(study)) for study in studies)])
    FILE.write_text(json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n")
    rows = ordered(content)
    draw(ROC, rows, draw_roc, "others taken for members", "members found")
    draw(ROUNDS, rows, draw_rounds, "round", "share")


def merged(studies: list[dict]) -> list[dict]:
    """Studies that differ in nothing but what they list, as one: what is finished stays until it is done again."""
    found: dict[str, dict] = {}
    for one in studies:
        alike = json.dumps({name: value for name, value in one["settings"].items() if name not in (*LISTS, *LABELS)})
        held = found.setdefault(alike, {"settings": one["settings"], "rows": []})
        lists = {
            name: list(dict.fromkeys([*held["settings"].get(name, ()), *one["settings"].get(name, ())]))
            for name in LISTS
        }
        rows = {named(row): row for row in held["rows"]}
        done = {name for name, row in rows.items() if "accuracy" in row}
        rows |= {named(row): row for row in one["rows"] if "accuracy" in row or named(row) not in done}
        found[alike] = {"settings": {**one["settings"], **lists}, "rows": list(rows.values())}
    return list(found.values())


def named(row: dict) -> tuple[object, ...]:
    """What tells a federation from the others of its study."""
    return row["dataset"], row["model"], row["defense"], row["augment"], row["seed"]


def ordered(studies: list[dict]) -> list[dict]:
    """What was measured, in the order of the preset whatever was run first; behind it what the preset has no more."""
    order = [named(vars(one)) for preset in PRESETS for one in preset.federations()]
    rows = [row for one in studies for row in finished(one)]
    return sorted(rows, key=lambda row: order.index(named(row)) if named(row) in order else len(order))


def kept(results: dict) -> dict:
    """What the page needs of one study: of ROC curves those of the last round, with few points."""
    rows = [trimmed(row) if "accuracy" in row else row for row in results["rows"]]
    return {"settings": results["settings"], "rows": rounded(rows)}


def trimmed(row: dict) -> dict:
    """A row with thin curves of the last round alone."""
    last = str(last_round(row))
    asked = {
        when: {name: thin(one, curve=when == last) for name, one in found.items()}
        for when, found in row["membership"].items()
    }
    shadowed = {name: thin(one, curve=True) for name, one in row.get("shadowed", {}).items()}
    return {**row, "membership": asked, **({"shadowed": shadowed} if shadowed else {})}


def thin(asked: dict, *, curve: bool) -> dict:
    """What one attack told, with few points of its curve or none."""
    found = {name: asked[name] for name in ("auc", RARE)}
    if not curve:
        return found
    fpr = np.unique(np.concatenate([np.linspace(0, 1, POINTS), np.geomspace(1e-3, 1, POINTS // 3)]))
    tpr = np.interp(fpr, asked["roc"]["fpr"], asked["roc"]["tpr"])
    return {**found, "roc": {"fpr": fpr.tolist(), "tpr": tpr.tolist()}}


def rounded(value: Any) -> Any:
    """The same with fewer digits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def networks(rows: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """Rows by data set and network, in the order of the plan."""
    return {
        (dataset, model): [row for row in rows if (row["dataset"], row["model"]) == (dataset, model)]
        for dataset, model in dict.fromkeys((row["dataset"], row["model"]) for row in rows)
    }


Draw = Callable[[Any, list[dict], str, str], None]


def draw(file: Path, rows: list[dict], lines: Draw, across: str, upward: str) -> None:
    """A panel for each network on each data set, a colour for each way to train."""
    found = networks(rows)
    if not found:
        return
    ways = list(dict.fromkeys(map(behind, rows)))
    columns = min(ACROSS, len(found))
    down = -(-len(found) // columns)
    figure = Figure(figsize=(max(4.2 * columns, 7.5), 3.4 * down + 0.8), layout="constrained")
    panels = list(figure.subplots(down, columns, squeeze=False).flat)
    for axes, ((dataset, model), own) in zip(panels, found.items(), strict=False):
        for way in dict.fromkeys(map(behind, own)):
            lines(axes, [row for row in own if behind(row) == way], way, f"C{ways.index(way) % 10}")
        axes.set(title=f"{dataset}, {model}", xlabel=across, ylabel=upward, ylim=(0, 1.02))
        axes.title.set_size(9)
        axes.grid(alpha=0.2)
    for axes in panels[len(found) :]:
        axes.remove()
    named = {label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=7)
    figure.savefig(file, dpi=100, facecolor="white", metadata={"Software": None})


def draw_roc(axes: Any, rows: list[dict], way: str, colour: str) -> None:
    """Figure 7: the loss attack after the last round, mean over seeds; dashed where asked with protected images."""
    for query, style in ((CLEAN, "-"), (PROTECTED, "--")):
        curves = [told(row)[f"{LOSS}, {query}"]["roc"] for row in rows if f"{LOSS}, {query}" in told(row)]
        if curves:
            tpr = np.mean([one["tpr"] for one in curves], axis=0)
            label = way if query == CLEAN else f"{way}, protected queries"
            axes.plot(curves[0]["fpr"], tpr, style, color=colour, lw=1.1, label=label)
    axes.axline((0, 0), slope=1, color="gray", lw=0.6)


def draw_rounds(axes: Any, rows: list[dict], way: str, colour: str) -> None:
    """Figure 1: accuracy on training and test images and the AUC over the watched rounds, mean over seeds."""
    watched = [row for row in rows if row.get("watched")]
    if way not in WORDS or not watched:
        return
    numbers = sorted(map(int, watched[0]["watched"]))
    for part, style in (("train", "--"), ("test", "-")):
        shares = [[asked(row, one)[part]["mean"] for one in numbers] for row in watched]
        axes.plot(numbers, np.mean(shares, axis=0), style, color=colour, lw=1.1, label=f"{way}, {part} accuracy")
    areas = [[most_told(row, one)["mean"] for one in numbers] for row in watched]
    axes.plot(numbers, np.mean(areas, axis=0), "o:", color=colour, ms=3, label=f"{way}, MIA AUC")


def asked(row: dict, when: int) -> dict:
    """Accuracies after a watched round, asked as the model was trained: with protected images where there are any."""
    found = row["watched"][str(when)]
    return found.get(PROTECTED, found[CLEAN])


def markdown(heads: list[str], rows: list[list[str]]) -> list[str]:
    """A table in Markdown; one without rows says so."""
    if not rows:
        return ["", "Nothing of this was measured yet.", ""]
    return ["", *table(heads, rows), ""]


def published(one: Place) -> str:
    """What table I says, where it says something, and where that lies beside the better way to test."""
    name, network = one.dataset.partition(":")[0], one.model.partition(":")[0]
    if name not in TABLE_I or network not in NETWORKS or one.defense not in WORDS:
        return ""
    value = TABLE_I[name][NETWORKS.index(network)][list(WORDS).index(one.defense)]
    above, below = value > 100 * one.accuracy.high, value < 100 * one.accuracy.low
    return f"{value:.2f}%, {'above' if above else 'below' if below else 'inside'} our interval"


def cell(value: Any, words: Callable[[Any], tuple[str, str]]) -> str:
    """A value with its interval in words."""
    mean, interval = words(value)
    return f"{mean} ({interval})"


def accuracies(rows: list[dict]) -> list[str]:
    """Table I with both ways to test."""
    heads = ["data", "network", "defense", "seeds", "clean test images", "protected test images", "published"]
    lines = []
    for one in places(rows):
        shares = [cell(one.tested[query], percent) if query in one.tested else "n/a" for query in (CLEAN, PROTECTED)]
        names = [one.dataset, one.model, one.defense, str(one.seeds)]
        lines.append([*names, *shares, published(one)])
    return markdown(heads, lines)


def verdicts(rows: list[dict]) -> list[str]:
    """What became of the paper's claims: a row for each network, a column for each claim."""
    found = {
        place: [judged(claim, own) for claim in CLAIMS]
        for place, own in networks(rows).items()
        if any(behind(row) == CSVAR for row in own) or place[1].partition(":")[0] in NETWORKS
    }
    counted = Counter(one.word.partition(" (")[0] for own in found.values() for one in own)
    counts = ", ".join(f"{counted[word]} {word}" for word in VERDICTS if counted[word])
    return [
        f"Of {counted.total()} claims, network by network: {counts}. What is not resolved is neither confirmed nor "
        "refuted.",
        *markdown(
            ["data", "network", *(claim.words for claim in CLAIMS)],
            [[*place, *map(verdict, own)] for place, own in found.items()],
        ),
    ]


def verdict(one: Verdict) -> str:
    """A cell: the word, bold where it decides, and the differences behind it."""
    word = f"**{one.word}**" if one.word in DECIDED else one.word
    return "<br>".join([word, *map(str, one.steps)])


def membership(rows: list[dict]) -> list[str]:
    """Every attack after the last round, by raw and by protected queries."""
    measures = {
        "AUC, raw": (CLEAN, "auc"),
        "TPR at 1 % FPR, raw": (CLEAN, RARE),
        "AUC, protected": (PROTECTED, "auc"),
        "TPR at 1 % FPR, protected": (PROTECTED, RARE),
    }
    lines = []
    for (dataset, model), own in networks(rows).items():
        for way in dict.fromkeys(map(behind, own)):
            found = [told(row) for row in own if behind(row) == way]
            for attack in dict.fromkeys(name.rpartition(", ")[0] for name in found[0]):
                values = [met(found, attack, *one) for one in measures.values()]
                lines.append([dataset, model, way, attack, *values])
    return markdown(["data", "network", "defense", "attack", *measures], lines)


def met(found: list[dict], attack: str, query: str, measure: str) -> str:
    """One measure over seeds, in words."""
    if f"{attack}, {query}" not in found[0]:
        return "n/a"
    values = [one[f"{attack}, {query}"][measure] for one in found]
    return "not estimable" if None in values else cell(together(values), number)


def compared(rows: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """Networks that were trained with CSVAR and without."""
    return {place: own for place, own in networks(rows).items() if {NONE, CSVAR} <= set(map(behind, own))}


def over_rounds(rows: list[dict]) -> list[str]:
    """How far vanilla training and CSVAR overfit, round by round."""
    heads = ["data", "network", "defense", "round", "training accuracy", "test accuracy", "MIA AUC"]
    lines = []
    for (dataset, model), own in compared(rows).items():
        for way in (NONE, CSVAR):
            alike = [row for row in own if behind(row) == way and row.get("watched")]
            for when in sorted(map(int, alike[0]["watched"])) if alike else []:
                train, test = (together([asked(row, when)[part] for row in alike]) for part in ("train", "test"))
                auc = together([most_told(row, when) for row in alike])
                values = [cell(train, percent), cell(test, percent), cell(auc, number)]
                lines.append([dataset, model, way, str(when), *values])
    return markdown(heads, lines)


def controlled(rows: list[dict]) -> list[str]:
    """Ordinary ways against overfitting beside the defenses."""
    heads = ["data", "network", "way to train", "rounds", "test accuracy", "MIA AUC"]
    lines = [
        [dataset, model, one.way, ", ".join(map(str, one.rounds)), cell(one.accuracy, percent), cell(one.auc, number)]
        for (dataset, model), own in compared(rows).items()
        for one in controls(own)
        if one.way.partition(",")[0] in (NONE, CSVAR)
    ]
    return markdown(heads, lines)


def missing(studies: list[dict]) -> list[str]:
    """What the preset or a plan asks for and is not measured, setup by setup; a failure is said where there was one."""
    rows = {named(row): row for one in studies for row in one["rows"]}
    asked = {named(vars(one)): bool(shadows) for preset in PRESETS for one, shadows in preset.asked()}
    left: dict[str, list[str]] = {}
    for name, shadows in (asked | {name: False for name in rows if name not in asked}).items():
        row, (dataset, model, defense, augment, seed) = rows.get(name, {}), name
        if "accuracy" in row and ("shadowed" in row or not shadows):
            continue
        state = f"failed: {row['failed']}" if "failed" in row else "not run yet"
        way = behind({"defense": defense, "augment": augment}) + (", with shadow models" if shadows else "")
        left.setdefault(f"{dataset}, {model}, {way} ({state})", []).append(str(seed))
    if not left:
        return ["Every federation of the plan was run.", ""]
    names = [f"- {name}: seeds {', '.join(seeds)}" for name, seeds in left.items()]
    return [f"Missing in every table above, {sum(map(len, left.values()))} federations:", "", *names, ""]


def exchanged(rows: list[dict]) -> list[str]:
    """Networks that were trained and are no longer in the preset: their rows stay, and why they went is said."""
    planned = {federation.model for preset in PRESETS for federation in preset.federations()}
    gone = ", ".join(dict.fromkeys(row["model"] for row in rows if row["model"] not in planned))
    return [EXCHANGED.format(gone)] if gone else []


def chosen(studies: list[dict]) -> list[str]:
    """Every choice that the paper leaves open."""
    lines = []
    for one in studies:
        settings, measured = one["settings"], finished(one)
        shadowed = any("shadowed" in row for row in measured)
        told = [choice for choice in choices(settings) if shadowed or choice[0] != "shadow_membership"]
        rows = [[name, f"`{value}`", meaning] for name, value, meaning in told]
        rows += [[name, words, ""] for name, words in FIXED.items()]
        where = (
            f"{model} on {dataset} ({', '.join(dict.fromkeys(map(behind, own)))})"
            for (dataset, model), own in networks(measured).items()
        )
        lines += [f"**{settings['title']}**: {'; '.join(where)}"]
        lines += markdown(["setting", "value", "meaning"], rows)
    return lines


FIXED = {
    "optimiser": "SGD with Nesterov momentum where set, a constant learning rate, no weight decay",
    "first weights": "random; ImageNet's but for the last layer where the network's SPEC says `pretrained=true`",
    "aggregation": "federated averaging over all clients in every round",
    "resolution": "that of the data set's SPEC, `size` where given; CSVAR acts at that resolution",
    "test images": "clean and protected, both; asked with protected ones, 8 versions of an image are averaged",
}


def page() -> str:
    """The page from the export alone."""
    studies = json.loads(FILE.read_text())
    rows = ordered(studies)
    text = [INTRODUCTION]
    if rows:
        text += ["## Do the paper's claims hold?", "", CLAIMED, *verdicts(rows), "", "## Accuracy: table I", ACCURACY]
        text += [
            *exchanged(rows),
            *accuracies(rows),
            "## Membership: figure 7",
            "",
            PICTURED,
            MEMBERSHIP,
            *membership(rows),
        ]
        text += ["## Overfitting over rounds: figure 1", "", OVERFITTING, *over_rounds(rows)]
        text += ["## Controls", "", CONTROLS, *controlled(rows)]
    text += ["## What is missing", "", *missing(studies), "## What was chosen", "", CHOSEN, *chosen(studies), TERMS]
    return "\n".join(text).rstrip() + "\n"


INTRODUCTION = """# The CSVAR paper's evaluation

Made by `docs/generate_federations.py` from the file beside this page, which comes from
`glasshouse study new DIR --preset csvar` (`csvar_pretrained`, `csvar_dp`) and `glasshouse study run DIR`. Every
federation is trained by Flower. The paper's "CelebA", 400 grey images of 40 people, is the ORL set. What an attacker
sees in shuffled images is [another page](csvar.md), and so is [the GAN attack](gan.md) of figure 6.

Intervals are 95 %: over seeds (Student's t), or over images where that is wider; with one seed over images alone, and
then they say nothing about another training. Federations that were not run yet are named
[at the end](#what-is-missing).
"""

EXCHANGED = """No longer in the presets: {}. LeNet learned little even undefended, and DP-SGD little in batches as small
as those of the others, so that other networks and settings took their place after these rows were seen; they stay.
DP-SGD now takes all images of a client in a step, and a rate of its own, chosen in a pilot of two by how well it
learned; `epsilon=inf` clips and adds no noise.
"""

CLAIMED = """A step of an order holds where the interval of its difference lies above zero, and does not hold where it
lies below. The difference is paired by seed; its interval is the wider of Student's t over seeds and one over images.
Noise is `image_noise:sigma=50`. Membership is told by the loss attack, asked with images as they are (raw) or by the
stronger of raw and shuffled ones: the stronger is what counts for privacy.
"""

ACCURACY = """
Share of test images that the global model names rightly after the last round. Protected: test images go through the
defense as training images did; `n/a` where it changes none. Each goes alone, since who asks for a class does not know
it: behind `csvar_exchange` a test image is shuffled, mirrored and dithered, and mixed with nobody, while a client mixes
its own images of a class, of which it has few where classes are people. *Published* is table I of the paper, which does
not say how it tested, on how many images, over how many rounds, or from which weights; it stands beside the interval of
the better of our two ways to test. Ours start from random weights, but for `pretrained=true`, see a thousand images at
most and are trained as is said below, so that another share is no contradiction: compare the order of the rows. From
random weights so few images teach little of CIFAR-10, and what was hardly learned ranks no defenses.
"""

PICTURED = "![ROC curves of the loss attack](federations-roc.png)\n"

FIGURE = ", ".join(f"{auc:.2f} for {WORDS[way]}" for way, auc in FIGURE_7.items())
MEMBERSHIP = f"""Who was in the training data, after the last round: the [loss attack](../membership/loss.md), and with
shadow models [LiRA](../membership/lira.md), [RMIA](../membership/rmia.md) and [Shokri's](../membership/shokri.md) where
the plan asks for them. *Protected*: asked with images that went through the defense, as those that the model was
trained on did. 0.5 is guessing. Figure 7 of the paper has AUC {FIGURE},
and names neither data set nor network nor attack. Shadow models are federations of their own, trained as the clients
train, on as many images; their cost is that of the federation times their number.
"""

OVERFITTING = """![Accuracy and membership over rounds](federations-rounds.png)

Accuracy is asked as the model was trained, of up to 1,000 training and 1,000 test images; the AUC is that of the
stronger way to ask.
"""

CONTROLS = """Does it take a shuffle? *Augmented*: clients shift images by up to four pixels and mirror half of them.
*Stopped early*: the watched round after which the model was right most often on test images; the same images chose
it and are scored, so its accuracy is a little too good. The better way to ask counts for accuracy, the stronger for the
attack.
"""

CHOSEN = "The paper gives none of these. Every number above depends on them.\n"

TERMS = """MNIST: public research data. CIFAR-10: no terms stated (Krizhevsky 2009). ORL faces: research, with credit to
AT&T Laboratories Cambridge. Table I and figures 1 and 7: the CSVAR paper."""

if __name__ == "__main__":
    if len(sys.argv) > 1:
        export([Path(study) for study in sys.argv[1:]])
    FILE.with_suffix(".md").write_text(page())
