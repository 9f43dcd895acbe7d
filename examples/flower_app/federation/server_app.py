"""What the SuperLink runs: Glasshouse's server."""

from glasshouse.federated.deployed import server as app

__all__ = ["app"]
