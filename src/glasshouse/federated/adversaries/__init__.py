"""Clients of a simulated federation who do not play fair; one file each."""

from glasshouse.federated.adversaries.base import Adversary, adversaries

create = adversaries.create

__all__ = ["Adversary", "adversaries", "create"]
