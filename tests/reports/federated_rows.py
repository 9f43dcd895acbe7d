"""Rows of a study of federations, as small as they can be."""

from __future__ import annotations


def interval(mean, wide=0.02, images=100):
    return {"mean": mean, "low": mean - wide, "high": mean + wide, "images": images}


def asked(auc):
    rare = {"tpr_at_fpr_0.01": interval(0.1), "tpr_at_fpr_0.001": None, "balanced_accuracy": interval(auc)}
    return {"auc": interval(auc), **rare, "roc": {"fpr": [0.0, 0.5, 1.0], "tpr": [0.0, auc, 1.0]}}


def row(defense, accuracy, auc, seed=0, **changes):
    """Two rounds, both watched; a defense of images is asked with protected ones as well."""
    queries = ("clean", "protected") if defense == "csvar" else ("clean",)
    right = {query: {"train": interval(accuracy + 0.01), "test": interval(accuracy)} for query in queries}
    return {
        "dataset": "digits",
        "model": "mlp",
        "defense": defense,
        "augment": False,
        "seed": seed,
        "parameters": 10,
        "promise": "",
        "seconds": 1.0,
        "bytes": 10,
        "curve": [accuracy / 2, accuracy],
        "accuracy": right,
        "watched": {"1": right, "2": right},
        "membership": {number: {f"loss, {query}": asked(auc) for query in queries} for number in ("1", "2")},
        **changes,
    }
