"""The one table that leaves a grid study: a line for each reconstruction, with all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.metrics import Metric, create
from glasshouse.store import CaseRecord, ImageRecord, Location, ReconstructionRecord, Store, Votes
from glasshouse.studies.grid.plan import FRESH, Grid
from glasshouse.studies.grid.results import UNTRAINED
from glasshouse.studies.grid.targets import spellings_of
from glasshouse.studies.reading import read_grid
from glasshouse.studies.scoring import IDENTIFIED, MARGINS, Scores, score_name, shows
from glasshouse.studies.table import batchnorm_known, labels_known
from glasshouse.types import JSON
from glasshouse.votes.judgement import Judgement, judge_reconstructions


@dataclass(frozen=True, slots=True)
class Line:
    """One reconstruction; ``seen`` is the machine's rule, ``recognised`` that of human votes where there are any."""

    dataset: str
    model: str
    recipe: str
    training_seed: int
    epoch: int
    accuracy: float | None
    defense: str
    attack: str
    tuned: bool
    batchnorm: str
    batch: int
    labels: str
    seed: int
    defense_spec: str
    attack_spec: str
    image: int
    identity: str
    label: int
    class_name: str
    truth: str
    guess: str
    truth_sha256: str
    seconds: float | None
    snr_db: float | None
    seen: bool
    votes: int
    votes_matching: int
    recognised: bool | None
    scores: Mapping[str, float | None]

    @property
    def setup(self) -> tuple[object, ...]:
        """What lines have in common that a table sums up in one row."""
        network = self.dataset, self.model, self.recipe, self.training_seed, self.epoch
        return *network, self.defense, self.attack, self.batchnorm, self.labels


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """All that the store of a study knows, ready to be joined."""

    cases: dict[str, CaseRecord]
    images: dict[int, ImageRecord]
    origins: dict[tuple[str, str, str], tuple[str, int, int, float | None]]
    scores: Scores
    told: dict[int, str]
    metrics: dict[str, Metric]
    judges: dict[str, Metric]
    judged: dict[tuple[str, int], Judgement]


def lines(directory: Path) -> list[Line]:
    """Every reconstruction that the plan asks for, in the order of the plan."""
    grid = read_grid(directory)
    location = Location.of(directory)
    if not location.exists():
        raise StudyError(f"{directory} holds no results: run 'glasshouse study run {directory}' first.")
    store, votes = Store(location.database), Votes(location.database)
    try:
        known = _known(grid, store, votes)
        found = [one for one in store.reconstructions() if one.case_key in known.cases]
    finally:
        store.close()
        votes.close()
    return [_line(known, one) for one in found]


def _known(grid: Grid, store: Store, votes: Votes) -> _Known:
    scores, origins = store.scores(), _origins(store)  # a network that is to be trained again has no lines meanwhile
    singles = {text: metric for text in grid.metrics if isinstance(metric := create(text), Metric)}
    present = {name for _, _, name in scores}
    judges = {text: metric for text in MARGINS if isinstance(metric := create(text), Metric)}
    return _Known(
        {one.key: one for one in store.cases() if one.planned and _network(one.described) in origins},
        {one.place: one for one in store.images()},
        origins,
        scores,
        {place: name for _, place, name in scores if name.startswith(IDENTIFIED)},
        singles,
        {text: metric for text, metric in judges.items() if score_name(metric) in present},
        judge_reconstructions(votes),
    )


def _origins(store: Store) -> dict[tuple[str, str, str], tuple[str, int, int, float | None]]:
    """Recipe, seed, epoch and accuracy of every network, by its data set, model and weights."""
    found: dict[tuple[str, str, str], tuple[str, int, int, float | None]] = {}
    for one in store.targets():
        if not one.planned or one.state != "done":
            continue
        facts = one.described
        for epoch, weights in one.outcome["weights"].items():
            recipe = UNTRAINED if int(epoch) == FRESH else facts["recipe"]
            origin = recipe, facts["seed"], int(epoch), one.outcome["accuracy"].get(epoch)
            for dataset in spellings_of(facts):
                found.setdefault((dataset, facts["model"], weights), origin)
    return found


def _network(facts: JSON) -> tuple[str, str, str]:
    """Which network a case attacks."""
    return facts["dataset"], facts["model"], facts["weights"]


def _line(known: _Known, one: ReconstructionRecord) -> Line:
    case, image = known.cases[one.case_key], known.images[one.place]
    facts = case.described
    recipe, training_seed, epoch, accuracy = known.origins[_network(facts)]
    votes = known.judged.get((one.case_key, one.place))
    return Line(
        dataset=facts["dataset"],
        model=facts["model"],
        recipe=recipe,
        training_seed=training_seed,
        epoch=epoch,
        accuracy=accuracy,
        defense=facts["defense"],
        attack=facts["attack"],
        tuned=facts["tuned"],
        batchnorm=batchnorm_known(facts["batchnorm"], facts["has_batchnorm"]),
        batch=len(facts["images"]),
        labels=labels_known(facts["labels"], facts["attack_spec"]),
        seed=facts["seed"],
        defense_spec=facts["defense_spec"],
        attack_spec=facts["attack_spec"],
        image=one.place,
        identity=image.identity,
        label=image.label,
        class_name=image.class_name,
        truth=image.file,
        guess=one.file,
        truth_sha256=image.sha256,
        seconds=case.outcome.get("seconds"),
        snr_db=case.outcome.get("snr_db"),
        seen=shows(known.scores, known.judges, one, known.told.get(one.place, IDENTIFIED)),
        votes=votes.votes if votes else 0,
        votes_matching=votes.matching if votes else 0,
        recognised=votes.recognised if votes else None,
        scores={
            text: known.scores.get((one.case_key, one.place, score_name(metric)))
            for text, metric in known.metrics.items()
        },
    )
