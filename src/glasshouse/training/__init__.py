"""Training: fit a classifier as the papers did."""

from glasshouse.training.fit import Recipe, accuracy, fit

__all__ = ["Recipe", "accuracy", "fit"]
