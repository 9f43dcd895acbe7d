"""InvGrad's settings side by side: attack public images, keep the scores, write docs/results/invgrad.md from them.

python docs/generate_invgrad.py NETWORK ... measures what is missing for these networks (SPECs of ``ATTACKS``) and needs
cifar10 under GLASSHOUSE_DATA; without arguments only the page is written. The images are of the training part, which
no other page attacks, so defaults that are chosen here were not chosen on what results are shown of.
"""

from __future__ import annotations

import json
import sys
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
SETTINGS = [f"steps=300,tv={tv},annealed={annealed}" for tv in ("0.0001", "0.01") for annealed in ("yes", "no")]
ATTACKS = {
    "lenet": [
        *SETTINGS,
        *(f"preset=paper,steps={steps},tv=0.01" for steps in (300, 1000)),
        "steps=300,tv=0.01,annealed=no,sign=no,lr=0.2",
    ],
    "convnet8:width=8": SETTINGS,
    "resnet20": [*SETTINGS, "preset=paper,steps=300,tv=0.0001", "steps=300,tv=0.0001,annealed=no,sign=no,lr=0.2"],
}


def measure(networks: list[str]) -> None:
    """Attack with every setting that is not in the file yet, and keep each as soon as it is scored."""
    torch.set_num_threads(1)
    found = data.load("cifar10", split="train")
    truth, labels = found.batch(found.spread(IMAGES, SEED))
    kept = json.loads(FILE.read_text()) if FILE.exists() else {"floor": scores(truth, mean_colors(truth)), "rows": []}
    done = {(row["network"], row["attack"]) for row in kept["rows"]}
    todo = [(network, f"invgrad:{text}") for network in networks for text in ATTACKS[network]]
    for network, attack in todo:
        if (network, attack) in done:
            continue
        guesses, objective = attacked(models.create(network, found.spec), attack, truth, labels, found.spec)
        row = {"network": network, "attack": attack, "objective": objective, **scores(truth, guesses)}
        kept["rows"].append(row)
        FILE.write_text(json.dumps(kept, indent=1) + "\n")


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
    order = {(network, f"invgrad:{text}"): None for network, texts in ATTACKS.items() for text in texts}
    rows = {(row["network"], row["attack"]): row for row in kept["rows"]}
    for key in order:
        if key in rows:
            words = [key[0], f"`{key[1]}`", short(rows[key]["objective"]), *cells(rows[key])]
            parts.append("| " + " | ".join(words) + " |")
    parts.append("| floor: mean colour | | | " + " | ".join(cells(kept["floor"])) + " |")
    return "\n".join([*parts, "", *gains(rows)]) + "\n"


def cells(row: dict) -> list[str]:
    """Every metric with its interval."""
    return [f"{short(row[n]['mean'])} ({short(row[n]['low'])} to {short(row[n]['high'])})" for n in METRICS]


def gains(rows: dict) -> list[str]:
    """What a constant weight of total variation gains over one that is annealed, over all networks."""
    parts = []
    for annealed, constant in zip(SETTINGS[::2], SETTINGS[1::2], strict=True):
        pairs = [
            [rows[network, f"invgrad:{text}"] for text in (annealed, constant)]
            for network in ATTACKS
            if (network, f"invgrad:{constant}") in rows
        ]
        changes = [sum(two[name]["mean"] - one[name]["mean"] for one, two in pairs) / len(pairs) for name in METRICS]
        text = ", ".join(f"{label} {change:+.3f}" for label, change in zip(METRICS.values(), changes, strict=True))
        parts.append(f"- `{constant}` beside `{annealed}`, mean over {len(pairs)} networks: {text}.")
    return parts


def main(networks: list[str]) -> None:
    """Measure what is asked for, then write the page."""
    if networks:
        measure(networks)
    (FOLDER / "invgrad.md").write_text(page(json.loads(FILE.read_text())), encoding="utf-8")


main(sys.argv[1:])
