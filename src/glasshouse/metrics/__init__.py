"""Metrics: how much of the truth is in the guess; one file each, one value per image, never reduced here."""

from glasshouse.metrics.base import Metric, SetMetric, metrics

create = metrics.create

__all__ = ["Metric", "SetMetric", "create", "metrics"]
