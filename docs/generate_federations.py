"""The CSVAR paper's evaluation on real data: what studies of the preset ``csvar`` found, into docs/results, as a page.

python docs/generate_federations.py DIRECTORY ..., of 'glasshouse study run', finished or not, and of 'glasshouse
compare'. What was found is added to what is kept already, so that a long plan may be run in parts; without arguments
only the page is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from federations_figures import draw, draw_roc, draw_rounds
from federations_page import RARE, page
from federations_rows import compared, named, networks, ordered, split
from federations_seen import refuse_unequal, rows_of

from glasshouse.reports.federations_view import last_round
from glasshouse.studies.federations.results import read_results

FILE = Path(__file__).parent / "results" / "federations.json"
SEEN = FILE.with_name("federations-seen.json")
ROC, ROUNDS = FILE.with_name("federations-roc.png"), FILE.with_name("federations-rounds.png")
POINTS = 30  # of a ROC curve that is kept
DIGITS = 4
#: Settings that may differ between parts of one study: what they run, and words about it.
LISTS = ("datasets", "models", "defenses", "extra", "single", "brief", "seeds", "shadow_membership")
LABELS = ("title", "versions")


def export(studies: list[Path]) -> None:
    """Add settings and figures of the studies to those that are kept, and draw the pictures."""
    held = json.loads(FILE.read_text()) if FILE.is_file() else []
    content = merged([*held, *(kept(read_results(study)) for study in studies)])
    FILE.write_text(json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n")
    rows = ordered(content)
    draw(ROC, networks(split(rows)[0]), draw_roc, "others taken for members", "members found")
    draw(ROUNDS, compared(rows), draw_rounds, "round", "share")


def export_seen(comparisons: list[Path]) -> None:
    """Add what comparisons found by SemSim to what is kept; what is measured anew takes the place of what was."""
    rows = [*seen(), *(row for directory in comparisons for row in rows_of(directory))]
    content = rounded(list({(row["dataset"], row["defense"]): row for row in rows}.values()))
    refuse_unequal(content)
    SEEN.write_text(json.dumps(content, indent=0, allow_nan=False) + "\n")


def seen() -> list[dict]:
    """What is kept of comparisons."""
    return json.loads(SEEN.read_text()) if SEEN.is_file() else []


def merged(studies: list[dict]) -> list[dict]:
    """Studies that differ in nothing but what they list, as one: what is finished stays until it is done again."""
    found: dict[str, dict] = {}
    for one in studies:
        alike = json.dumps({name: value for name, value in one["settings"].items() if name not in (*LISTS, *LABELS)})
        held = found.setdefault(alike, {"settings": one["settings"], "rows": []})
        lists = {
            name: list(dict.fromkeys([*held["settings"].get(name, ()), *one["settings"].get(name, ())]))
            for name in LISTS
        }
        rows = {named(row): row for row in held["rows"]}
        done = {name for name, row in rows.items() if "accuracy" in row}
        rows |= {named(row): row for row in one["rows"] if "accuracy" in row or named(row) not in done}
        found[alike] = {"settings": {**one["settings"], **lists}, "rows": list(rows.values())}
    return list(found.values())


def kept(results: dict) -> dict:
    """What the page needs of one study: of ROC curves those of the last round, with few points."""
    rows = [trimmed(row) if "accuracy" in row else row for row in results["rows"]]
    return {"settings": results["settings"], "rows": rounded(rows)}


def trimmed(row: dict) -> dict:
    """A row with thin curves of the last round alone."""
    last = str(last_round(row))
    told = {
        when: {name: thin(one, curve=when == last) for name, one in found.items()}
        for when, found in row["membership"].items()
    }
    shadowed = {name: thin(one, curve=True) for name, one in row.get("shadowed", {}).items()}
    return {**row, "membership": told, **({"shadowed": shadowed} if shadowed else {})}


def thin(asked: dict, *, curve: bool) -> dict:
    """What one attack told, with few points of its curve or none."""
    found = {name: asked[name] for name in ("auc", RARE)}
    if not curve:
        return found
    fpr = np.unique(np.concatenate([np.linspace(0, 1, POINTS), np.geomspace(1e-3, 1, POINTS // 3)]))
    tpr = np.interp(fpr, asked["roc"]["fpr"], asked["roc"]["tpr"])
    return {**found, "roc": {"fpr": fpr.tolist(), "tpr": tpr.tolist()}}


def rounded(value: Any) -> Any:
    """The same with fewer digits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return round(value, DIGITS) if isinstance(value, float) else value


if __name__ == "__main__":
    given = [Path(one) for one in sys.argv[1:]]
    comparisons = [one for one in given if (one / "comparison.json").is_file()]
    if comparisons:
        export_seen(comparisons)
    if studies := [one for one in given if one not in comparisons]:
        export(studies)
    FILE.with_suffix(".md").write_text(page(json.loads(FILE.read_text()), seen()))
