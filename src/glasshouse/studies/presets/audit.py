"""A first look: what can be seen through fresh and trained networks, with and without simple defenses."""

from __future__ import annotations

from glasshouse.studies.grid.plan import Grid


def laptop() -> Grid:
    """Minutes: small networks on the embedded digits."""
    return Grid(
        title="A first look",
        datasets=("digits",),
        models=("lenet", "resnet20:width=8"),
        epochs=8,
        checkpoints=(0, 8),
        images=8,
        attacks=("invgrad:steps=400,tv=0.01",),
        defenses=("none", "gaussian:sigma=0.01", "prune:percent=90"),
    )


def paper() -> Grid:
    """Days: the networks and counts that gradient inversion is usually judged by."""
    return Grid(
        title="A first look, at full size",
        datasets=("cifar10", "cifar100"),
        models=("lenet", "convnet8", "resnet20", "resnet18"),
        recipes=("none", "crop"),
        epochs=60,
        checkpoints=(0, 60),
        seeds=(0, 1, 2),
        images=100,
        attacks=("invgrad", "gradattack"),
        defenses=("none", "gaussian:sigma=0.001", "gaussian:sigma=0.01", "prune:percent=70", "prune:percent=90"),
        metrics=("mse", "psnr", "ssim", "lpips", "fid", "kid"),
        tune=True,
    )
