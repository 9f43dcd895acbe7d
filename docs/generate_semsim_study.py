"""The study behind SemSim: what it found into docs/results/semsim-study.json and pictures, then the page from them.

python docs/generate_semsim_study.py EVALUATION_DIR... STUDY...; without arguments only the page is written. Directories
that hold evaluation.json or ablation.json (``glasshouse semsim evaluate --out`` and ``ablate --out``) are evaluations,
the others studies of the presets ``semsim``, ``semsim_gradattack``, ``semsim_dlg`` and ``semsim_cafe``, or, where they
attack training parts, pilots of these. All may be unfinished, and cover some data sets, attacks or variants only: what
is kept of others stays, and the page says what is missing.
"""

from __future__ import annotations

import json
import statistics
import sys
from operator import itemgetter
from pathlib import Path

from generate_semsim import differences
from semsim_study_page import DATASETS, FOLDER, PICTURE, page
from semsim_study_pilots import is_pilot
from semsim_study_pilots import rows as piloted

from glasshouse import data
from glasshouse.errors import DataError
from glasshouse.functional.intervals import mean_interval
from glasshouse.metrics import create
from glasshouse.reports.semsim import draw_ablation, draw_contradictions, draw_judged
from glasshouse.store import Location, Store
from glasshouse.studies.ablation import in_panels
from glasshouse.studies.evaluation import learned
from glasshouse.studies.judgements import Judgements, kind_of
from glasshouse.studies.measuring import measured
from glasshouse.studies.ordering import contradictions, orderings
from glasshouse.studies.reading import read_grid
from glasshouse.studies.semsim import whose
from glasshouse.studies.voted import by_testers

RESULTS = FOLDER / "semsim-study.json"
PAGE = FOLDER / "semsim.md"
METRICS = ("psnr", "mse", "ssim", "lpips")


def subject(row: dict) -> tuple[str, ...]:
    """A data set and its attacks, whatever the settings of both: what was found with others is found anew."""
    specs = (spec.rpartition("| ")[2] for spec in row["attacks"])  # some are for one model only
    return (row["dataset"].partition(":")[0], *sorted({spec.partition(":")[0] for spec in specs}))


#: What a row is about.
NAMED = {
    "targets": subject,
    "recognised": subject,
    "tests": itemgetter("axis", "left_out"),
    "ablation": itemgetter("panel", "value"),
    "pilots": itemgetter("dataset", "model", "attack"),
}


def export(evaluations: list[Path], studies: list[Path]) -> None:
    """Keep what was found: shares and correlations, no vote and no image but for the thumbnails of pictures."""
    pilots = [study for study in studies if is_pilot(study)]
    studies = [study for study in studies if study not in pilots]
    found = {
        "pilots": [row for study in pilots for row in piloted(study)],
        "targets": [row for study in studies for row in targets(study)],
        "recognised": [row for study in studies for row in recognised(study)],
        "tests": [one for folder in evaluations for one in _tests(folder)],
        "ablation": [row for folder in evaluations for row in ablated(folder)],
    }
    whole = merged(_json(RESULTS), found)
    RESULTS.write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n")
    if found["ablation"]:
        _keep("ablation", draw_ablation(whole["ablation"]))
    for folder in evaluations:
        for room in sorted(folder.glob("data-set-*")):
            _keep(room.name.replace("data-set-", "order-"), _read(room / "order-0.png"))
            if room.name == f"data-set-{DATASETS[0]}":
                _keep("metrics", _read(room / "metric-against-metric.png"))
                scatters = (room / f"metric-against-{who}.png" for who in ("classifiers", "human"))
                _keep("judges", next((content for file in scatters if (content := _read(file))), None))
    for study in studies:
        draw(study)


def merged(held: dict, found: dict) -> dict:
    """What was kept before with what was found since, which takes the place of rows about the same thing."""
    tried = {(row["left_out"], row["testers"]) for row in found["ablation"]}
    kept = {part: list(held.get(part, ())) for part in NAMED}
    # variants that others tested, or on other pictures, do not compare
    kept["ablation"] = [row for row in kept["ablation"] if not tried or (row["left_out"], row["testers"]) in tried]
    rows = {
        part: list({tuple(map(str, named(row))): row for row in [*kept[part], *found.get(part, ())]}.values())
        for part, named in NAMED.items()
    }
    rows["ablation"] = in_panels(rows["ablation"])
    return rows | {"before": held.get("before")}  # what judges of an older make found


