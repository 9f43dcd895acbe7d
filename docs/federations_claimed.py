"""What the CSVAR paper prints and claims of federations."""

from __future__ import annotations

from glasshouse.reports.federations_claims import (
    CLEAN,
    PROTECTED,
    Claim,
    accuracy,
    area,
    best_accuracy,
    worst_area,
)

LOSS = "loss"
NONE, NOISE, CSVAR = "none", "image_noise:sigma=50", "csvar"
WORDS = {NONE: "vanilla", NOISE: "noise sigma 50", CSVAR: "CSVAR"}
NETWORKS = ("resnet50", "shufflenet_v2", "mobilenet_v2")
#: Table I, in percent: vanilla, noise, CSVAR for each of the networks; its "CelebA" is the ORL faces.
TABLE_I = {
    "mnist": ((97.42, 97.09, 97.39), (96.88, 95.44, 95.67), (97.08, 96.92, 97.03)),
    "cifar10": ((84.24, 80.49, 84.17), (85.09, 82.33, 83.71), (85.18, 80.03, 84.67)),
    "orl_faces": ((89.75, 65.50, 85.25), (85.50, 77.25, 82.74), (86.75, 78.75, 82.75)),
}
CLASSES = {"mnist": 10, "cifar10": 10, "orl_faces": 40}
FIGURE_7 = {NONE: 0.70, NOISE: 0.66, CSVAR: 0.60}
ORDER = (NONE, CSVAR, NOISE)


def name(spec: str) -> str:
    """A SPEC without its settings."""
    return spec.partition(":")[0]


def claimed(dataset: str, model: str) -> bool:
    """Whether table I has the network and the data set."""
    return name(dataset) in TABLE_I and name(model) in NETWORKS


def published(dataset: str, model: str, way: str) -> float:
    """The share that table I has of a way to train."""
    return TABLE_I[name(dataset)][NETWORKS.index(name(model))][list(WORDS).index(way)] / 100


def published_cost(dataset: str, model: str, way: str) -> float:
    """What a defense costs of accuracy by table I."""
    return published(dataset, model, NONE) - published(dataset, model, way)


def claims(dataset: str, model: str) -> tuple[Claim, ...]:
    """What is claimed of a network on a data set."""
    cost = published_cost(dataset, model, CSVAR)
    return (
        Claim("accuracy vanilla >= CSVAR > noise, clean test images", ORDER, accuracy(CLEAN)),
        Claim("accuracy vanilla >= CSVAR > noise, protected test images", ORDER, accuracy(PROTECTED)),
        Claim("CSVAR costs no more accuracy than published", (CSVAR, NONE), best_accuracy, cost),
        Claim("MIA AUC vanilla > CSVAR, raw queries", (NONE, CSVAR), area(LOSS, CLEAN)),
        Claim("MIA AUC vanilla > CSVAR, stronger queries", (NONE, CSVAR), worst_area(LOSS)),
        Claim("MIA AUC noise > CSVAR, stronger queries", (NOISE, CSVAR), worst_area(LOSS)),
    )
