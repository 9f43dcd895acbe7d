"""What was judged, by whom and how: the votes of any number of studies beside the pictures they are about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from glasshouse.errors import DataError, StudyError
from glasshouse.semsim.eyes import EYES
from glasshouse.semsim.judges import Way, make_of, voter_name
from glasshouse.store import DEGRADED, Item, Kind, Location, Store, Vote, Votes
from glasshouse.studies.pictures import fingerprint, read_picture, to_pixels
from glasshouse.types import JSON
from glasshouse.votes.judgement import judge, matches

IMPORTED = "imported"  # the data set of votes that came from elsewhere
SHOWN = ("reconstruction", "shuffled")  # the roles that are judged

#: Makes of classifiers that teach, and of those that are kept for tests.
TEACHERS, TESTERS = (
    frozenset(voter_name(name, way) for name, eye in EYES.items() if eye.teaches is teaches for way in get_args(Way))
    for teaches in (True, False)
)


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """An original (C, H, W) in [0, 1], the data set that it comes from, and its class where that is known."""

    dataset: str
    class_name: str | None
    picture: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """What was made of an original, and what each voter said of it.

    ``owner`` is the original's number, ``condition`` what was attacked and how, ``facts`` the case that it comes from
    (nothing for votes from elsewhere). ``hits`` say whose answers gave the original away, ``grades`` are soft votes.
    ``accuracy`` is how often the attacked network was right on test images, where a study trained it.
    """

    study: Path
    case_key: str
    place: int
    owner: int
    condition: str
    facts: JSON
    picture: Tensor
    hits: Mapping[str, bool]
    grades: Mapping[str, float]
    accuracy: float | None = None

    @property
    def attacked(self) -> bool:
        """Whether it is what somebody made of an original, not a degraded copy that we made to learn from."""
        return not self.case_key.startswith(DEGRADED)

    @property
    def share(self) -> float:
        """The share of voters who recognised the original."""
        return sum(self.hits.values()) / len(self.hits)


@dataclass(frozen=True, slots=True, eq=False)
class Judgements:
    """Guesses that have votes of one kind, and their originals."""

    kind: Kind
    voters: tuple[str, ...]
    originals: tuple[Original, ...]
    guesses: tuple[Guess, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets in the order in which they come."""
        return tuple(dict.fromkeys(original.dataset for original in self.originals))

    @property
    def owners(self) -> Tensor:
        """Whose guess each is, (K,)."""
        return torch.tensor([guess.owner for guess in self.guesses], dtype=torch.long)

    def only(self, wanted: Callable[[Guess], bool]) -> Judgements:
        """Those guesses alone that are wanted, and their originals."""
        kept = [guess for guess in self.guesses if wanted(guess)]
        numbers = {owner: number for number, owner in enumerate(dict.fromkeys(guess.owner for guess in kept))}
        return replace(
            self,
            originals=tuple(self.originals[owner] for owner in numbers),
            guesses=tuple(replace(guess, owner=numbers[guess.owner]) for guess in kept),
        )

    def dataset_of(self, guess: Guess) -> str:
        """The data set of a guess."""
        return self.originals[guess.owner].dataset


def kind_of(studies: Sequence[Path], asked: Kind | None) -> Kind:
    """Whose judgements to take: the kind asked for, else people's where there are any, else those of classifiers."""
    if asked is not None:
        return asked
    return "human" if any(_votes(study, "human")[1] for study in studies) else "classifier"


def read(studies: Sequence[Path], kind: Kind, voters: Collection[str] | None = None) -> Judgements:
    """The judgements of one kind in some studies; kinds are never mixed.

    ``voters`` are the names of those who count, where not all do; of classifiers they are makes, and of judges of one
    make the newest has the vote.
    """
    originals: list[Original] = []
    guesses: list[Guess] = []
    numbers: dict[str, int] = {}  # by pixels: an original that several studies attacked is one
    for study in studies:
        items, given = _votes(study, kind)
        pictures = _Pictures(study, items)
        counted = [(name, vote) for name, vote in given if voters is None or name in voters]
        for item, cast in _judged(items, counted):
            original = pictures.original(item)
            if original is None:
                continue
            owner = numbers.setdefault(fingerprint(to_pixels(original.picture)), len(originals))
            if owner == len(originals):
                originals.append(original)
            guesses.append(pictures.guess(item, owner, cast))
    if not guesses:
        who = kind if voters is None else " or ".join(sorted({name.partition(" ")[0] for name in voters}))
        raise DataError(
            f"There are no {who} votes on pictures in {', '.join(map(str, studies))}: collect some with "
            "'glasshouse annotate invite' and 'serve', or let classifiers vote with 'glasshouse semsim judge'."
        )
    names = tuple(sorted({name for guess in guesses for name in guess.hits}))
    return Judgements(kind, names, tuple(originals), tuple(guesses))


