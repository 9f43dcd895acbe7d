"""A study of photographs under growing degradations, with votes that fall as an image is hidden; no attack is run."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch
from torch.nn import functional as F

from glasshouse import data
from glasshouse.store import DATABASE_FILE, ImageRecord, Kind, ReconstructionRecord, Store, Vote, Votes
from glasshouse.studies.pictures import fingerprint, picture_file, to_pixels, to_png
from glasshouse.votes.bundle import Voter, enrol
from glasshouse.votes.items import Questions, prepare

DEGREES = (0.05, 0.3, 0.6, 0.95)
CLASSES = ("bark", "sand", "sky")


@lru_cache(maxsize=1)
def photographs() -> torch.Tensor:
    """Ten photographs, read once."""
    return data.load("photos:size=96").batch(range(10))[0]


def make_study(directory: Path, *, dataset: str = "nowhere.npz", originals: int = 12, first: int = 0, size: int = 24):
    """Crops of photographs, each attacked on two models of which one leaks more, in several degrees."""
    photos = photographs()
    rng = torch.Generator().manual_seed(first)
    directory.mkdir(parents=True)
    store = Store(directory / DATABASE_FILE)
    truths, records = [], []
    for place in range(originals):
        number = first + place
        row, column = 8 * (number // 10 % 8), 8 * (number // 80 % 8)
        truths.append(photos[number % 10, :, row : row + size, column : column + size])
        file, sha256 = write(directory, f"t{place}", truths[-1])
        named = CLASSES[place % 3]
        records.append(ImageRecord(place, f"id{number}", place % 3, named, file, sha256))
    store.add_images(records)
    cases = [(f"{model} {degree}", model, degree) for model in ("open", "shut") for degree in DEGREES]
    store.add_cases((key, facts(dataset, model, degree)) for key, model, degree in cases)
    for key, model, degree in cases:
        made = []
        for place, truth in enumerate(truths):
            hidden = min(degree * (1.0 if model == "open" else 1.3), 1.0)
            guess = hide(truth, hidden, rng)
            file, sha256 = write(directory, f"g{key}{place}".replace(" ", ""), guess)
            made.append(ReconstructionRecord(key, place, file, sha256))
        store.finish(key, {}, made)
    store.close()
    return directory


def make_studies(room: Path) -> list[Path]:
    """Two data sets of two sizes, judged by a classifier that teaches and two that test."""
    made = []
    for place, (dataset, size) in enumerate((("first.npz", 24), ("second.npz", 32))):
        made.append(make_study(room / dataset, dataset=dataset, size=size, first=40 * place))
        vote(made[-1], ("alexnet lineup 4",))
        vote(made[-1], ("inception_v3 lineup 4", "efficientnet_lite0 lineup 4"))
    return made


def write(directory, name, image):
    """A picture as a study keeps it, but without waiting for the disk."""
    pixels = to_pixels(image)
    (directory / "images").mkdir(exist_ok=True)
    (directory / picture_file(name)).write_bytes(to_png(pixels))
    return picture_file(name), fingerprint(pixels)


def facts(dataset, model, degree):
    return {
        "dataset": dataset,
        "model": model,
        "defense": f"blur {degree}",
        "attack": "idlg" if degree < 0.5 else "invgrad",
        "round": "0",
        "batchnorm": "eval",
    }


def hide(truth, degree, rng):
    """A mix of the image, its blur and noise."""
    blurred = F.avg_pool2d(truth[None], 5, 1, 2)[0]
    noise = torch.rand(truth.shape, generator=rng)
    return ((1 - degree) * truth + degree * (0.5 * blurred + 0.5 * noise)).clamp(0, 1)


def vote(directory: Path, names, kind: Kind = "classifier", *, always: bool | None = None) -> None:
    """Votes of some annotators: the less is hidden, the more of them name the class; classifiers give grades too."""
    votes = Votes(directory / DATABASE_FILE)
    prepare(directory, votes, Questions())
    voters = enrol(votes, [Voter(name, kind) for name in names])
    cast = []
    for item in votes.items():
        hidden = 0.0 if item.role == "original" else float(item.case_key.split()[1])
        for number, name in enumerate(names):
            seen = 1 - hidden - 0.1 * (item.place % 3) - (0.2 if item.case_key.startswith("shut") else 0)
            right = seen > 0.2 + 0.15 * number if always is None else always
            wrong = next(answer for answer in item.answers if answer != item.truth)
            grade = min(max(seen, 0.01), 0.99) if kind == "classifier" else None
            cast.append(Vote(item.id, voters[Voter(name, kind)], item.truth if right else wrong, grade=grade))
    votes.record(cast)
    votes.close()
