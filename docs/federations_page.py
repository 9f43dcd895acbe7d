"""The page of the CSVAR paper's evaluation, from docs/results/federations.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

from federations_claimed import (
    CSVAR,
    FIGURE_7,
    LOSS,
    NETWORKS,
    NOISE,
    NONE,
    TABLE_I,
    WORDS,
    claimed,
    claims,
    name,
    published,
)
from federations_rows import PRESETS, compared, known, learned, named, networks, of_way, ordered, planned, split
from federations_seen import TEXT as SEEN
from federations_seen import seen_table
from federations_short import estimate, short
from page_tables import table

from glasshouse.reports.federations import choices
from glasshouse.reports.federations_claims import (
    CLEAN,
    FAILS,
    HOLDS,
    OPEN,
    PROTECTED,
    Step,
    Verdict,
    judged,
    worst_area,
)
from glasshouse.reports.federations_controls import controls
from glasshouse.reports.federations_view import Place, number, percent, places, together
from glasshouse.studies.federations.results import behind, finished, told
from glasshouse.studies.learned import LEARNED
from glasshouse.studies.presets.csvar import DEFENSES

RARE = "tpr_at_fpr_0.01"
DECIDED = (FAILS, HOLDS)
UNLEARNED = "hardly learned"
SEEDS = len(PRESETS[0].seeds)
ONCE = "{} in one seed"
VERDICTS = (*DECIDED, *map(ONCE.format, DECIDED), OPEN, UNLEARNED, "not measured yet")  # surest first


def markdown(heads: list[str], rows: list[list[str]]) -> list[str]:
    """A table in Markdown; one without rows says so."""
    if not rows:
        return ["", "Nothing of this was measured yet.", ""]
    return ["", *table(heads, rows), ""]


def cell(value: Any, words: Callable[[Any], tuple[str, str]]) -> str:
    """A value with its interval in words."""
    mean, interval = words(value)
    return f"{mean} ({interval})"


def verdicts(rows: list[dict]) -> list[str]:
    """What became of the paper's claims: a row for each network, a column for each claim."""
    words = {
        (dataset, model): [
            word(judged(claim, own)) if learned(dataset, own) else UNLEARNED for claim in claims(dataset, model)
        ]
        for (dataset, model), own in planned(rows).items()
    }
    counted = Counter(one.strip("*") for own in words.values() for one in own)
    counts = ", ".join(f"{one}: {counted[one]}" for one in VERDICTS if counted[one])
    heads = ["data", "network", *(claim.words for claim in claims(*next(iter(words))))]
    return [
        f"Of {counted.total()} claims, network by network: {counts}.",
        *markdown(heads, [[*place, *own] for place, own in words.items()]),
    ]


def word(one: Verdict) -> str:
    """A verdict in a word, bold where several seeds decide; what is missing stands at the end of the page."""
    found = one.word.partition(" (")[0]
    if found not in DECIDED:
        return found
    return ONCE.format(found) if min(step.difference.images for step in one.steps) == 1 else f"**{found}**"


def differences(rows: list[dict]) -> list[str]:
    """The differences by which claims were judged."""
    lines = [
        [dataset, model, claim.words, *told_of(step)]
        for (dataset, model), own in planned(rows).items()
        if learned(dataset, own)
        for claim in claims(dataset, model)
        for step in judged(claim, own).steps
    ]
    return markdown(["data", "network", "claim", "difference", "seeds", "mean and interval", "claimed: above"], lines)


def told_of(step: Step) -> list[str]:
    """Cells of one difference; ``images`` counts its seeds."""
    one = step.difference
    return [f"{step.larger} - {step.smaller}", str(one.images), estimate(one), f"{0.0 - step.margin:.4f}"]


def accuracies(rows: list[dict]) -> list[str]:
    """Table I with both ways to test."""
    heads = ["data", "network", "defense", "seeds", "clean test images", "protected test images", "published"]
    lines = []
    for one in places(rows):
        shares = [cell(one.tested[query], percent) if query in one.tested else "n/a" for query in (CLEAN, PROTECTED)]
        names = [one.dataset, one.model, one.defense, str(one.seeds)]
        lines.append([*names, *shares, printed(one)])
    return markdown(heads, lines)


