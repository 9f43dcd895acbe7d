"""Simulate a federation with an adversary who runs the GAN attack on faces, score its samples, and draw them.

python docs/generate_gan.py [ROUNDS]; needs orl_faces under GLASSHOUSE_DATA. Writes docs/results/attacks-gan.json and
docs/pictures/attack-gan.png.
"""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import data, models
from glasshouse.attacks.gan import GANAttack, with_fake_class
from glasshouse.functional.intervals import mean_interval, share_interval
from glasshouse.metrics import create as metric
from glasshouse.studies.scoring import mean_colors
from glasshouse.training import Samples

FOLDER = Path(__file__).parent
MODEL, SIZE, SEED, SAMPLES = "mlp:width=256", 32, 0, 100
ATTACK = GANAttack(target=6, fakes=8, epochs=2, steps=50)


def main(rounds: int) -> None:
    """Play the rounds, then score and draw what the adversary made."""
    torch.set_num_threads(1)
    faces = data.load("orl_faces", size=SIZE, split="train")
    images, labels = faces.batch(range(len(faces)))
    mine = labels % 2 != ATTACK.target % 2
    rng = torch.Generator().manual_seed(SEED)
    spec = with_fake_class(faces.spec)
    shared = models.create(MODEL, spec, seed=SEED)
    adversary = ATTACK.join(spec, rng=rng)
    for _ in range(rounds):
        upload = adversary.take_part(shared, Samples(images[mine], labels[mine]), rng=rng)
        shared.load_state_dict(averaged(upload, honest(shared, images[~mine], labels[~mine], rng)))
    samples = adversary.samples(SAMPLES, rng=rng)
    judge = LogisticRegression(max_iter=500).fit(images.flatten(1).numpy(), labels.numpy())
    right = int((judge.predict(samples.flatten(1).numpy()) == ATTACK.target).sum())
    found = {
        "title": f"GAN attack on ORL faces at {SIZE} px: two participants, {rounds} rounds, {MODEL}",
        "attack": f"gan:target={ATTACK.target},fakes={ATTACK.fakes},epochs={ATTACK.epochs},steps={ATTACK.steps}",
        "adversary": ATTACK.adversary,
        "dataset": "orl_faces",
        "terms": faces.terms,
        "model": MODEL,
        "rounds": rounds,
        "chance": 1 / faces.spec.classes,
        "judged": asdict(share_interval(right, SAMPLES)),
        **nearest(samples, images, labels),
    }
    (FOLDER / "results" / "attacks-gan.json").write_text(json.dumps(found, indent=1) + "\n")
    draw(images[labels == ATTACK.target][:6], samples[:6])


def honest(model: nn.Module, images: Tensor, labels: Tensor, rng: torch.Generator) -> nn.Module:
    """The local training of a participant who plays fair."""
    local = copy.deepcopy(model)
    optimizer = torch.optim.SGD(local.parameters(), lr=ATTACK.local_lr)
    for _ in range(ATTACK.epochs):
        for chosen in torch.randperm(len(images), generator=rng).split(ATTACK.batch):
            optimizer.zero_grad()
            F.cross_entropy(local(images[chosen]), labels[chosen]).backward()
            optimizer.step()
    return local


def averaged(first: nn.Module, second: nn.Module) -> dict[str, Tensor]:
    """The mean of two participants' weights, as the server makes it."""
    other = second.state_dict()
    return {name: (value + other[name]) / 2 for name, value in first.state_dict().items()}


def nearest(samples: Tensor, images: Tensor, labels: Tensor) -> dict[str, dict[str, object]]:
    """Of each sample the nearest image of the target, and of all other people, beside the floor."""
    found = {}
    target = labels == ATTACK.target
    for name, best in (("ssim", torch.amax), ("lpips", torch.amin)):
        measure = metric(name)
        groups = {"target": images[target], "others": images[~target], "floor": mean_colors(images[target])}
        found[name] = {
            group: asdict(mean_interval(best(pairwise(measure, samples[:20], members), 1).tolist()))
            for group, members in groups.items()
        }
    return found


def pairwise(measure, samples: Tensor, members: Tensor) -> Tensor:
    """A metric of every sample with every member: (samples, members)."""
    return torch.stack([measure(members, sample.expand_as(members)) for sample in samples])


def draw(truth: Tensor, samples: Tensor) -> None:
    """Images of the person above, the adversary's samples below."""
    figure = Figure(figsize=(1.3 * len(truth), 3.1), layout="constrained")
    axes = figure.subplots(2, len(truth))
    for line, row, title in zip(axes, (truth, samples), ("private images", "samples of the adversary"), strict=True):
        for place, image in zip(line, row, strict=True):
            place.imshow(image[0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            place.axis("off")
        line[0].set_title(title, fontsize=9, loc="left")
    figure.savefig(FOLDER / "pictures" / "attack-gan.png", dpi=100, facecolor="white")


main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
