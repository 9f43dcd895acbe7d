"""Defenses: what a client does to its images, its training or its gradients before it shares them."""

from glasshouse.defenses.base import Chain, DefendedClient, Defense, create, defenses

__all__ = ["Chain", "DefendedClient", "Defense", "create", "defenses"]
