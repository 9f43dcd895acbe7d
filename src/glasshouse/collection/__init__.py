"""The collection node of the CSVAR paper: protects a data set before it leaves the place where it was made."""

from glasshouse.collection.keys import new_key, read_key
from glasshouse.collection.protect import protect, unprotect

__all__ = ["new_key", "protect", "read_key", "unprotect"]
