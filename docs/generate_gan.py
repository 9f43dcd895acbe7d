"""What a malicious participant learned of a class that it does not hold: docs/results/gan.md with its picture.

python docs/generate_gan.py DIR ..., with GLASSHOUSE_DATA set and each DIR from 'glasshouse federate --adversary gan';
audits each and keeps its figures as docs/results/gan-NAME.json, NAME being the directory's, then draws all of them.
Without arguments only the page is written.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glasshouse.federated import Federation
from glasshouse.federated.adversaries.findings import Findings
from glasshouse.federated.holdings import dealt
from glasshouse.federated.host import Host
from glasshouse.federated.run import read_result
from glasshouse.metrics import metrics
from glasshouse.reports.comparison import number, percent
from glasshouse.studies.federation import FederationAudit, audit_federation
from glasshouse.studies.scoring import beats_floor

FOLDER = Path(__file__).parent / "results"
SETTINGS = FederationAudit(attacks=(), metrics=("psnr", "ssim", "lpips", "semsim"))
SETS = {"mnist": "MNIST", "orl_faces": "ORL faces"}  # of figure 6, where "CelebA" is the ORL faces
WORDS = {"none": "no defense", "image_noise:sigma=50": "noise on images, sigma 50", "csvar": "CSVAR"}
HELD = 3  # thumbnails of the data set in every row of the picture
SHOWN = 6  # rounds in every row of the picture
INTRODUCTION = """# A malicious participant

Made by `docs/generate_gan.py` from the files beside this page. One of the clients of a federation is the
[GAN adversary](../adversaries/gan.md) of Hitaj et al. 2017: it holds no image of the target class, trains a generator
against every global model that it is sent, and labels its samples as an extra class. It is a malicious participant, not
a curious server; figure 6 of the CSVAR paper does not say which of both it shows. Honest clients train behind the
defense of the row; the adversary behind none. One run of each: intervals are over samples of one generator, which are
much alike, and say nothing about other runs: the undefended one on MNIST, trained again by a later version of this
code, went from most to few samples that the judge takes for the target in the last round. Figure 6 of the paper sets
vanilla training, noise and CSVAR beside one another on MNIST and faces; so does this page, with what was run. Settings
were chosen by looking at undefended runs.

A judge's agreement alone is no proof that something can be seen: it must name some class, and takes most of the noise
of the first round on MNIST for the target, too. Nor does its disagreement prove the contrary, where it learned from two
photographs of each person. *Most like the target* counts what correlates, which an outline does that nobody would know.
Look at the pictures and at the nearest images beside it.

![Images of the class and samples](gan.png)

