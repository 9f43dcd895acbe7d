"""What an audit found, as typed tables and as ``audit.json``."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from glasshouse.files import write_atomic
from glasshouse.store import ImageRecord
from glasshouse.studies.plan import Plan
from glasshouse.studies.rows import Failed, Identified, PerImage, Row, Setup, row_json, setup_json, why_no_interval
from glasshouse.studies.scoring import MARGINS, Measures
from glasshouse.studies.study import RESULT_FILE, Study
from glasshouse.studies.table import Table
from glasshouse.types import JSON, Interval, finite_or_none
from glasshouse.versions import versions

SCHEMA = 2  # 1 counted as seen what beat the floor by less


@dataclass(frozen=True, eq=False)
class AuditResult:
    """All that a study found."""

    directory: Path
    plan: Plan
    images: tuple[ImageRecord, ...]
    rows: tuple[Row, ...]
    per_image: tuple[PerImage, ...]
    floor: tuple[Row, ...]
    identified: tuple[Identified, ...]
    failures: tuple[Failed, ...]
    pending: int
    judges: tuple[str, ...] = ()
    gallery: str = ""
    terms: str = ""
    skipped: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    choices: JSON = field(default_factory=dict)
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def setups(self) -> tuple[Setup, ...]:
        """The setups in the order of the plan."""
        return tuple(dict.fromkeys(row.setup for row in self.rows))

    def to_json(self) -> JSON:
        """The machine-readable results: ``audit.json``."""
        return {
            "schema": SCHEMA,
            "rows": [row_json(row) for row in self.rows],
            "images": [dataclasses.asdict(image) for image in self.images],
            "per_image": [
                {**setup_json(one.setup), "metric": one.metric, "image": one.image}
                | {"value": finite_or_none(one.value), "truth": one.truth, "guess": one.guess}
                for one in self.per_image
            ],
            "floor": [row_json(row) for row in self.floor],
            "identified": [{**one.to_json(), "which": list(one.images)} for one in self.identified],
            "failures": [
                {**setup_json(one.setup), "images": list(one.images), "reason": one.reason} for one in self.failures
            ],
            "pending": self.pending,
            "choices": self.choices,
            "judges": list(self.judges),
            "margins": {name: MARGINS[name] for name in self.judges},
            "gallery": self.gallery,
            "skipped": list(self.skipped),
            "left_out": list(self.left_out),
            "settings": {**dataclasses.asdict(self.plan), "terms": self.terms, "versions": self.versions},
        }

    def save(self) -> Path:
        """Write ``audit.json`` into the study's directory."""
        path = self.directory / RESULT_FILE
        write_atomic(path, json.dumps(self.to_json(), indent=1, allow_nan=False).encode())
        return path

    def _repr_html_(self) -> str:
        """Show the result in a notebook."""
        from html import escape

        def interval(value: Interval) -> str:
            missing = math.isnan(value.low)
            return why_no_interval(value.images) if missing else f"{value.low:.4g} to {value.high:.4g}"

        head = "<tr><th>defense<th>attack<th>metric<th>mean<th>95 % interval<th>images</tr>"
        body = "".join(
            f"<tr><td>{escape(row.setup.defense)}<td>{escape(row.setup.attack)}<td>{escape(row.metric)}"
            + (
                f"<td>{row.value.mean:.4g}<td>{interval(row.value)}<td>{row.value.images}</tr>"
                if row.value
                else f"<td colspan=3>n/a: {escape(row.reason or '')}</tr>"
            )
            for row in self.rows
        )
        return f"<table>{head}{body}</table>"


def collect(plan: Plan, study: Study, measures: Measures) -> AuditResult:
    """Gather the tables of an audit, which has one subject, from its store."""
    (subject,) = study.subjects
    table = Table.of(study, subject, measures)
    return AuditResult(
        directory=study.directory,
        plan=plan,
        images=tuple(study.store.images()),
        rows=tuple(table.rows()),
        per_image=tuple(table.per_image()),
        floor=tuple(table.floor()),
        identified=tuple(table.identified()),
        failures=tuple(table.failures()),
        pending=table.pending(),
        judges=tuple(measures.judges),
        gallery=subject.gallery_origin,
        terms=subject.terms,
        skipped=subject.skipped,
        left_out=study.left_out,
        choices=study.choices.to_json(),
        seconds=table.seconds(),
    )