def printed(one: Place) -> str:
    """What table I says, where it says something, and where that lies beside the better way to test."""
    if not claimed(one.dataset, one.model) or one.defense not in WORDS:
        return ""
    share = published(one.dataset, one.model, one.defense)
    side = "above" if share > one.accuracy.high else "below" if share < one.accuracy.low else "inside"
    return f"{share:.2%}, {side} our interval"


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
            found = [told(row) for row in of_way(own, way)]
            for attack in dict.fromkeys(one.rpartition(", ")[0] for one in found[0]):
                values = [met(found, attack, *one) for one in measures.values()]
                lines.append([dataset, model, way, attack, *values])
    return markdown(["data", "network", "defense", "attack", *measures], lines)


def met(found: list[dict], attack: str, query: str, measure: str) -> str:
    """One measure over seeds, in words."""
    if f"{attack}, {query}" not in found[0]:
        return "n/a"
    values = [one[f"{attack}, {query}"][measure] for one in found]
    return "not estimable" if None in values else cell(together(values), number)


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


def promises(rows: list[dict]) -> list[str]:
    """What DP-SGD costs, and what it promises for that."""
    heads = ["network", "defense", "batch", "seeds", "test accuracy", "AUC of the loss attack", "promise"]
    lines = []
    for one in places(rows):
        own = of_way(networks(rows)[one.dataset, one.model], one.defense)
        auc = together(list(map(worst_area(LOSS), own)))
        promise = "; ".join(dict.fromkeys(row["promise"] for row in own)) or "none"
        shown = [str(own[0]["batch"]), str(one.seeds), cell(one.accuracy, percent), cell(auc, number), promise]
        lines.append([f"{one.model}, {one.dataset}", one.defense, *shown])
    return markdown(heads, lines)


def missing(studies: list[dict]) -> list[str]:
    """What a preset asks for and is not measured, a line for each network; failures are said, whoever asked."""
    rows = known(studies)
    asked = {named(vars(one)): bool(shadows) for preset in PRESETS for one, shadows in preset.asked()}
    left: dict[str, dict[str, list[str]]] = {}
    others = {one: False for one, row in rows.items() if "failed" in row and one not in asked}
    for which, shadows in (asked | others).items():
        row, (dataset, model, defense, augment, seed) = rows.get(which, {}), which
        if "accuracy" in row and ("shadowed" in row or not shadows):
            continue
        way = behind({"defense": defense, "augment": augment}) + (" with shadow models" if shadows else "")
        state = f" failed: {row['failed']}" if "failed" in row else ""
        left.setdefault(f"{dataset}, {model}", {}).setdefault(f"{way}{state}", []).append(str(seed))
    if not left:
        return ["Every federation of the presets was run.", "", *beyond(rows)]
    count = sum(len(seeds) for ways in left.values() for seeds in ways.values())
    lists = {
        place: [f"{way} (seeds {', '.join(seeds)})" for way, seeds in ways.items()] for place, ways in left.items()
    }
    names = [f"- {place}: {'; '.join(ways)}" for place, ways in lists.items()]
    return [f"Missing of the presets in every table above, {count} federations:", "", *names, "", *beyond(rows)]


def beyond(rows: dict[tuple[object, ...], dict]) -> list[str]:
    """What the presets do not ask for, of all data sets and networks of table I by all defenses, or has few seeds.

    A network that begins with published weights is not the one of the table, which begins with none.
    """
    seeds: dict[tuple[str, str, str], set[object]] = {}
    for (dataset, model, defense, augment, seed), row in rows.items():
        if "accuracy" in row and not augment and "pretrained=true" not in str(model):
            seeds.setdefault((name(str(dataset)), name(str(model)), str(defense)), set()).add(seed)
    few: dict[str, dict[int, list[str]]] = {}
    for dataset, model, defense in product(TABLE_I, NETWORKS, DEFENSES):
        count = len(seeds.get((dataset, model, defense), ()))
        if count < SEEDS:
            few.setdefault(f"{dataset}, {model}", {}).setdefault(count, []).append(defense)
    told_few = {
        place: [f"{count} of {SEEDS} seeds of {', '.join(ways)}" for count, ways in counts.items()]
        for place, counts in few.items()
    }
    lines = [f"- {place}: {'; '.join(parts)}" for place, parts in told_few.items()]
    title = "Of all data sets and networks of table I by all defenses, from fresh weights, with fewer seeds for time:"
    return [title, "", *lines, ""]