Images that other clients hold of the class, as they are before any defense, then in a row for each defense one sample
of the adversary after rounds from the first to the last. MNIST: public research data; ORL faces, where shown: research
use, with credit to AT&T Laboratories Cambridge.
"""


def main(places: list[str]) -> None:
    """Audit and draw the federations named, then write the page."""
    for place in map(Path, places):
        (FOLDER / f"gan-{place.name}.json").write_text(json.dumps(measured(place), indent=1) + "\n")
    if places:
        draw([Path(place) for place in places])
    found = [json.loads(file.read_text()) for file in sorted(FOLDER.glob("gan-*.json"))]
    (FOLDER / "gan.md").write_text(page(found))


def measured(place: Path) -> dict:
    """The plan, the accuracy of the global model in every round, and what the samples show."""
    plan, rounds = read_result(place)
    forgery = audit_federation(place, place / "audit", SETTINGS).forgery
    return {
        "plan": dataclasses.asdict(plan),
        "accuracy": [one.accuracy for one in rounds],
        "forgery": {**dataclasses.asdict(forgery), "pictures": None},
    }


def draw(places: list[Path]) -> None:
    """A row for each federation: of each data set images of the target once, then samples of rounds, first to last."""
    plans = {place: read_result(place)[0] for place in places}
    places = sorted(places, key=lambda place: rank(dataclasses.asdict(plans[place])))
    first = {plans[place].dataset: place for place in reversed(places)}
    figure = Figure(figsize=(1.0 * (HELD + SHOWN), 1.22 * len(places)), layout="constrained")
    for line, place in zip(figure.subplots(len(places), HELD + SHOWN, squeeze=False), places, strict=True):
        plan, rounds = read_result(place)
        numbers = torch.linspace(0, len(rounds) - 1, SHOWN).round().int().tolist()
        held = of_target(plan)
        made = [Findings(place).samples(one, held.shape[2])[0] for one in numbers]
        titles = [f"round {one + 1}" for one in numbers]
        titles[0] = f"{called(plan.defense)}:\n{titles[0]}"
        shown = list(zip(line[HELD:], made, titles, strict=True))
        if first[plan.dataset] == place:  # a class may have fewer images than there is room for
            shown += zip(line[:HELD], held, [f"{plan.dataset}:\nheld by others", *[""] * (HELD - 1)], strict=False)
        for axes, image, title in shown:
            axes.imshow(image.permute(1, 2, 0), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set_title(title, fontsize=6, loc="left")
        for axes in line:
            axes.axis("off")
    figure.savefig(FOLDER / "gan.png", dpi=110, facecolor="white")


def called(defense: str) -> str:
    """A defense in words."""
    return WORDS.get(defense, defense)


def rank(plan: dict) -> tuple[str, int, str]:
    """Where a federation stands: by data set, then undefended, noise, CSVAR, others."""
    defense = plan["defense"]
    return plan["dataset"], list(WORDS).index(defense) if defense in WORDS else len(WORDS), defense


def of_target(plan: Federation) -> Tensor:
    """The first images that clients hold of the class that the adversary is after."""
    names = Host.prepare(plan, FOLDER).class_names
    held = [dealt(plan, client, names, None) for client in range(plan.clients)]
    images = [one.in_epoch(0).images[one.labels == names.index(plan.malicious.target)] for one in held]
    return torch.cat(images)[:HELD]


def page(found: list[dict]) -> str:
    """The page from the figures alone."""
    found = sorted(found, key=lambda one: rank(one["plan"]))
    parts = [INTRODUCTION, *missing(found), *summary(found)]
    for name in dict.fromkeys(one["plan"]["dataset"] for one in found):
        parts += section(name, [one for one in found if one["plan"]["dataset"] == name])
    return "\n".join(parts).rstrip() + "\n"


def missing(found: list[dict]) -> list[str]:
    """What figure 6 shows and nothing was measured of."""
    known = {(one["plan"]["dataset"].partition(":")[0], one["plan"]["defense"]) for one in found}
    left = [
        f"{words}, {called(defense)}"
        for name, words in SETS.items()
        for defense in WORDS
        if (name, defense) not in known
    ]
    return [f"**Not run or not scored yet:** {'; '.join(left)}.\n"] if left else []


def summary(found: list[dict]) -> list[str]:
    """What was found, in a line for each data set."""
    lines: dict[str, list[str]] = {}
    beaten = [
        f"{called(one['plan']['defense'])} ({one['plan']['dataset']})"
        for one in found
        if floor_beaten(one["forgery"]) == "yes"
    ]
    for one in found:
        lines.setdefault(one["plan"]["dataset"], []).append(f"{called(one['plan']['defense'])}: {nearest(one)}")
    return [
        "**What was found.** By the test that was set beforehand, *beats the floor*, the attack succeeds behind: "
        f"{', '.join(beaten) or 'nothing'}. By how many of the metrics below no other class is nearer to the samples "
        "than the target, a count that was added after the results were seen:\n",
        *(f"- {name}: {'; '.join(words)}" for name, words in lines.items()),
        "",
    ]


def section(name: str, found: list[dict]) -> list[str]:
    """The tables of one data set, undefended first."""
    plan, judged = found[0]["plan"], found[0]["forgery"]
    return [
        f"## {name}\n",
        f"{plan['model']} on {plan['images'] or 'all'} training images, {plan['clients']} clients ({plan['split']}), "
        f"{plan['rounds']} rounds of {plan['local_epochs']} local epochs, batch {plan['batch']}, "
        f"learning rate {plan['lr']}; adversary `{plan['adversary']}`. "
        f"Others hold {judged['accuracy_target']['images']} images of the target.\n",
        *table(JUDGED, [taken(one) for one in found]),
        *table(COMPARED, [line for one in found for line in compared(one)]),
        "Samples are taken for a class by a judge, a linear probe on AlexNet that never met the federation. It learned "
        f"from {judged['taught']} test images and is right on {percent(judged['accuracy'])} of the clients' images, on "
        f"{percent(judged['accuracy_target'])} of those of the target; chance is {judged['chance']:.1%}. The nearest "
        f"of {judged['images_per_class']} images of each of {judged['classes']} classes is looked for; rank 1 means "
        "that no class is nearer than the target. High values are near for PSNR and SSIM, low ones for LPIPS and "
        "[SemSim](../metrics/semsim.md). For the floor, each sample is given one of the target's images of "
        "its own, by the least squared error of all; the floor is that image's own mean colour. A sample is most like "
        "the target where, of as many images of every class, the one that correlates most with it shows the target. "
        "It beats the floor where the means are better in LPIPS, or in SSIM and PSNR, and samples are most like the "
        "target at five times chance, even at the lower end of the interval.\n",
    ]


JUDGED = [
    "defense",
    "accuracy of the model",
    "beats the floor",
    "most like the target",
    "samples taken for the target",
    "in the best round",
]
COMPARED = [
    "defense",
    "nearest image by",
    "of the target",
    "of other classes",
    "of the nearest other",
    "rank of the target",
    "beside an image of its own",
    "floor",
]


def table(titles: list[str], lines: list[list[str]]) -> list[str]:
    """A table in Markdown."""
    return ["| " + " | ".join(line) + " |" for line in (titles, ["---"] * len(titles), *lines)] + [""]


def floor_beaten(forgery: dict) -> str:
    """Yes, or where samples are no better than mean colours of their images or than picking by chance."""
    beside = forgery["beside"]
    better = {
        text: (value["mean"] > beside["floor"][text]["mean"]) == (metrics.get(text).leaks_when == "high")
        for text, value in beside["values"].items()
    }
    return beats_floor(better, beside["told"]["low"], forgery["chance"])


def taken(one: dict) -> list[str]:
    """For what the samples of one federation are taken."""
    forgery = one["forgery"]
    best = max(range(len(forgery["history"])), key=lambda at: forgery["history"][at]["mean"])
    return [
        called(one["plan"]["defense"]),
        f"{one['accuracy'][-1]:.1%}",
        floor_beaten(forgery),
        percent(forgery["beside"]["told"]),
        percent(forgery["history"][-1]),
        f"{forgery['history'][best]['mean']:.0%} (round {best + 1})",
    ]


def nearest(one: dict) -> str:
    """By how many metrics no class is nearer to the samples than the target."""
    ranks = [near["rank"] for near in one["forgery"]["nearness"].values()]
    return f"{ranks.count(1)} of {len(ranks)}"


def compared(one: dict) -> Iterator[list[str]]:
    """How near the samples of one federation are to images, a line for each metric."""
    beside = one["forgery"]["beside"]
    for text, near in one["forgery"]["nearness"].items():
        yield [
            called(one["plan"]["defense"]),
            metrics.get(text).label,
            number(near["target"]),
            number(near["others"]),
            f"{near['rival_name']}: {number(near['rival'])}",
            str(near["rank"]),
            number(beside["values"][text]),
            number(beside["floor"][text]),
        ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
