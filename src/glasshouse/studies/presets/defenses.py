"""Every defense beside one another: what it costs in accuracy, bytes and seconds, and what leaks all the same.

Each network is trained behind the defense that it then shares gradients behind, so that accuracy, what a tuned attack
sees, who was a member and which images can be linked stand in one row.
"""

from __future__ import annotations

from glasshouse.studies.grid.plan import PROBES, Grid

IMAGES = (
    "image_noise:sigma=50",
    "pixelate:factor=4",
    "mixup",
    "instahide",
    "visual_mixer",
    "ats:policy=3-1-7",
    "csvar",
    "csvar_exchange",
)
COMPUTED = ("soteria", "dp_sgd:epsilon=8")
GRADIENTS = (
    "gaussian:sigma=0.001",
    "gaussian:sigma=0.01",
    "laplace:scale=0.01",
    "prune:percent=70",
    "prune:percent=90",
    "clip:norm=1,noise=0.01",
)
DEFENSES = ("none", *IMAGES, *COMPUTED, *GRADIENTS)
#: A defense of gradients acts while its network is trained as it does on what is shared.
RECIPES = ("none", *IMAGES, *COMPUTED, *(f"{defense},at=training" for defense in GRADIENTS))
METRICS = ("mse", "psnr", "ssim", "lpips", "semsim")


def laptop() -> Grid:
    """About three hours of one core: two small networks on colour images and on faces.

    Neither has batch norm, and both are smooth, so that undefended images are recognisable after few steps; the
    gentle rate keeps them from saturating, and few hidden units keep Soteria, which asks for the derivative of
    each, within minutes. Attacks are tuned on two public images. Where one does not fit a network it is left out:
    DLG wants no pooling, and fc_inversion a linear layer on the pixels. GradAttack wants batch norm, CAFE, R-GAP
    and imprint networks of their own.
    """
    return Grid(
        title="Defenses, laptop scale",
        datasets=("cifar10", "orl_faces:size=32"),
        models=("tanhnet:hidden=40", "mlp:activation=tanh,width=40"),
        recipes=RECIPES,
        training_images=1500,
        epochs=15,
        checkpoints=(15,),
        training_batch=16,
        lr=0.01,
        images=8,
        attacks=(
            "invgrad:steps=300,tv=0.03,lr=0.03,annealed=false",
            "unshuffle:steps=300,tv=0.03,lr=0.03,annealed=false",
            "dlg:steps=60,restarts=1",
            "fc_inversion",
            "model_inversion",
        ),
        defenses=DEFENSES,
        paired=True,
        metrics=METRICS,
        tune=True,
        practice=2,
        probes=PROBES,
    )


def paper() -> Grid:
    """For a cluster: three networks, three seeds, before and after training, two attacks."""
    return Grid(
        title="Defenses",
        datasets=("cifar10", "cifar100", "orl_faces:size=64", "caltech101:size=64"),
        models=("resnet20", "convnet8", "mobilenet_v2"),
        recipes=RECIPES,
        epochs=100,
        checkpoints=(0, 100),
        seeds=(0, 1, 2),
        images=100,
        attacks=("invgrad:steps=4000", "gradattack:steps=4000"),
        defenses=DEFENSES,
        paired=True,
        batchnorm=("eval", "train"),
        metrics=(*METRICS, "fid", "kid"),
        tune=True,
        probes=PROBES,
    )
