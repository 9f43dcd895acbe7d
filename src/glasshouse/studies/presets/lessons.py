"""What the shipped SemSim learns from: many originals, each seen through attacks of several strengths and defenses."""

from __future__ import annotations

from dataclasses import replace

from glasshouse.studies.grid.plan import Grid

#: Training parts: originals of these never appear in the study by which SemSim is judged. Ten classes each, because
#: the gradients of a small fresh network of more classes show little; of the few faces half must be left to train on.
DATASETS = (
    "cifar10:split=train",
    "cifar100:split=train,classes=10",
    "caltech101:split=train,size=32,classes=10",
    "imagenette:split=train,size=32",
    "orl_faces:split=train,size=32,channels=3,classes=20",
    "stanford_dogs:split=train,size=32,classes=10",
)
ATTACKS = tuple(f"invgrad:steps={steps},tv=0.1" for steps in (25, 75, 200))
DEFENSES = ("none", "gaussian:sigma=0.01", "prune:percent=90", "csvar")


def laptop() -> Grid:
    """Eighty originals of each data set behind a fresh LeNet: minutes for each."""
    return _lessons(80, ("lenet",))


def paper() -> Grid:
    """Four hundred originals of the larger data sets behind three networks: about what two thousand originals need."""
    large = ("cifar10", "cifar100", "imagenette")
    return replace(
        _lessons(400, ("lenet", "convnet8:width=8", "resnet20")),
        datasets=tuple(name for name in DATASETS if name.startswith(large)),
    )


def _lessons(images: int, models: tuple[str, ...]) -> Grid:
    return Grid(
        title="Lessons for SemSim",
        datasets=DATASETS,
        models=models,
        training_images=64,
        epochs=1,
        checkpoints=(0,),
        images=images,
        attacks=ATTACKS,
        defenses=DEFENSES,
        metrics=("psnr", "ssim", "lpips:net=vgg"),
    )
