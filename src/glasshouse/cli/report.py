"""``glasshouse report``: write the report of a study again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(study: Annotated[Path, typer.Argument(help="study directory")]) -> None:
    """Write STUDY/report/index.html again from what the study holds."""
    from glasshouse.reports import write_report

    print(f"Report: {write_report(study)}")
