"""Training: fit a classifier as the papers did."""

from glasshouse.training.client import Client, Computed, Gradients, Samples, plain_gradients
from glasshouse.training.fit import Recipe, accuracy, fit

__all__ = ["Client", "Computed", "Gradients", "Recipe", "Samples", "accuracy", "fit", "plain_gradients"]
