"""Whether a study stays within limits; used by continuous integration."""

from __future__ import annotations

import json
import math
from pathlib import Path

from glasshouse.errors import SettingError, StudyError
from glasshouse.metrics import metrics
from glasshouse.registry import parse_spec
from glasshouse.studies.results import SCHEMA
from glasshouse.studies.study import MEMBERSHIP_FILE, RESULT_FILE
from glasshouse.types import JSON

STUDY_FILE = "study.json"  # of a study of many models
PARTS = {
    "schema",
    "rows",
    "per_image",
    "images",
    "floor",
    "identified",
    "failures",
    "pending",
    "settings",
    "judges",
    "margins",
    "gallery",
}


def read_results(directory: Path) -> JSON:
    """Read the machine-readable results of a study directory."""
    path = directory / RESULT_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if (directory / MEMBERSHIP_FILE).is_file():
            raise StudyError(
                f"{directory} is an audit of membership, which the gate does not read: see its report."
            ) from None
        if (directory / STUDY_FILE).is_file():
            raise StudyError(
                f"{directory} is a study of many models, which audits' commands do not read: use 'glasshouse study "
                f"report {directory}' or 'study status'."
            ) from None
        raise StudyError(
            f"{directory} holds no {RESULT_FILE}: run 'glasshouse audit --out {directory}' first."
        ) from None
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read ({error}): run the audit again.") from error
    if not isinstance(found, dict) or not found.keys() >= PARTS or found["schema"] != SCHEMA:
        raise StudyError(f"{path} holds no audit of schema {SCHEMA}: run the audit again.")
    return found


def judge(
    results: JSON,
    *,
    max_recognised: str | None = None,
    max_told: str | None = None,
    limits: tuple[str, ...] = (),
    defense: str | None = None,
    confident: bool = False,
) -> tuple[bool, str]:
    """Whether the worst setup is within every limit, and one line that says why.

    ``max_recognised`` limits the share seen, ``max_told`` the share told apart from others, whatever it looks like.
    ``confident`` holds the upper end of a share's interval against its limit, so that few images prove little.
    """
    if max_recognised is None and max_told is None and not limits:
        raise SettingError("The gate has no limit: give --max-recognised 5%, --max-told 5% or --max METRIC=VALUE.")
    if results.get("pending") or results.get("failures"):
        open_cases = results.get("pending", 0) + len(results.get("failures", ()))
        return False, f"closed: {open_cases} cases are pending or failed, so the study proves nothing yet"
    reasons = []
    end = "high" if confident else "mean"
    if max_recognised is not None:
        rows, limit = _of(results["identified"], defense), _limited_share("--max-recognised", max_recognised)
        reasons.append(_share(rows, limit, end, "recognised", "told from 100 others, no people were asked"))
    if max_told is not None:
        rows, limit = _of(results["identified"], defense), _limited_share("--max-told", max_told)
        told = [row | row["told"] for row in rows]
        reasons.append(_share(told, limit, end, "told apart", "from 100 others, whatever they look like"))
    reasons += [_metric(_of(results["rows"], defense), *_limit(text)) for text in limits]
    closed = [line for passed, line in reasons if not passed]
    if closed:
        return False, f"closed: {'; '.join(closed)}"
    return True, f"open: {'; '.join(line for _, line in reasons)}"


def _of(rows: list[JSON], defense: str | None) -> list[JSON]:
    chosen = [row for row in rows if defense is None or row["defense"] == defense]
    if not chosen:
        known = ", ".join(sorted({row["defense"] for row in rows})) or "none"
        raise SettingError(f"The study has no rows for defense '{defense}': it has {known}.")
    return chosen


def _share(rows: list[JSON], limit: float, end: str, verb: str, note: str) -> tuple[bool, str]:
    """``end`` is ``mean`` for the share found, ``high`` for the upper end of its interval."""
    worst = max(rows, key=lambda row: row[end])
    line = (
        f"{worst['mean']:.0%} of {worst['images']} images {verb} by machine (95 % interval {worst['low']:.0%} to "
        f"{worst['high']:.0%}; {note}) under {worst['defense']} by {worst['attack']}, limit {limit:.0%}"
    )
    return worst[end] <= limit, line


def _metric(rows: list[JSON], metric: str, limit: float) -> tuple[bool, str]:
    found = [row for row in rows if row["metric"] == metric]
    if not found:
        known = ", ".join(sorted({row["metric"] for row in rows}))
        raise SettingError(f"The study has no metric '{metric}': it has {known}.")
    if all(row["images"] == 0 for row in found):
        return False, f"{metric} has no value ({found[0].get('reason')})"
    sign = 1 if metrics.get(parse_spec(metric)[0]).leaks_when == "high" else -1
    values = [(sign * (sign * math.inf if row["mean"] is None else row["mean"]), row) for row in found if row["images"]]
    leak, worst = max(values, key=lambda pair: pair[0])
    line = f"{metric} {sign * leak:.4g} under {worst['defense']} by {worst['attack']}, limit {limit:g}"
    return leak <= sign * limit, line


def _limited_share(option: str, text: str) -> float:
    try:
        value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise SettingError(f"{option} {text} is not a share: write 5% or 0.05.")
    return value


def _limit(text: str) -> tuple[str, float]:
    metric, equals, value = text.rpartition("=")
    try:
        if not equals or not math.isfinite(float(value)):
            raise ValueError
        return metric, float(value)
    except ValueError:
        raise SettingError(f"--max {text} is not METRIC=VALUE: write for example psnr=20.") from None
