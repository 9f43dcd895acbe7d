"""Audit a model of your own: python examples/own_model.py, or
glasshouse audit --model examples/own_model.py:make_model --data photos."""

import torch
from torch import nn

import glasshouse as gh


def make_model() -> nn.Module:
    """A small network that takes images in [0, 1] of 3x32x32 and returns ten logits."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 12, 5, stride=2, padding=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, stride=2, padding=2),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(768, 10),
    )


if __name__ == "__main__":
    images, labels = gh.data.load("photos").batch([0, 1])
    result = gh.audit(
        make_model(),
        images,
        labels,
        attacks=["invgrad:steps=60,tv=0.001"],
        defenses=["none", "prune:percent=90"],
        metrics=["psnr", "ssim"],
    )
    for row in result.rows:
        print(row.setup.defense, row.metric, f"{row.value.mean:.2f} [{row.value.low:.2f}, {row.value.high:.2f}]")
    print("report:", gh.write_report(result))
