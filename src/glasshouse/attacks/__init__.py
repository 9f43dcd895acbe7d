"""Attacks: what a server, participant or eavesdropper can make of what is shared; one file each."""

from glasshouse.attacks.base import InversionAttack, attacks

create = attacks.create

__all__ = ["InversionAttack", "attacks", "create"]
