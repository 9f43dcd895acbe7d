"""The store: results and votes of one study in SQLite or PostgreSQL, with numbered migrations."""

from glasshouse.store.album import FOLDER, Album, Carried, Pictures
from glasshouse.store.ballots import DEGRADED, Annotator, Confidence, Item, Kind, Overview, Progress, Role, Rules, Vote
from glasshouse.store.database import DATABASE_FILE, Database
from glasshouse.store.location import STORAGE_FILE, Location
from glasshouse.store.mending import mend
from glasshouse.store.store import CaseRecord, ImageRecord, ReconstructionRecord, Score, Store
from glasshouse.store.votes import Votes

__all__ = [
    "DATABASE_FILE",
    "DEGRADED",
    "FOLDER",
    "STORAGE_FILE",
    "Album",
    "Annotator",
    "Carried",
    "CaseRecord",
    "Confidence",
    "Database",
    "ImageRecord",
    "Item",
    "Kind",
    "Location",
    "Overview",
    "Pictures",
    "Progress",
    "ReconstructionRecord",
    "Role",
    "Rules",
    "Score",
    "Store",
    "Vote",
    "Votes",
    "mend",
]