def chosen(studies: list[dict]) -> list[str]:
    """Every choice that the paper leaves open: a column for each study."""
    columns = [{setting: (value, meaning) for setting, value, meaning in choices(one["settings"])} for one in studies]
    ran = []
    for place, one in enumerate(studies, start=1):
        where = "; ".join(f"{model} on {dataset}" for dataset, model in networks(finished(one)))
        ran.append(f"{place}. {one['settings']['title']}: {where or 'nothing yet'}")
    rows = [
        [setting, *(f"`{one[setting][0]}`" for one in columns), meaning] for setting, (_, meaning) in columns[0].items()
    ]
    heads = ["setting", *(f"study {place}" for place in range(1, len(studies) + 1)), "meaning"]
    fixed = [f"- {what}: {words}" for what, words in FIXED.items()]
    return [*ran, *markdown(heads, rows), *fixed, ""]


FIXED = {
    "optimiser": "SGD with Nesterov momentum where set, a constant learning rate, no weight decay",
    "first weights": "random; ImageNet's but for the last layer where the network's SPEC says `pretrained=true`",
    "aggregation": "federated averaging over all clients in every round",
    "rate, batch and stems": "by how well undefended federations learned in a pilot, on these same test images: that "
    "favours no defense over another, but may favour training without one; what DP-SGD promises leaves its pilot out",
    "resolution": "that of the data set's SPEC, `size` where given; CSVAR acts at that resolution",
    "test images": "clean and protected, both; asked with protected ones, 8 versions of an image are averaged",
}


def page(studies: list[dict], seen: list[dict]) -> str:
    """The page from what is kept of studies, and of what comparisons saw in images."""
    rows = ordered(studies)
    others, private = split(rows)
    text = [INTRODUCTION]
    if rows:
        text += ["## In short", "", *short(rows), "", SHORT]
        text += ["## Do the paper's claims hold?", "", CLAIMED, *verdicts(rows)]
        text += ["## Where this disagrees with the paper, and why we think so", "", DISAGREES]
        text += ["## Accuracy: table I", "", ACCURACY, *accuracies(others)]
        text += ["## Membership: figure 7", "", MEMBERSHIP, *membership(others)]
        text += [
            "## Overfitting over rounds: figure 1",
            "",
            OVERFITTING,
            "## Controls",
            "",
            CONTROLS,
            *controlled(rows),
        ]
        if seen:
            text += ["## What is seen of images: SemSim", "", SEEN, *seen_table(seen)]
        text += ["## DP-SGD", "", PRIVATE, *promises(private)]
        text += ["## The differences behind the claims", "", DIFFERENCES, *differences(rows)]
    text += ["## What is missing", "", *missing(studies), "## What was chosen", "", CHOSEN, *chosen(studies), TERMS]
    return "\n".join(text).rstrip() + "\n"


INTRODUCTION = """# The CSVAR paper's evaluation

What does CSVAR cost of accuracy, and whom does it hide? Every federation here was trained by Flower. The paper's
"CelebA", 400 grey images of 40 people, is the ORL set. What an attacker sees in shuffled images is
[another page](csvar.md), and so is [the GAN attack](gan.md) of figure 6. Made by `docs/generate_federations.py` from
the file beside this page, which comes from `glasshouse study new DIR --preset csvar` (`csvar_pretrained`, `csvar_dp`)
and `glasshouse study run DIR`.
"""

SHORT = """Intervals are 95 %: over seeds (Student's t), or over images where that is wider; with one seed over images
alone, and then they say nothing about another training. The better way to ask counts for accuracy, clean or protected,
and the stronger of raw and protected queries for members. Three seeds at most, a thousand images, clients whose images
are alike: another scale may find another thing. To stop vanilla training at CSVAR's accuracy was thought of after the
results were seen.
"""

CLAIMED = f"""A step of an order holds where the interval of its difference lies above zero, and does not hold where it
lies below; where CSVAR may cost what was published, that takes the place of zero. What is not resolved is neither
confirmed nor refuted; of so many intervals about one in twenty misses by chance, and those of one seed know nothing of
how trainings differ. *Hardly learned*: undefended, the network is right less than {LEARNED:.0f} times as often as
chance. Noise is `{NOISE}`. Members are told by the loss attack, asked with images as they are (raw) or by the stronger
of raw and protected ones, which is what counts for privacy. [The differences](#the-differences-behind-the-claims) stand
below.
"""

