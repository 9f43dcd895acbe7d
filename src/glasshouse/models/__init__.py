"""Classifiers that take images in [0, 1] and normalize them themselves; one file each."""

from glasshouse.models.base import Architecture, Classifier, create, models, normalization

__all__ = ["Architecture", "Classifier", "create", "models", "normalization"]
