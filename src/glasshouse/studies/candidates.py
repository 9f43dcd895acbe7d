"""Which images a membership study asks about: members, non-members of the same classes, and public ones beside them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glasshouse import data
from glasshouse.data import ImageSet
from glasshouse.errors import DataError, SettingError
from glasshouse.training import Samples
from glasshouse.types import ImageSpec

FEWEST = 20  # candidates, and public images
MOST_PUBLIC = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Dealt:
    """Members that the target was trained on, as many others of the same classes, and public images.

    ``trained`` is on how many images the target was trained, which may be more than the members asked about.
    """

    members: Samples
    others: Samples
    public: Samples
    trained: int
    spec: ImageSpec
    terms: str

    @property
    def shadow_size(self) -> int:
        """How many images a shadow is trained on: as many as the target, or half of all there are."""
        return min(self.trained, len(self.members.images) + len(self.public.images) // 2)

    @property
    def candidates(self) -> Samples:
        """Members, then others."""
        return Samples(
            torch.cat([self.members.images, self.others.images]),
            torch.cat([self.members.targets, self.others.targets]),
        )


def deal(
    source: str,
    *,
    images: int | None,
    members: str | None,
    seed: int,
    size: int | None = None,
    root: Path | None = None,
    download: bool = False,
) -> Dealt:
    """Draw members and others in pairs of a class, so that no label tells one from the other; the rest is public.

    Without ``members`` half of the training images become members. Otherwise it says which training images a given
    model was trained on: their number, as in ``glasshouse train --images``, or a file that names them; images that
    are not among them, of either split, are the others. No public image is a copy of a member.
    """
    found = _Both.load(source, size=size, root=root, download=download)
    rng = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(found), generator=rng).tolist()
    trained = [] if members is None else _named(found, members, seed)
    pairs, limit = _halved(found, order) if members is None else _told_apart(found, order, trained)
    pairs = [pairs[place] for place in torch.randperm(len(pairs), generator=rng).tolist()]
    pairs = pairs[: limit if images is None else images // 2]
    wanted = max(FEWEST, images or 0)
    if len(pairs) < wanted // 2:
        raise DataError(
            f"{source} has {len(pairs)} pairs of a member and a non-member of its class, too few for {wanted} "
            f"candidates, of which there must be {FEWEST} at least: give more images."
        )
    first, second = [one for one, _ in pairs], [one for _, one in pairs]
    trained = trained or first
    known = {found.contents[place] for place in (*trained, *second)}
    public = [place for place in order if found.contents[place] not in known]
    if len(public) < FEWEST:
        raise DataError(
            f"{source} leaves {len(public)} public images, and attackers need at least {FEWEST}: ask for fewer images."
        )
    public = public[: max(MOST_PUBLIC, 2 * (len(trained) - len(pairs)))]
    asked, others, rest = (Samples(*found.batch(part)) for part in (first, second, public))
    return Dealt(asked, others, rest, len(trained), found.spec, found.terms)


def _halved(found: _Both, order: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
    """Pairs of training images of a class, and how many of them leave enough for the public."""
    fresh = {found.contents[place]: place for place in order if place < found.train}  # one of several copies
    groups = _by_class(found.labels, fresh.values())
    pairs = [pair for group in groups.values() for pair in zip(group[::2], group[1::2], strict=False)]
    if len(found) - found.train >= FEWEST:
        return pairs, len(pairs)
    return pairs, max(len(fresh) - max(FEWEST, len(fresh) // 5), 0) // 2


def _told_apart(found: _Both, order: Sequence[int], trained: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
    """Pairs of a member and another image of its class, and how many of them leave enough for the public."""
    known, members = {found.contents[place] for place in trained}, set(trained)
    others = [place for place in order if found.contents[place] not in known]
    others.sort(key=lambda place: place >= found.train)  # training images are the more alike
    own, foreign = _by_class(found.labels, filter(members.__contains__, order)), _by_class(found.labels, others)
    pairs = [pair for label, group in own.items() for pair in zip(group, foreign.get(label, ()), strict=False)]
    return pairs, max(min(len(others) * 2 // 3, len(others) - FEWEST), 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Both:
    """Training images, then those test images that are no copies of them."""

    sets: tuple[ImageSet, ImageSet]
    places: tuple[tuple[int, int], ...]  # which set, and where in it
    contents: tuple[bytes, ...]
    labels: tuple[int, ...]
    train: int
    spec: ImageSpec

    @classmethod
    def load(cls, source: str, *, size: int | None, root: Path | None, download: bool) -> _Both:
        train, test = (
            data.load(source, root=root, size=size, split=split, download=download) for split in ("train", "test")
        )
        if train.spec.shape != test.spec.shape:
            raise DataError(f"Training images of {source} are {train.spec}, test images {test.spec}: give one --size.")
        contents = [_digest(train, place) for place in range(len(train))]
        known = set(contents)
        places = [(0, place) for place in range(len(train))]
        for place in range(len(test)):
            digest = _digest(test, place)
            if digest not in known:
                places.append((1, place))
                contents.append(digest)
        spec = dataclasses.replace(train.spec, classes=max(train.spec.classes, test.spec.classes))
        labels = tuple((train, test)[which].labels[place] for which, place in places)
        return cls((train, test), tuple(places), tuple(contents), labels, len(train), spec)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def terms(self) -> str:
        """Terms of use."""
        return self.sets[0].terms

    def batch(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Images and labels by their numbers."""
        parts = [self.sets[self.places[number][0]].batch([self.places[number][1]]) for number in numbers]
        return torch.cat([images for images, _ in parts]), torch.cat([labels for _, labels in parts])


def _digest(images: ImageSet, place: int) -> bytes:
    return hashlib.sha256(images.read(place).tobytes()).digest()


def _by_class(labels: Sequence[int], places: Iterable[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for place in places:
        found[labels[place]].append(place)
    return found


def _named(found: _Both, members: str, seed: int) -> list[int]:
    """The training images that a model was trained on: so many as training takes, or those that a file names."""
    train = found.sets[0]
    if members.isdecimal():
        return train.spread(int(members), seed)
    try:
        lines = [line.strip() for line in Path(members).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"--members {members} cannot be read: give the number of images as in 'glasshouse train --images', "
            "or a text file with the name or number of one training image on each line."
        ) from error
    known = {identity: place for place, identity in enumerate(train.ids)}
    known |= {str(place): place for place in range(len(train))}
    wrong = [line for line in lines if line and line not in known]
    if wrong:
        raise DataError(
            f"{members} names '{wrong[0]}', which is no training image of {train.name}: write {train.ids[0]}, or 0."
        )
    return list(dict.fromkeys(known[line] for line in lines if line))
