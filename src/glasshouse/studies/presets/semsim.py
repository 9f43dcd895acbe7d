"""The study behind SemSim: how well metrics rank models by what judges recognise (SemSim paper, tables 1 and 2)."""

from __future__ import annotations

from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.learned import LEARNED

#: Seven ways to train, as the authors' code has them; noise and pruning act while training only.
RECIPES = (
    "none",
    "crop",
    "ats:policy=3-1-7",
    "ats:policy=43-18-18",
    "ats:policy=3-1-7+43-18-18",
    "crop/prune:percent=70,at=training",
    "crop/gaussian:sigma=0.001,at=training",
)
METRICS = ("mse", "psnr", "ssim", "lpips", "fid", "kid")


def laptop() -> Grid:
    """32 px, small networks; three checkpoints of fourteen models, each trained twice, on each of five data sets.

    Only networks that have learned are attacked, so that of 84 checkpoints about sixty count. Imagenette and dogs want
    twice as many epochs.

    Learning rate, epochs and attack were chosen by looking at reconstructions of a few images, so that some can be
    recognised and some cannot, and by accuracies. High rates leave little to see; Adam on derivatives instead of their
    signs shows shapes where signs leave noise, and steps that shrink turned stripes into faces; of Caltech-101 400 of
    them showed nearly as much as 800, of CIFAR-100 200 are enough. Of Caltech-101 and of faces the first checkpoints
    show more than later ones, of CIFAR-100 less; which networks have learned differs, too: look at the accuracies
    before attacking. Dogs keep all breeds: of twenty there would be two hundred images to learn from. Faces stay grey:
    in colour an attacker has three times as much to guess.
    """
    return Grid(
        title="SemSim, laptop scale",
        datasets=(
            "cifar100",
            "caltech101:size=32",
            "imagenette:size=32",
            "orl_faces:size=32",
            "stanford_dogs:size=32",
        ),
        models=("resnet20", "convnet8:width=8"),
        recipes=RECIPES,
        training_images=2000,
        epochs=15,
        checkpoints=(6, 10, 15),
        learned=LEARNED,
        lr=0.01,
        training_batch=32,
        seeds=(0, 1),
        images=24,
        attacks=("invgrad:steps=400,tv=0.02,annealed=true,sign=false,lr=0.2",),
        metrics=METRICS,
    )


def paper() -> Grid:
    """The published protocol, for a cluster: CIFAR-100 at 32 px with its two networks, 8,000 steps of InvGrad.

    The other data sets have networks and sizes of their own: change ``datasets`` and ``models`` to
    caltech101:size=64 or celeba:size=64 with resnet20 and densenet121 (100 epochs), imagenette:size=112 or
    stanford_dogs:size=64 with resnet50 and resnet152 (100 epochs).
    """
    return Grid(
        title="SemSim, as published",
        datasets=("cifar100",),
        models=("resnet20:width=64", "convnet8:width=64"),
        recipes=RECIPES,
        epochs=200,
        checkpoints=(200,),
        images=600,
        attacks=("invgrad:preset=paper,steps=8000,tv=0.0001",),
        metrics=METRICS,
    )
