"""What a malicious participant learned of a class that it does not hold: docs/results/gan.md with its picture.

python docs/generate_gan.py DIR ..., with GLASSHOUSE_DATA set and each DIR from 'glasshouse federate --adversary gan';
audits each and keeps its figures as docs/results/gan-NAME.json, NAME being the directory's, then draws all of them.
Without arguments only the page is written.
"""

from __future__ import annotations

import dataclasses
import json
import sys
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
SETTINGS = FederationAudit(attacks=(), metrics=("psnr", "ssim", "lpips"))
WORDS = {"none": "no defense", "image_noise:sigma=50": "noise on images, sigma 50", "csvar": "CSVAR"}
HELD = 3  # thumbnails of the data set in every row of the picture
SHOWN = 6  # rounds in every row of the picture
INTRODUCTION = """# A malicious participant

Made by `docs/generate_gan.py` from the files beside this page. One of the clients of a federation is the
[GAN adversary](../adversaries/gan.md) of Hitaj et al. 2017: it holds no image of the target class, trains a generator
against every global model that it is sent, and labels its samples as an extra class. It is a malicious participant, not
a curious server; figure 6 of the CSVAR paper does not say which of both it shows. Honest clients train behind the
defense of the row; the adversary behind none. One run of each: intervals are over samples of one generator, which are
much alike, and say nothing about other runs.

A judge's agreement alone is no proof that something can be seen: it must name some class, and takes most of the noise
of the first round on MNIST for the target, too. Look at the pictures and at the nearest images beside it.

![Images of the class and samples](gan.png)

Images that other clients hold of the class, then one sample of the adversary after rounds from the first to the last.
MNIST: public research data; ORL faces, where shown: research use, with credit to AT&T Laboratories Cambridge. What is
drawn here and has no table below was not scored yet.
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
    """A row for each federation: images of the target, then samples of rounds from the first to the last."""
    figure = Figure(figsize=(1.0 * (HELD + SHOWN), 1.22 * len(places)), layout="constrained")
    for line, place in zip(figure.subplots(len(places), HELD + SHOWN, squeeze=False), places, strict=True):
        plan, rounds = read_result(place)
        numbers = torch.linspace(0, len(rounds) - 1, SHOWN).round().int().tolist()
        held = of_target(plan)
        made = [Findings(place).samples(one, held.shape[2])[0] for one in numbers]
        titles = [f"{plan.dataset}: held by others", *[""] * (HELD - 1), *(f"round {one + 1}" for one in numbers)]
        titles[HELD] = f"{WORDS[plan.defense]}: {titles[HELD]}"
        for axes, image, title in zip(line, [*held, *made], titles, strict=True):
            axes.imshow(image.permute(1, 2, 0), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set_title(title, fontsize=6, loc="left")
            axes.axis("off")
    figure.savefig(FOLDER / "gan.png", dpi=110, facecolor="white")


def of_target(plan: Federation) -> Tensor:
    """The first images that clients hold of the class that the adversary is after."""
    names = Host.prepare(plan, FOLDER).class_names
    held = [dealt(plan, client, names, None) for client in range(plan.clients)]
    images = [one.in_epoch(0).images[one.labels == names.index(plan.malicious.target)] for one in held]
    return torch.cat(images)[:HELD]


def page(found: list[dict]) -> str:
    """The page from the figures alone."""
    sets = sorted({one["plan"]["dataset"] for one in found})
    parts = [INTRODUCTION]
    for name in sets:
        parts += section(name, [one for one in found if one["plan"]["dataset"] == name])
    return "\n".join(parts) + "\n"


def section(name: str, found: list[dict]) -> list[str]:
    """The table of one data set, undefended first."""
    found = sorted(found, key=lambda one: list(WORDS).index(one["plan"]["defense"]))
    plan, judged = found[0]["plan"], found[0]["forgery"]
    titles = ["defense", "accuracy of the model", "beats the floor", "most like the target"]
    titles += ["samples taken for the target", "in the best round"]
    for text in judged["nearness"]:
        titles += [
            f"{text} beside an image, floor",
            f"{text} to the target",
            f"{text} to others",
            f"{text} to the nearest other",
            f"rank by {text}",
        ]
    return [
        f"## {name}\n",
        f"{plan['model']} on {plan['images'] or 'all'} training images at "
        f"{plan['size'] or 'their own'} px, {plan['clients']} clients ({plan['split']}), {plan['rounds']} rounds of "
        f"{plan['local_epochs']} local epochs, batch {plan['batch']}, learning rate {plan['lr']}; adversary "
        f"`{plan['adversary']}`.\n",
        "| " + " | ".join(titles) + " |",
        "|" + "---|" * len(titles),
        *("| " + " | ".join(cells(one)) + " |" for one in found),
        "",
        "Samples are taken for a class by a judge, a linear probe on AlexNet that never met the federation. It learned "
        f"from {judged['taught']} test images and is right on {percent(judged['accuracy'])} of the clients' images, on "
        f"{percent(judged['accuracy_target'])} of those of the target; chance is {judged['chance']:.1%}. The nearest "
        f"of {judged['images_per_class']} images of each of {judged['classes']} classes is looked for; rank 1 means "
        "that no class is nearer than the target. For the floor, each sample is given one of the target's images of "
        "its own, by the least squared error of all; the floor is that image's own mean colour. A sample is most like "
        "the target where, of as many images of every class, the one that correlates most with it shows the target. "
        "It beats the floor where the means are better in LPIPS, or in SSIM and PSNR, and samples are most like the "
        "target at five times chance, even at the lower end of the interval.\n",
    ]


def floor_beaten(forgery: dict) -> str:
    """Yes, or where samples are no better than mean colours of their images or than picking by chance."""
    beside = forgery["beside"]
    better = {
        text: (value["mean"] > beside["floor"][text]["mean"]) == (metrics.get(text).leaks_when == "high")
        for text, value in beside["values"].items()
    }
    return beats_floor(better, beside["told"]["low"], forgery["chance"])


def cells(one: dict) -> list[str]:
    """One row."""
    forgery, beside = one["forgery"], one["forgery"]["beside"]
    best = max(range(len(forgery["history"])), key=lambda at: forgery["history"][at]["mean"])
    words = [
        WORDS[one["plan"]["defense"]],
        f"{one['accuracy'][-1]:.1%}",
        floor_beaten(forgery),
        percent(beside["told"]),
        percent(forgery["history"][-1]),
        f"{forgery['history'][best]['mean']:.0%} (round {best + 1})",
    ]
    for text, near in forgery["nearness"].items():
        words.append(f"{number(beside['values'][text])}, {number(beside['floor'][text])}")
        words += [number(near["target"]), number(near["others"])]
        words += [f"{near['rival_name']}: {number(near['rival'])}", str(near["rank"])]
    return words


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
