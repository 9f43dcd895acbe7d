"""The store: cases, reconstructions and scores of one study in SQLite, with numbered migrations."""

from glasshouse.store.store import CaseRecord, ImageRecord, ReconstructionRecord, Score, Store

__all__ = ["CaseRecord", "ImageRecord", "ReconstructionRecord", "Score", "Store"]
