"""How near protected images, and what attackers make of them, come to their originals by SemSim, as a table."""

from __future__ import annotations

import json
from pathlib import Path

from page_tables import table

from glasshouse.reports.comparison import nearest, number

SENT = "protected image"
HEADS = ["data", "defense", "what is sent", "nearest picture of an attacker", "by", "region means alone", "images"]
MEANS = "baseline: down-sampled"
EQUAL = ("images", "gallery", "train", "steps", "versions", "seed")  # what the attacker spends

TEXT = """An eavesdropper between collection and compute node holds what is sent and everything but the key, and tries
all parts of the [unshuffle](../attacks/unshuffle.md) attack; learned ones practise on public images, with equal compute
for every defense. [SemSim](../metrics/semsim.md) is 0 for the original itself and grows as less can be recognised; it
learned from classifiers' judgements, not from people's, and among much else from ORL faces, some of which may be these.
*Region means alone*: a thumbnail of the original with a pixel for each of CSVAR's regions, which no shuffle inside
regions hides. `glasshouse compare` measured it at the resolution of the federations above; how often a classifier still
names the class, and who is who, is [another page](csvar.md).
"""


def rows_of(directory: Path) -> list[dict]:
    """What a comparison found by SemSim, a row for each defense."""
    found = json.loads((directory / "comparison.json").read_text())["rows"]
    return [_row(row) for row in found if any("semsim" in part["scores"] for part in row.get("parts", ()))]


def refuse_unequal(rows: list[dict]) -> None:
    """Refuse rows that were measured with other settings: they would compare attackers, not defenses."""
    if len({json.dumps(row["plan"], sort_keys=True) for row in rows}) > 1:
        raise SystemExit("These comparisons were made with different settings: measure them alike.")


def _row(row: dict) -> dict:
    parts = {one["part"]: one["scores"] for one in row["parts"] if "semsim" in one["scores"]}
    made = {name: scores for name, scores in parts.items() if not name.startswith("baseline")}
    by, best = nearest(made)
    return {
        "dataset": row["plan"]["dataset"],
        "defense": row["variant"],
        "plan": {name: row["plan"][name] for name in EQUAL},
        "sent": parts[SENT]["semsim"],
        "nearest": best,
        "by": by,
        "means": parts[MEANS]["semsim"],
    }


def seen_table(rows: list[dict]) -> list[str]:
    """The rows as a table in Markdown."""
    lines = [
        [
            row["dataset"],
            row["defense"],
            number(row["sent"]),
            number(row["nearest"]),
            row["by"],
            number(row["means"]),
            str(row["sent"]["images"]),
        ]
        for row in rows
    ]
    return ["", *table(HEADS, lines), ""]
