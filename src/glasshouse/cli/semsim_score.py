"""``glasshouse semsim score``: two folders of pictures, pair by pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def score(
    truth: Annotated[Path, typer.Argument(metavar="TRUTH_DIR", help="folder of originals")],
    guess: Annotated[Path, typer.Argument(metavar="GUESS_DIR", help="folder of reconstructions, of the same names")],
    file: Annotated[Path | None, typer.Option(help="a network of your own [default: the shipped one]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print all scores as JSON")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="print all scores as CSV")] = False,
) -> None:
    """Score reconstructions against originals: the distance, and how likely a judge recognises the original."""
    from glasshouse.errors import SettingError
    from glasshouse.metrics.semsim import SemSim
    from glasshouse.semsim.files import digest
    from glasshouse.studies.folders import score_folders
    from glasshouse.types import flat

    if as_json and as_csv:
        raise SettingError("--json and --csv are two forms of one answer: give one of them.")
    found = score_folders(truth, guess, file)
    metric = SemSim(file=None if file is None else str(file))
    mean = metric.mean([one.semsim for one in found])
    if as_json:
        told = {
            "schema": 1,
            "network": digest(metric.path),
            **flat("mean", mean),
            "pairs": [one.to_json() for one in found],
        }
        print(json.dumps(told, indent=1, allow_nan=False))
    elif as_csv:
        import csv
        import sys

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("name", "semsim", "probability"))
        writer.writerows((one.name, one.semsim, one.probability) for one in found)
    else:
        for one in found:
            print(f"{one.name}: {one.semsim:.4f}, recognised with probability {one.probability:.2f}")
        print(f"mean {mean:.4f} of {mean.images} pair{'' if mean.images == 1 else 's'}; low values leak")