@dataclass(frozen=True, slots=True)
class _Cast:
    """The votes on one item by voter."""

    hits: dict[str, bool]
    grades: dict[str, float]


def _votes(study: Path, kind: Kind) -> tuple[list[Item], list[tuple[str, Vote]]]:
    """The items of a study, and its votes of one kind with who gave each.

    Judges of one make are copies of one eye and no independent voters: on each item only the newest of them counts.
    """
    location = Location.of(study)
    if not location.exists():
        raise StudyError(f"{study} holds no study: give the --out of an audit, or what 'annotate import' made.")
    votes = Votes(location.database)
    try:
        people = {one.id: one for one in votes.annotators()}
        in_order = sorted(votes.votes(kind), key=lambda vote: people[vote.annotator].seat)
        by_make = {(make_of(people[vote.annotator].name), vote.item): vote for vote in in_order}
        return votes.items(), [(name, vote) for (name, _), vote in by_make.items()]
    finally:
        votes.close()


def _judged(items: Sequence[Item], given: Sequence[tuple[str, Vote]]) -> Iterator[tuple[Item, _Cast]]:
    """The items with pictures that have votes, and these votes, each held against its reference."""
    by_item: dict[str, list[tuple[str, Vote]]] = {}
    for name, vote in given:
        by_item.setdefault(vote.item, []).append((name, vote))
    judged = judge(items, [vote for _, vote in given])
    for item in items:
        if item.id in judged and item.role in SHOWN and item.image is not None:
            reference = judged[item.id].reference
            cast = by_item[item.id]
            yield (
                item,
                _Cast(
                    {name: matches(item, vote.answer, reference) for name, vote in cast},
                    {name: vote.grade for name, vote in cast if vote.grade is not None},
                ),
            )


class _Pictures:
    """The pictures of one study, and the cases that they come from."""

    def __init__(self, study: Path, items: Sequence[Item]) -> None:
        self.study = study
        location = Location.of(study)
        self.album = location.album
        store = Store(location.database)
        try:
            self.facts = {case.key: case.described for case in store.cases()}
            images = {image.place: image for image in store.images()}
            made = store.reconstructions()
            trained = [one.outcome for one in store.targets() if one.state == "done"]
        finally:
            store.close()
        self.datasets = {one.place: str(self.facts[one.case_key]["dataset"]) for one in made}
        self.right = {name: one["accuracy"][at] for one in trained for at, name in one["weights"].items() if at != "0"}
        self.classes = {place: image.class_name for place, image in images.items()}
        self.files: dict[str, str] = {}
        for item in items:
            file = item.image if item.role == "original" else item.beside
            ours = images[item.place].file if item.case_key in self.facts and item.place in images else None
            if file or ours:
                self.files.setdefault(item.original, str(file or ours))

    def original(self, item: Item) -> Original | None:
        """The original of an item, or None where it is not public."""
        if item.original not in self.files:
            return None
        picture = read_picture(self.album, self.files[item.original])
        named = self.classes.get(item.place, item.truth)
        return Original(self.datasets.get(item.place, IMPORTED), named, picture)

    def guess(self, item: Item, owner: int, cast: _Cast) -> Guess:
        """What an item shows."""
        facts = self.facts.get(item.case_key, {})
        return Guess(
            study=self.study,
            case_key=item.case_key,
            place=item.place,
            owner=owner,
            condition=item.condition,
            facts=facts,
            picture=read_picture(self.album, str(item.image)),
            hits=cast.hits,
            grades=cast.grades,
            accuracy=self.right.get(facts.get("weights")),
        )


def batches(judgements: Judgements, size: int) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Places of guesses of one shape, their originals and themselves (N, C, H, W), a few at a time."""
    by_shape: dict[torch.Size, list[int]] = {}
    for place, guess in enumerate(judgements.guesses):
        by_shape.setdefault(guess.picture.shape, []).append(place)
    for places in by_shape.values():
        for start in range(0, len(places), size):
            some = places[start : start + size]
            yield some, *_stacked(judgements, some)


def _stacked(judgements: Judgements, places: Iterable[int]) -> tuple[Tensor, Tensor]:
    shown = [judgements.guesses[place] for place in places]
    truths = [judgements.originals[guess.owner].picture for guess in shown]
    if any(truth.shape != guess.picture.shape for truth, guess in zip(truths, shown, strict=True)):
        raise DataError("A reconstruction and its original differ in shape: give pictures of one size for each pair.")
    return torch.stack(truths), torch.stack([guess.picture for guess in shown])
