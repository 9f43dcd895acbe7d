"""InvGrad's settings side by side: attack public images, keep the scores, write docs/results/invgrad.md from them.

python docs/generate_invgrad.py NETWORK ... measures what is missing for these networks (of ``NETWORKS``) and needs
cifar10 under GLASSHOUSE_DATA; without arguments only the page is written. The images are of the training part, which
no other page attacks, so defaults that are chosen here were not chosen on what results are shown of.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from glasshouse import data, models
from glasshouse.attacks import attacks
from glasshouse.defenses import create as create_defense
from glasshouse.functional.intervals import mean_interval
from glasshouse.metrics import create as create_metric
from glasshouse.reports.view import short
from glasshouse.studies.scoring import mean_colors
from glasshouse.studies.victim import share

FOLDER = Path(__file__).parent / "results"
FILE = FOLDER / "invgrad.json"
IMAGES, SEED = 8, 7
METRICS = {"psnr": "PSNR (dB)", "ssim": "SSIM", "lpips": "LPIPS"}
TRIED = ("0.0001", "0.01")  # the attack's own total variation, and that of an audit
NETWORKS = {"lenet": TRIED, "convnet8:width=8": TRIED[:1], "resnet20": TRIED[:1]}


def settings(tv: str) -> list[str]:
    """Annealed total variation and constant, at the attack's own schedule; and the published one."""
    return [f"invgrad:steps=300,tv={tv},{text}" for text in ("annealed=yes", "annealed=no", "preset=paper")]


def measure(networks: list[str]) -> None:
    """Attack with every setting that is not in the file yet, and keep each as soon as it is scored."""
    torch.set_num_threads(1)
    found = data.load("cifar10", split="train")
    truth, labels = found.batch(found.spread(IMAGES, SEED))
    kept = json.loads(FILE.read_text()) if FILE.exists() else {"floor": scores(truth, mean_colors(truth)), "rows": []}
    done = {(row["network"], row["attack"]) for row in kept["rows"]}
    for network, attack in planned(networks):
        if (network, attack) in done:
            continue
        guesses, objective = attacked(models.create(network, found.spec), attack, truth, labels, found.spec)
        row = {"network": network, "attack": attack, "objective": objective, **scores(truth, guesses)}
        kept["rows"].append(row)
        FILE.write_text(json.dumps(kept, indent=1) + "\n")


def planned(networks: Iterable[str]) -> list[tuple[str, str]]:
    """Networks, and what each is attacked with."""
    return [(network, attack) for network in networks for tv in NETWORKS[network] for attack in settings(tv)]


def attacked(model, attack: str, truth: Tensor, labels: Tensor, spec) -> tuple[Tensor, float]:
    """What the attack makes of the gradient of each image, as it would be stored, and its mean objective."""
    seen = [
        share(
            model, image[None], label[None], create_defense("none"), image=spec, batchnorm="eval", give_labels=False,
            rng=torch.Generator().manual_seed(SEED),
        ).seen
        for image, label in zip(truth, labels, strict=True)
    ]  # fmt: skip
    starts = [torch.Generator().manual_seed(number) for number in range(len(seen))]
    found = attacks.create(attack).attack_all(model, seen, rngs=starts)
    guesses = torch.cat([one.images for one in found])
    return (guesses * 255).round() / 255, sum(one.objective for one in found) / len(found)


def scores(truth: Tensor, guesses: Tensor) -> dict[str, dict[str, float]]:
    """Means and intervals over the images."""
    return {name: asdict(mean_interval(create_metric(name)(truth, guesses).tolist())) for name in METRICS}


def page(kept: dict) -> str:
    """The page from the file alone."""
    parts = [
        "# InvGrad's settings\n\nMade by `docs/generate_invgrad.py` from invgrad.json beside this page: "
        f"{IMAGES} CIFAR-10 training images, one behind each gradient, fresh weights, batch norm in eval mode, labels "
        "read off the gradient, one seed. Means with 95 % intervals over images; the floor is each image's mean "
        "colour. Objectives compare only at equal `tv`.\n",
        "| network | attack | objective | " + " | ".join(METRICS.values()) + " |",
        "|" + "---|" * (3 + len(METRICS)),
    ]
    rows = {(row["network"], row["attack"]): row for row in kept["rows"]}
    for network, attack in planned(NETWORKS):
        if row := rows.get((network, attack)):
            parts.append("| " + " | ".join([network, f"`{attack}`", short(row["objective"]), *cells(row)]) + " |")
    parts.append("| floor: mean colour | | | " + " | ".join(cells(kept["floor"])) + " |")
    return "\n".join([*parts, "", *gains(rows)]) + "\n"


def cells(row: dict) -> list[str]:
    """Every metric with its interval."""
    return [f"{short(row[n]['mean'])} ({short(row[n]['low'])} to {short(row[n]['high'])})" for n in METRICS]


def gains(rows: dict) -> list[str]:
    """What a constant weight of total variation, and the published loop, change beside an annealed weight."""
    parts = []
    for tv in TRIED:
        annealed, *others = settings(tv)
        for other in others:
            pairs = [[rows[name, one] for one in (annealed, other)] for name in NETWORKS if (name, other) in rows]
            means = [sum(two[one]["mean"] - first[one]["mean"] for first, two in pairs) / len(pairs) for one in METRICS]
            text = ", ".join(f"{label} {mean:+.3f}" for label, mean in zip(METRICS.values(), means, strict=True))
            names = ", ".join(name for name in NETWORKS if (name, other) in rows)
            parts.append(f"- `{other}` beside `{annealed}`, mean over {names}: {text}.")
    return parts


def main(networks: list[str]) -> None:
    """Measure what is asked for, then write the page."""
    if networks:
        measure(networks)
    (FOLDER / "invgrad.md").write_text(page(json.loads(FILE.read_text())), encoding="utf-8")


main(sys.argv[1:])
