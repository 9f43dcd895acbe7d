"""Two folders of pictures, originals and what was made of them, scored pair by pair."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from glasshouse import checks
from glasshouse.data.images import SUFFIXES, read_image
from glasshouse.errors import DataError
from glasshouse.metrics.semsim import SemSim
from glasshouse.studies.pictures import to_tensor
from glasshouse.types import JSON

NAMED = 5  # so many missing files are named


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair by the name of its files: its SemSim, and how likely a judge recognises the original."""

    name: str
    semsim: float
    probability: float

    def to_json(self) -> JSON:
        """As plain JSON."""
        return asdict(self)


def score_folders(truth: Path, guess: Path, file: Path | None = None) -> list[Pair]:
    """Score all pairs of pictures of one name; folders that do not match are refused with what is missing."""
    names, others = _pictures(truth), _pictures(guess)
    for folder, lacking in ((guess, names - others), (truth, others - names)):
        if lacking:
            shown = ", ".join(sorted(lacking)[:NAMED]) + (" ..." if len(lacking) > NAMED else "")
            raise DataError(
                f"{folder} lacks {len(lacking)} of {len(names | others)} pictures ({shown}): "
                "give each original a reconstruction of the same file name."
            )
    metric = SemSim(file=None if file is None else str(file))
    return [_pair(metric, truth, guess, name) for name in sorted(names)]


def _pair(metric: SemSim, truth: Path, guess: Path, name: str) -> Pair:
    original, made = (to_tensor(read_image(folder / name))[None] for folder in (truth, guess))
    if original.shape[-2:] != made.shape[-2:]:
        sizes = " and ".join(f"{image.shape[-1]}x{image.shape[-2]}" for image in (original, made))
        raise DataError(f"{name} has {sizes} pixels in {truth} and {guess}: resize one to the other first.")
    channels = max(original.shape[1], made.shape[1])  # a grey picture of a coloured one, or the other way round
    original, made = (image.expand(-1, channels, -1, -1) for image in (original, made))
    distance = metric(original, made)
    return Pair(name, float(distance), float(metric.network.probabilities(distance)))


def _pictures(folder: Path) -> set[str]:
    """The names of the pictures in a folder."""
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}: give a folder of pictures.")
    found = {path.name for path in folder.iterdir() if path.is_file() and path.suffix.lower() in SUFFIXES}
    if not found:
        raise DataError(f"{folder} holds no pictures: give a folder of {', '.join(sorted(SUFFIXES))}.")
    checks.printable(folder, sorted(found))
    return found
