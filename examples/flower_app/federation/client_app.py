"""What every SuperNode runs: Glasshouse's client, on the data that the node was started with."""

from glasshouse.federated.deployed import client as app

__all__ = ["app"]
