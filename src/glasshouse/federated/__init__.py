"""Federated learning on Flower: the apps, their simulation, and what the server saw of every round.

Flower is imported when a federation begins, not before.
"""

from glasshouse.federated.leaks import audit_mod
from glasshouse.federated.plan import Federation
from glasshouse.federated.run import FederationResult, federate

__all__ = ["Federation", "FederationResult", "audit_mod", "federate"]
