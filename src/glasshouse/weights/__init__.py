"""Published weights: where they come from, how they are checked, and the cache that keeps them."""

from glasshouse.weights.cache import cache_dir, install, load, where
from glasshouse.weights.catalog import CATALOG

__all__ = ["CATALOG", "cache_dir", "install", "load", "where"]
