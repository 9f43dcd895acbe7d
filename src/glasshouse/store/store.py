"""Reading and writing one study's database. Cases that were attacked together, and their
reconstructions, are written in one transaction."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text

from glasshouse.errors import StudyError
from glasshouse.store.database import Database
from glasshouse.store.seals import Held, sealed, sealed_case
from glasshouse.types import JSON

UNPLANNED = -1  # the position of what no plan asks for any more


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One attacked image: its place in the study, identity, label, and the file that holds it."""

    place: int
    identity: str
    label: int
    class_name: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ReconstructionRecord:
    """One reconstruction of a case: whose it is, and the file that holds it."""

    case_key: str
    place: int
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Score:
    """One value of one metric for one reconstruction; no value where it is not a number."""

    case_key: str
    place: int
    metric: str
    value: float | None


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """A case, a target or a probe as the study knows it: described in full, pending, done or failed, with its outcome.

    What the plan asked for once and does no more is kept, but it is no longer ``planned``.
    """

    key: str
    described: JSON
    state: str
    reason: str | None
    outcome: JSON
    planned: bool = True


class Store:
    """The results in the database of a study: a SQLite file, or a server by its URL."""

    def __init__(self, where: Path | str) -> None:
        self._database = Database(where)

    @property
    def name(self) -> str:
        """The file or URL, without a password."""
        return self._database.name

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def owner(self) -> str | None:
        """The name of the study whose results these are; none where nobody has claimed them."""
        return next((row["name"] for row in self._database.read("SELECT name FROM study")), None)

    def claim(self, study: str) -> None:
        """Write down whose results these are, unless that is known."""
        row = {"name": study, "seal": sealed((study,))}
        self._database.write("INSERT INTO study VALUES (1, :name, :seal) ON CONFLICT DO NOTHING", [row])

    def add_images(self, images: Iterable[ImageRecord]) -> None:
        """Add the attacked images; those that are there stay."""
        self._database.write(
            "INSERT INTO images VALUES (:place, :identity, :label, :class_name, :file, :sha256, :seal) "
            "ON CONFLICT DO NOTHING",
            [{**asdict(image), "seal": sealed(astuple(image))} for image in images],
        )

    def images(self) -> list[ImageRecord]:
        """The attacked images in order."""
        rows = self._database.read(
            "SELECT place, identity, label, class_name, file, sha256, seal FROM images ORDER BY place"
        )
        return [ImageRecord(**row) for row in self._whole("images", rows)]

    def add_cases(self, cases: Iterable[tuple[str, JSON]]) -> None:
        """Plan these cases and no others; results stay. Where only names changed, the key is the same."""
        self._plan("cases", cases)

    def cases(self) -> list[CaseRecord]:
        """Every case in the order of the plan."""
        with self._database.reading() as connection:  # both of one moment: a case and its pictures have one seal
            rows = [dict(row) for row in connection.execute(text(_planned("cases"))).mappings()]
            pictures = connection.execute(text("SELECT case_key, place, file, sha256 FROM reconstructions")).all()
        held: dict[str, list[Held]] = defaultdict(list)
        for key, *picture in pictures:
            held[key].append(tuple(picture))
        for row in rows:
            seal = row.pop("seal")
            if row["state"] == "done" and seal not in (None, sealed_case(row["key"], row["outcome"], held[row["key"]])):
                raise self._damaged("cases")
        return [self._record("cases", **row) for row in rows]

    def add_targets(self, targets: Iterable[tuple[str, JSON]]) -> None:
        """Plan these networks to train and no others; those that are trained stay."""
        self._plan("targets", targets)

    def targets(self) -> list[CaseRecord]:
        """Every network to train in the order of the plan."""
        return self._planned("targets")

    def add_probes(self, probes: Iterable[tuple[str, JSON]]) -> None:
        """Plan these measurements and no others; those that were made stay."""
        self._plan("probes", probes)

    def probes(self) -> list[CaseRecord]:
        """Every measurement in the order of the plan."""
        return self._planned("probes")

    def _plan(self, table: str, planned: Iterable[tuple[str, JSON]]) -> None:
        rows = [
            {"key": key, "position": position, "described": json.dumps(described, sort_keys=True)}
            for position, (key, described) in enumerate(planned)
        ]
        with self._database.writing() as connection:
            connection.execute(text(f"UPDATE {table} SET position = {UNPLANNED}"))  # noqa: S608 - a name of our own
            if rows:
                connection.execute(
                    text(
                        f"INSERT INTO {table} (key, position, described, state) "  # noqa: S608 - as above
                        "VALUES (:key, :position, :described, 'pending') "
                        "ON CONFLICT (key) DO UPDATE SET position = excluded.position, described = excluded.described"
                    ),
                    rows,
                )

    def _planned(self, table: str) -> list[CaseRecord]:
        rows = self._database.read(_planned(table))
        for row in rows:
            seal = row.pop("seal")
            if row["state"] == "done" and seal not in (None, sealed((row["key"], row["outcome"]))):
                raise self._damaged(table)
        return [self._record(table, **row) for row in rows]

    def _record(
        self,
        table: str,
        key: str,
        position: int,
        described: str,
        state: str,
        reason: str | None,
        outcome: str | None,
    ) -> CaseRecord:
        try:
            facts = json.loads(described), json.loads(outcome or "{}")
        except ValueError as error:
            raise self._damaged(table) from error
        return CaseRecord(key, facts[0], state, reason, facts[1], position != UNPLANNED)

    def _whole(self, table: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows without their seals, each as it was sealed; those that are older than seals have none."""
        for row in rows:
            seal = row.pop("seal")
            if seal not in (None, sealed(tuple(row.values()))):
                raise self._damaged(table)
            yield row

    def _damaged(self, table: str) -> StudyError:
        return StudyError(
            f"{self.name} is damaged ({table}): run the command that made it again, which computes anew what is lost."
        )

    def finish_target(self, key: str, outcome: JSON) -> None:
        """Write down what became of a network that was trained."""
        self._finish("targets", key, outcome)

    def fail_target(self, key: str, reason: str) -> None:
        """Write down that a network could not be trained, and why."""
        self._fail("targets", key, reason)

    def finish_probe(self, key: str, outcome: JSON) -> None:
        """Write down what was measured."""
        self._finish("probes", key, outcome)

    def fail_probe(self, key: str, reason: str) -> None:
        """Write down that something could not be measured, and why."""
        self._fail("probes", key, reason)

    def _finish(self, table: str, key: str, outcome: JSON) -> None:
        facts = json.dumps(outcome, sort_keys=True)
        self._database.write(
            f"UPDATE {table} SET state = 'done', reason = NULL, outcome = :outcome, seal = :seal WHERE key = :key",  # noqa: S608 - as above
            [{"key": key, "outcome": facts, "seal": sealed((key, facts))}],
        )

    def _fail(self, table: str, key: str, reason: str) -> None:
        query = f"UPDATE {table} SET state = 'failed', reason = :reason WHERE key = :key"  # noqa: S608 - as above
        self._database.write(query, [{"key": key, "reason": reason}])

    def reset_targets(self, keys: Sequence[str]) -> None:
        """Plan networks anew whose files were lost or damaged."""
        self._database.write(
            "UPDATE targets SET state = 'pending', reason = NULL, outcome = NULL, seal = NULL WHERE key = :key",
            [{"key": key} for key in keys],
        )

    def finish(self, key: str, outcome: JSON, reconstructions: Sequence[ReconstructionRecord]) -> None:
        """Write a finished case and its reconstructions, all or nothing."""
        self.finish_all([(key, outcome, reconstructions)])

    def finish_all(self, cases: Iterable[tuple[str, JSON, Sequence[ReconstructionRecord]]]) -> None:
        """Write finished cases, each by its key, with its outcome and its reconstructions: all or nothing."""
        rows, pictures = [], []
        for key, outcome, reconstructions in cases:
            facts = json.dumps(outcome, sort_keys=True)
            seal = sealed_case(key, facts, [(one.place, one.file, one.sha256) for one in reconstructions])
            rows.append({"key": key, "outcome": facts, "seal": seal})
            pictures += [asdict(one) for one in reconstructions]
        with self._database.writing() as connection:
            connection.execute(
                text(
                    "UPDATE cases SET state = 'done', reason = NULL, outcome = :outcome, seal = :seal WHERE key = :key"
                ),
                rows,
            )
            connection.execute(
                text(
                    "INSERT INTO reconstructions VALUES (:case_key, :place, :file, :sha256) "
                    "ON CONFLICT (case_key, place) DO UPDATE SET file = excluded.file, sha256 = excluded.sha256"
                ),
                pictures,
            )

    def fail(self, key: str, reason: str) -> None:
        """Write down that a case failed, and why."""
        self._fail("cases", key, reason)

    def reset(self, keys: Sequence[str]) -> None:
        """Plan cases anew whose failure may have passed or whose files were damaged."""
        rows = [{"key": key} for key in keys]
        if not rows:
            return
        with self._database.writing() as connection:
            connection.execute(text("UPDATE cases SET state = 'pending', reason = NULL WHERE key = :key"), rows)
            connection.execute(text("DELETE FROM scores WHERE case_key = :key"), rows)
            connection.execute(text("DELETE FROM reconstructions WHERE case_key = :key"), rows)

    def reconstructions(self) -> list[ReconstructionRecord]:
        """Every reconstruction, in the order of the plan and of the images."""
        rows = self._database.read(
            "SELECT r.* FROM reconstructions r JOIN cases c ON c.key = r.case_key ORDER BY c.position, c.key, r.place"
        )
        return [ReconstructionRecord(**row) for row in rows]

    def add_scores(self, scores: Iterable[Score]) -> None:
        """Write scores; a score that is there is replaced."""
        self._database.write(
            "INSERT INTO scores VALUES (:case_key, :place, :metric, :value, :seal) "
            "ON CONFLICT (case_key, place, metric) DO UPDATE SET value = excluded.value, seal = excluded.seal",
            [{**asdict(score), "seal": sealed(astuple(score))} for score in scores],
        )

    def scores(self) -> dict[tuple[str, int, str], float | None]:
        """Every score by case, image and metric."""
        rows = self._whole("scores", self._database.read("SELECT case_key, place, metric, value, seal FROM scores"))
        return {(row["case_key"], row["place"], row["metric"]): row["value"] for row in rows}


def _planned(table: str) -> str:
    """The query for all that is planned, and was once."""
    return f"SELECT key, position, described, state, reason, outcome, seal FROM {table} ORDER BY position, key"  # noqa: S608 - a name of our own
