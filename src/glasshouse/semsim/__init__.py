"""SemSim: a distance between images that learns from judgements whether a reconstruction shows its original."""

from glasshouse.semsim.files import load, notes, save, shipped
from glasshouse.semsim.fit import Judged, Recipe, fit
from glasshouse.semsim.network import Embedding, Network, Perceptual

__all__ = ["Embedding", "Judged", "Network", "Perceptual", "Recipe", "fit", "load", "notes", "save", "shipped"]
