"""``glasshouse report``: write the report of a study or a federation again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(study: Annotated[Path, typer.Argument(help="study directory")]) -> None:
    """Write STUDY/report/index.html again from what a study, or a federation that 'flwr run' made, holds."""
    from glasshouse.federated.run import is_federation, read_federation
    from glasshouse.reports import write_report
    from glasshouse.reports.federation import write_federation_report

    page = write_federation_report(read_federation(study)) if is_federation(study) else write_report(study)
    print(f"Report: {page}")
