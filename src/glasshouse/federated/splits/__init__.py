"""How a data set is dealt out to the clients of a simulation; one file each."""

from glasshouse.federated.splits.base import Split, splits

create = splits.create

__all__ = ["Split", "create", "splits"]
