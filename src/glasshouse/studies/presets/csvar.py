"""The CSVAR paper's evaluation: accuracy (table I) and membership (figures 1 and 7) of federations behind defenses.

What the paper leaves open is chosen here and printed with the results: clients, rounds, split, optimiser, resolution,
and that test images are asked clean and protected. Rate, batch and stems of the laptop scale were chosen in a pilot by
how well undefended federations learned, on the same test images: they favour no defense over another, but may favour
training without one.
"""

from __future__ import annotations

from glasshouse.studies.federations.plan import Federations

FACES = "orl_faces:size=64"
COLOURS = "cifar10:size=64"
LARGE = ("mnist:size=64", COLOURS)  # a round on a thousand of these takes three times as many steps as one on faces
DIGITS = "mnist:size=32"
PRINTED = ("none", "image_noise:sigma=50", "csvar")  # what table I has
DEFENSES = (*PRINTED, "csvar_exchange", "pixelate:factor=4")
LIGHT = ("shufflenet_v2", "mobilenet_v2")
PUBLISHED = tuple(f"{name}:stem=imagenet" for name in LIGHT)  # for 64 px; a small stem takes two to four times as long
RESNET = "resnet50:stem=imagenet"
SMALL = "tanhnet:hidden=40"  # for shadow models: each costs as much as the federation that they are shadows of
PRIVATE = "tanhnet:hidden=50"  # beside DP-SGD, which batch norm is no good for; LeNet hardly learns in so few rounds
#: Does it take a shuffle to hide members, or would clients that shift and mirror images do.
CONTROL = f"{FACES} | {PUBLISHED[0]} | none | augment"
SHADOW_ATTACKS = ("lira:shadows=16", "rmia:shadows=16", "shokri:shadows=16")
SHADOWED = tuple(f"cifar10 | {SMALL} | {defense} | shadows" for defense in ("none", "csvar"))


def laptop() -> Federations:
    """Trimmed images and rounds; the light networks with three seeds, ResNet50 and the small network with one."""
    return Federations(
        title="CSVAR, laptop scale",
        datasets=(FACES,),
        models=PUBLISHED,
        defenses=DEFENSES,
        extra=(
            *(f"{LARGE[0]} | {model} | {defense}" for model in PUBLISHED for defense in DEFENSES),
            *(f"{COLOURS} | {PUBLISHED[0]} | {defense}" for defense in DEFENSES),  # learned better: csvar_pretrained
            *(f"{FACES} | {RESNET} | {defense}" for defense in DEFENSES),
            f"{DIGITS} | {PRIVATE} | none",
            CONTROL,
            *SHADOWED,
        ),
        single=(RESNET, SMALL),
        brief=LARGE,
        seeds=(0, 1, 2),
        clients=4,
        rounds=20,
        local_epochs=2,
        batch=8,
        lr=0.05,
        momentum=0.9,
        images=1000,
        test_images=1000,
        shadow_membership=SHADOW_ATTACKS,
        watched=(4, 8, 12, 16),
    )


def paper() -> Federations:
    """All images at their own size and the three networks of table I, with the control and shadow models of figure 7.

    For a cluster. DP-SGD, which wants other networks and batches, is ``csvar_dp``; the GAN of figure 6 takes part in
    'glasshouse federate --adversary', and what shuffled images show (figure 5) is 'glasshouse compare'.
    """
    return Federations(
        title="CSVAR, all images",
        datasets=("mnist", "cifar10", "orl_faces"),
        models=("resnet50", *LIGHT),
        defenses=DEFENSES,
        extra=(
            *(f"{name} | {LIGHT[0]} | none | augment" for name in ("mnist", "cifar10", "orl_faces")),
            *(f"cifar10 | {LIGHT[0]} | {defense} | shadows" for defense in PRINTED),
        ),
        seeds=(0, 1, 2),
        clients=10,
        rounds=100,
        local_epochs=1,
        batch=32,
        lr=0.05,
        momentum=0.9,
        shadow_membership=SHADOW_ATTACKS,
        watched=(10, 25, 50, 75),
    )