DISAGREES = """These are thoughts, not measurements; what was measured stands in the tables.

- *Networks are less accurate than published on MNIST and CIFAR-10.* Ours learn from a thousand images in ten rounds;
  the paper does not say from how many, nor in how many. From fresh weights that is too little for CIFAR-10, which is
  why one row begins with weights of ImageNet.
- *On faces the light networks are as accurate as published or more, and noise may cost less.* 320 faces at 64 px are
  learned in 20 rounds. Noise of sigma 50 is drawn anew in every epoch, so that it averages out in training; asked
  with noisy images, as it was trained, a network is right. Large losses behind noise appear where clean images are
  asked, which no network behind noise learned from. The paper may have tested so: it does not say. ResNet50 had not
  settled after 20 rounds.
- *CSVAR costs more than published on CIFAR-10.* The paper speaks of images of 224 px. In an image of 32 px that is
  enlarged so far, a block of CSVAR covers less than three pixels of the source: a shuffle then costs little, and
  hides little ([measured on faces](csvar.md)). At 64 px it does more of both.
- *Where CSVAR hides members, on one network of those here, it does so from who asks with raw images alone.* The paper
  does not say what its attack asks with. A network that learned from shuffled images is sure of shuffled images, so
  these tell its members.
- *Three seeds resolve little on faces.* 80 test images and 320 members leave intervals wider than the differences
  that the paper prints, which have none.
"""

ACCURACY = """Share of test images that the global model names rightly after the last round. Protected: test images go
through the defense as training images did, each alone, since who asks for a class does not know it; `n/a` where it
changes none. *Published* is table I, which does not say how it tested, on how many images, over how many rounds or from
which weights; it stands beside the better of our two ways to test. Compare the order of the rows rather than shares.
"""

FIGURE = ", ".join(f"{auc:.2f} for {WORDS[way]}" for way, auc in FIGURE_7.items())
MEMBERSHIP = f"""![ROC curves of the loss attack](federations-roc.png)

Who was in the training data, after the last round: the [loss attack](../membership/loss.md), and with
shadow models [LiRA](../membership/lira.md), [RMIA](../membership/rmia.md) and [Shokri's](../membership/shokri.md) where
the plan asks for them. *Protected*: asked with images that went through the defense, as those that the model was
trained on did. 0.5 is guessing. Figure 7 of the paper has AUC {FIGURE};
it names neither data set nor network, and the text cites Shokri et al. for the attack. Shadow models are federations of
their own, trained as the clients train, on as many images.
"""

OVERFITTING = """![Accuracy and membership over rounds](federations-rounds.png)

Accuracy is asked as the model was trained, of up to 1,000 training and 1,000 test images; the AUC is that of the
stronger way to ask.
"""

CONTROLS = """Does it take a shuffle? *Augmented*: clients shift images by up to four pixels and mirror half of them;
members are asked about with images as they are, and who asked with shifted ones as well might tell more.
*Stopped early*: the watched round after which the model was right most often on test images; the same images chose
it and are scored, so its accuracy is a little too good. *Stopped when as accurate as csvar*: the first watched round
that is; who leaks less than that hides members, who leaks as much has only learned less; seeds in which it never is as
accurate are left out of that row, so that it may have fewer than the row of csvar. Augmented training was asked for on
two networks only. The better way to ask counts
for accuracy, the stronger for the attack.
"""

PRIVATE = """DP-SGD takes small networks without batch norm, so it stands apart from the others. Its own control is
`epsilon=inf`, which clips and adds no noise: `none` was trained with the settings of the other defenses. It now takes
all images of a client in a step, and a rate of its own, chosen of two in a pilot by how well it learned; in batches of
eight it learned little, and those rows stay.
"""

DIFFERENCES = """Paired by seed; the interval is the wider of Student's t over seeds and one over images."""

CHOSEN = """The paper aggregates after every local epoch (ours: after two), speaks of clients with unlike data (ours:
alike) and of secure aggregation (ours: none, which changes weights by rounding alone). The rest it leaves open, and
every number above depends on it.
"""

TERMS = """MNIST: public research data. CIFAR-10: no terms stated (Krizhevsky 2009). ORL faces: research, with credit to
AT&T Laboratories Cambridge. Table I and figures 1 and 7: the CSVAR paper."""
