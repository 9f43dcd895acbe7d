"""Items, annotators and votes on their way from a file into the database of a study."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace

from glasshouse.errors import DataError
from glasshouse.store import Item, Kind, Vote, Votes
from glasshouse.votes.judgement import check_answer


@dataclass(frozen=True, slots=True)
class Voter:
    """An annotator by kind and name, which a study knows it by."""

    name: str
    kind: Kind = "human"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a file holds; the ``annotator`` of each vote is the number of its voter."""

    format: str
    items: tuple[Item, ...]
    voters: tuple[Voter, ...]
    votes: tuple[Vote, ...]


def opaque() -> str:
    """A name of 128 random bits, which says nothing."""
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Added:
    """How much of a bundle was new to a study."""

    items: int
    votes: int


def load(bundle: Bundle, store: Votes) -> Added:
    """Write a bundle into the database; what is there already stays, so that a second time changes nothing."""
    before = len(store.items())
    store.add_items(_with_known_originals(bundle.items, store.items()))
    stored = {_key(item): item for item in store.items()}
    for item in bundle.items:
        if _key(item) not in stored:
            raise DataError(f"Item '{item.id}' is the id of another item of this study: import into a new study.")
    known = {item.id: stored[_key(item)] for item in bundle.items}
    people = enrol(store, bundle.voters)
    votes = []
    for vote in bundle.votes:
        check_answer(vote, known[vote.item])
        voter = bundle.voters[int(vote.annotator)]
        votes.append(replace(vote, item=known[vote.item].id, annotator=people[voter]))
    return Added(len(stored) - before, store.record(votes))


def enrol(store: Votes, voters: Iterable[Voter]) -> dict[Voter, str]:
    """The ids of voters, who are added where the study does not know them; judges come in this way too."""
    known = {Voter(one.name, one.kind): one.id for one in store.annotators()}
    for voter in voters:
        if voter not in known:
            known[voter] = store.invite(voter.name, kind=voter.kind).id
    return known


def _with_known_originals(items: Iterable[Item], stored: Iterable[Item]) -> list[Item]:
    """The items with the ids that the study has for their originals, where it has one of their items."""
    known = {_key(item): item.original for item in stored}
    fresh = list(items)
    renamed = {item.original: known[_key(item)] for item in fresh if _key(item) in known}
    return [
        replace(
            item,
            original=renamed.get(item.original, item.original),
            other=None if item.other is None else renamed.get(item.other, item.other),
        )
        for item in fresh
    ]


def _key(item: Item) -> tuple[str, str, str, int]:
    return item.task, item.role, item.case_key, item.place
