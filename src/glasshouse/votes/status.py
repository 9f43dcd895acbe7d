"""How far the votes of a study are, and how many more people it needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

from glasshouse.store import Overview, Votes
from glasshouse.store.assignment import needed
from glasshouse.types import JSON

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class PersonStatus:
    """One annotator's place in the study."""

    name: str
    kind: str
    votes: int
    total: int
    revoked: bool


@dataclass(frozen=True, slots=True)
class Status:
    """Counts of people's votes, what each annotator gave, and how many people all items need."""

    overview: Overview
    votes_per_item: int
    needed: int
    items: dict[str, int]
    people: tuple[PersonStatus, ...]

    @property
    def missing(self) -> int:
        """How many more people must be invited, since nobody sees two versions of one original."""
        return missing(self.overview, self.needed)

    def to_json(self) -> JSON:
        """The status as plain JSON."""
        return {"schema": SCHEMA, **asdict(self), "missing": self.missing}


def missing(counts: Overview, wanted: int) -> int:
    """How many of so many people are not invited yet; nobody where all items have their votes."""
    return 0 if counts.complete == counts.items else max(wanted - counts.annotators, 0)


def status(store: Votes, now: float) -> Status:
    """Look at everything once."""
    table, rules = store.table(), store.rules()
    given = Counter(vote.annotator for vote in store.votes(kind=None))
    return Status(
        overview=store.overview(now),
        votes_per_item=rules.votes_per_item,
        needed=needed(table, rules.votes_per_item),
        items=dict(sorted(Counter(f"{item.task} {item.role}" for item in table.items.values()).items())),
        people=tuple(
            PersonStatus(
                one.name,
                one.kind,
                given[one.id],
                store.progress(one.id).total if one.kind == "human" and not one.revoked else given[one.id],
                one.revoked,
            )
            for one in store.annotators()
        ),
    )
