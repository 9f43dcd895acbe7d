"""What the shipped SemSim learns from: many originals, each seen through attacks of several strengths and defenses."""

from __future__ import annotations

from glasshouse.studies.grid.plan import Grid

#: Training parts: originals of these never appear in the study by which SemSim is judged.
DATASETS = (
    "cifar100:split=train",
    "caltech101:split=train,size=32",
    "imagenette:split=train,size=32",
    "orl_faces:split=train,size=32,channels=3",
    "stanford_dogs:split=train,size=32,classes=20",
)
ATTACKS = tuple(f"invgrad:steps={steps},tv={tv},annealed=no" for steps, tv in ((20, 0.01), (60, 0.01), (200, 0.003)))
DEFENSES = ("none", "gaussian:sigma=0.01", "prune:percent=90", "csvar")


def laptop() -> Grid:
    """A hundred originals of each data set behind a fresh LeNet: minutes for each."""
    return _lessons(100, ("lenet",))


def paper() -> Grid:
    """Four hundred originals of each data set behind three networks: about what two thousand originals need."""
    return _lessons(400, ("lenet", "convnet8:width=8", "resnet20"))


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
