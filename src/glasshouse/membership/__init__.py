"""Membership attacks: was this image among those that a model was trained on; one file each."""

from glasshouse.membership.base import MembershipAttack, Public, ShadowAttack, membership
from glasshouse.membership.queries import Protected, views
from glasshouse.membership.shadows import Bank, Shadows, Trainer

create = membership.create

__all__ = [
    "Bank",
    "MembershipAttack",
    "Protected",
    "Public",
    "ShadowAttack",
    "Shadows",
    "Trainer",
    "create",
    "membership",
    "views",
]