def ablated(folder: Path) -> list[dict]:
    """The rows of an ablation, each with the passes over the judgements that were asked for, where any were."""
    found = _json(folder / "ablation.json")
    passes = found.get("asked", {}).get("lesson", {}).get("recipe", {}).get("epochs")
    return [row | {"passes": passes} for row in found.get("rows", ())]


def _tests(folder: Path) -> list[dict]:
    """The tests of an evaluation, without what is kept of single models."""
    found = _json(folder / "evaluation.json")
    kept = []
    for test in found.get("tests", ()):
        correlation = test["correlation"]
        if correlation is not None:
            one = {key: value for key, value in correlation.items() if not isinstance(value, (dict, list))}
            metrics = {name: dict(metric, means=None) for name, metric in correlation["metrics"].items()}
            less = {other: difference for _, other, difference in differences({"tests": [test]})}
            test = test | {
                "correlation": one | {"metrics": metrics, "models": len(correlation["recognised"]), "ahead": less}
            }
        kept.append(test | {"teachers": found["teachers"], "testers": found["testers"]})
    return kept


def _json(file: Path) -> dict:
    """What a file holds; nothing where there is none."""
    return json.loads(file.read_text()) if file.is_file() else {}


def _read(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _keep(name: str, content: bytes | None) -> None:
    if content is not None:
        (FOLDER / PICTURE.format(name)).write_bytes(content)


def targets(study: Path) -> list[dict]:
    """Of each data set of a study: how right its networks are at each checkpoint, and how many cases are finished."""
    grid = read_grid(study)
    store = Store(Location.of(study).database)
    networks, cases = store.targets(), [case for case in store.cases() if case.planned]
    store.close()
    rows = []
    for dataset in grid.datasets:
        own = [one for one in networks if one.planned and one.described["dataset"] == dataset]
        right = [share for one in own if one.state == "done" for share in one.outcome["accuracy"].values()]
        states = [case.state for case in cases if case.described["dataset"] == dataset]
        rows.append(
            {
                "dataset": dataset,
                "attacks": list(grid.attacks),
                "models": list(grid.models),
                "classes": len(data.load(dataset, split="test").class_names),
                "networks": len(own),
                "checkpoints": list(grid.checkpoints),
                "right": sorted(right),
                "done": states.count("done"),
                "failed": states.count("failed"),
                "left": states.count("pending"),
            }
        )
    return rows


def judged(study: Path) -> Judgements | None:
    """The judgements by which a study is tested; None where there are none yet."""
    try:
        return learned(by_testers([study], kind_of([study], None)))
    except DataError:
        return None


def recognised(study: Path) -> list[dict]:
    """Of each data set of a study: the share of votes that recognised what attacks made, with an interval."""
    found = judged(study)
    rows = []
    for dataset in read_grid(study).datasets if found is not None else ():
        some = found.only(lambda guess, dataset=dataset: found.dataset_of(guess) == dataset)
        if some.guesses:
            votes = (
                [guess.share for guess in some.guesses if guess.owner == own] for own in range(len(some.originals))
            )
            share = mean_interval([statistics.mean(one) for one in votes], within=(0, 1))
            attack = sorted({str(guess.facts["attack"]) for guess in some.guesses})
            rows.append(
                {"dataset": dataset, "attacks": attack, "judges": whose(some), "originals": len(some.originals)}
                | {"share": share.mean, "low": share.low, "high": share.high, "images": len(some.guesses)}
            )
    return rows


def draw(study: Path) -> None:
    """Figures 1 and 5 of the first data set in which judges recognised some reconstructions only."""
    found = judged(study)
    for dataset in found.datasets if found is not None else ():
        some = found.only(lambda guess, dataset=dataset: found.dataset_of(guess) == dataset)
        values = {name: measured(some, name).double().numpy() for name in METRICS}
        turned = {name: one if create(name).leaks_when == "high" else -one for name, one in values.items()}
        rows = orderings(some, values["psnr"], -values["psnr"])
        pairs = contradictions(some, turned)
        subject = "-".join(one.partition(":")[0] for one in (dataset, str(some.guesses[0].facts["attack"])))
        if rows:
            _keep(f"judged-{subject}", draw_judged(rows))
        if pairs:
            _keep(f"contradictions-{subject}", draw_contradictions(pairs))
        if rows or pairs:
            return


def main() -> None:
    """Write the results where directories are given, and the page."""
    folders = [Path(folder) for folder in sys.argv[1:]]
    if folders:
        made = ("evaluation.json", "ablation.json")
        evaluations = [folder for folder in folders if any((folder / name).is_file() for name in made)]
        export(evaluations, [folder for folder in folders if folder not in evaluations])
    if RESULTS.is_file():
        PAGE.write_text(page(json.loads(RESULTS.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
