"""The collection node of the CSVAR paper: protects a data set before it leaves the place where it was made."""

from glasshouse.collection.keys import new_key, read_key
from glasshouse.collection.protect import protect, unprotect
from glasshouse.collection.reading import is_protected, open_protected

__all__ = ["is_protected", "new_key", "open_protected", "protect", "read_key", "unprotect"]
