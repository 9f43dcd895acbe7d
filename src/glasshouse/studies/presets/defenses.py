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
CONVOLUTIONS = "tanhnet:hidden=40"
LINEAR = "mlp:activation=tanh,width=40"
BATCH_NORM = "tanhnet_bn:hidden=40"
SOLVABLE = "rgapnet"
PREPARED = "imprinted:skip=true,bins=64"
CUT = "vertical:units=40"
#: Every attack on what one client shares, on each network that it is made for.
ATTACKS = (
    *(f"{network} | invgrad:steps=300,tv=0.03,lr=0.03,annealed=false" for network in (CONVOLUTIONS, LINEAR)),
    *(f"{network} | unshuffle:steps=300,tv=0.03,lr=0.03,annealed=false" for network in (CONVOLUTIONS, LINEAR)),
    *(f"{network} | model_inversion" for network in (CONVOLUTIONS, LINEAR)),
    *(f"{network} | learned:images=2000" for network in (CONVOLUTIONS, LINEAR)),
    f"{LINEAR} | dlg:steps=60,restarts=1",
    f"{LINEAR} | idlg:steps=60,restarts=1",
    f"{LINEAR} | fc_inversion",
    f"{BATCH_NORM} | gradattack:steps=300,preset=own,tv=0.03,lr=0.1",
    f"{SOLVABLE} | rgap",
    f"{PREPARED} | imprint",
    f"{CUT} | cafe:rounds=1,steps=600,features=1",
)


def laptop() -> Grid:
    """Six small networks, on colour images and on faces: hours, which a dry run estimates.

    Without batch norm and with smooth activations, undefended images are recognisable after few steps; the gentle
    rate keeps networks from saturating, and few hidden units keep Soteria, which asks for the derivative of each,
    within minutes. Where there are many it is left out: one such network on colour images takes 9 hours of one core
    (R-GAP's, 3,200 units) or 1.3 (the prepared one, 768 units), by the time of one step. Attacks that have something
    to tune are tuned on two images of the data set that nobody attacks and no network was trained on; CAFE's weight of
    features was chosen on four public ones, undefended.
    """
    return Grid(
        title="Defenses, laptop scale",
        datasets=("cifar10", "orl_faces:size=32"),
        models=(CONVOLUTIONS, LINEAR, BATCH_NORM, SOLVABLE, PREPARED, CUT),
        recipes=RECIPES,
        without=tuple(f"{network} | soteria" for network in (SOLVABLE, PREPARED)),
        training_images=1500,
        epochs=15,
        checkpoints=(15,),
        training_batch=16,
        lr=0.01,
        images=8,
        attacks=ATTACKS,
        defenses=DEFENSES,
        paired=True,
        metrics=METRICS,
        public="cifar100:split=train",
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
