"""Votes as JSON: one object for each line of the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from glasshouse.votes.lines import Line

SCHEMA = 1


def to_json(lines: Sequence[Line]) -> bytes:
    """The table with its schema's number; answers as a list."""
    votes = [{**asdict(line), "answers": json.loads(line.answers)} for line in lines]
    return json.dumps({"schema": SCHEMA, "votes": votes}, indent=1, ensure_ascii=False, allow_nan=False).encode()
