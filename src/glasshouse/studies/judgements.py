"""What was judged, by whom and how: the votes of any number of studies beside the pictures they are about."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from glasshouse.errors import DataError, StudyError
from glasshouse.semsim.eyes import EYES, Way
from glasshouse.semsim.judges import make_of, voter_name
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

    @property
    def pixels(self) -> str:
        """What it looks like, whatever its data set is called."""
        return fingerprint(to_pixels(self.picture))


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """What was made of an original, and what each voter said of it.

    ``owner`` is the original's number, ``condition`` what was attacked and how, ``facts`` the case that it comes from
    (nothing for votes from elsewhere). ``hits`` say whose answers gave the original away, ``grades`` are soft votes.
    Where a study trained the attacked network, ``training`` names that, whatever the epoch, and ``accuracy`` is how
    often the network was right on test images. ``attacked`` is whether somebody made it of what was shared: not an
    original that was shuffled, nor a degraded copy that we made to learn from.
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
    training: str | None = None
    attacked: bool = True

    @property
    def share(self) -> float:
        """The share of voters who recognised the original."""
        return sum(self.hits.values()) / len(self.hits)

    def with_votes_of(self, copy: Guess) -> Guess:
        """The same with what others said of a copy of it."""
        return replace(self, hits={**copy.hits, **self.hits}, grades={**copy.grades, **self.grades})


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
        """Those guesses alone that are wanted, their originals, and whoever voted on them."""
        kept = [guess for guess in self.guesses if wanted(guess)]
        voted = {name for guess in kept for name in guess.hits}
        numbers = {owner: number for number, owner in enumerate(dict.fromkeys(guess.owner for guess in kept))}
        return replace(
            self,
            voters=tuple(name for name in self.voters if name in voted),
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
    kinds: tuple[Kind, ...] = ("human", "classifier")
    for kind in kinds:
        if any(_votes(study, kind)[1] for study in studies):
            return kind
    raise _silent("human or classifier", studies)


def read(
    studies: Sequence[Path], kind: Kind, voters: Collection[str] | None = None, *, forced: bool = False
) -> Judgements:
    """The judgements of one kind in some studies; kinds are never mixed.

    ``voters`` are the names of those who count, where not all do; of classifiers they are makes, and of judges of one
    make the newest has the vote. Of several tasks that counts which was answered most often, for to guess right is
    not equally easy in all of them. What several studies hold, as copies do, counts once. ``forced`` choices stand in
    for "none" where asked for.
    """
    originals: list[Original] = []
    guesses: dict[tuple[int, str, str], Guess] = {}
    numbers: dict[str, int] = {}
    found = [(study, *_votes(study, kind, voters)) for study in studies]
    task = _most_answered([(items, given) for _, items, given in found])
    for study, items, given in found:
        pictures = _Pictures(study, items)
        for item, cast in _judged(items, given, forced):
            original = pictures.original(item)
            if original is None or item.task != task:
                continue
            owner = numbers.setdefault(original.pixels, len(originals))
            if owner == len(originals):
                originals.append(original)
            guess = pictures.guess(item, owner, cast)
            same = owner, guess.case_key, fingerprint(to_pixels(guess.picture))
            guesses[same] = guesses[same].with_votes_of(guess) if same in guesses else guess
    if not guesses:
        who = kind if voters is None else " or ".join(sorted({_eye(name) for name in voters}))
        raise _silent(who, studies, _of_older_make(studies, kind, voters or ()))
    names = tuple(sorted({name for guess in guesses.values() for name in guess.hits}))
    return Judgements(kind, names, tuple(originals), tuple(guesses.values()))


def votes_in(studies: Sequence[Path]) -> str:
    """A content hash of the votes in some studies: it tells whether anybody voted since."""
    votes = [_votes(study, kind)[1] for study in studies for kind in get_args(Kind)]
    return hashlib.sha256(repr(votes).encode()).hexdigest()[:24]


def _of_older_make(studies: Sequence[Path], kind: Kind, voters: Collection[str]) -> list[str]:
    """Classifiers that voted behind the same eyes before these were changed."""
    eyes = {_eye(name) for name in voters}
    return sorted({name for study in studies for name, _ in _votes(study, kind)[1] if _eye(name) in eyes})


def _eye(voter: str) -> str:
    """The network that a classifier looks through."""
    return voter.partition(" ")[0]


def _silent(who: str, studies: Sequence[Path], older: Sequence[str] = ()) -> DataError:
    """What to say where nobody has voted, or only judges that have been changed since."""
    if older:
        return DataError(
            f"The {who} votes in {', '.join(map(str, studies))} are of an older make ({', '.join(older)}): run "
            "'glasshouse semsim judge' on them again."
        )
    return DataError(
        f"There are no {who} votes on pictures in {', '.join(map(str, studies))}: collect some with "
        "'glasshouse annotate invite' and 'serve', or let classifiers vote with 'glasshouse semsim judge'."
    )


def _most_answered(found: Sequence[tuple[Sequence[Item], Sequence[tuple[str, Vote]]]]) -> str | None:
    """The task of most votes on what is judged."""
    tasks = Counter[str]()
    for items, given in found:
        shown = {item.id: item.task for item in items if item.role in SHOWN}
        tasks.update(shown[vote.item] for _, vote in given if vote.item in shown)
    return max(tasks, key=tasks.__getitem__, default=None)


@dataclass(frozen=True, slots=True)
class _Cast:
    """The votes on one item by voter."""

    hits: dict[str, bool]
    grades: dict[str, float]


def _votes(study: Path, kind: Kind, voters: Collection[str] | None = None) -> tuple[list[Item], list[tuple[str, Vote]]]:
    """The items of a study, and its votes of one kind, by all or some voters, with who gave each.

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
        wanted = ((name, vote) for (name, _), vote in by_make.items() if voters is None or name in voters)
        return votes.items(), list(wanted)
    finally:
        votes.close()


def _judged(items: Sequence[Item], given: Sequence[tuple[str, Vote]], forced: bool) -> Iterator[tuple[Item, _Cast]]:
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
                    {name: matches(item, vote.choice if forced else vote.answer, reference) for name, vote in cast},
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
            trained = [one for one in store.targets() if one.state == "done"]
        finally:
            store.close()
        self.datasets = {one.place: str(self.facts[one.case_key]["dataset"]) for one in made}
        self.trainings = {
            name: (one.key, one.outcome["accuracy"][epoch])
            for one in trained
            for epoch, name in one.outcome["weights"].items()
            if epoch != "0"  # before it learned anything it is nobody's target, and was asked for as it is
        }
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
        training, accuracy = self.trainings.get(facts.get("weights"), (None, None))
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
            accuracy=accuracy,
            training=training,
            attacked=item.role == "reconstruction" and not item.case_key.startswith(DEGRADED),
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
