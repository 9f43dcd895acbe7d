"""Data sets: images with labels, read one at a time; one file each."""

from glasshouse.data.base import Dataset, ImageSet, data_root, datasets
from glasshouse.data.loading import load

__all__ = ["Dataset", "ImageSet", "data_root", "datasets", "load"]
