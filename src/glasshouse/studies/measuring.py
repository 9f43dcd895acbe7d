"""Metrics of judged guesses; what a study's database has scored already is not measured again."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from glasshouse.errors import SettingError
from glasshouse.metrics import Metric, create
from glasshouse.store import Location, Score, Store
from glasshouse.studies.judgements import Judgements, batches
from glasshouse.studies.scoring import score_name
from glasshouse.types import ImageSpec

CHUNK = 128


def measured(judgements: Judgements, spec: str) -> Tensor:
    """A metric of every guess, (K,); NaN where it is not defined for images of that size."""
    metric = create(spec)
    if not isinstance(metric, Metric):
        raise SettingError(f"{spec} is a metric of sets: give one of single images.")
    name = score_name(metric)
    known = _known(judgements, name)
    found = torch.full((len(judgements.guesses),), torch.nan)
    fresh: dict[Path, list[Score]] = {}
    for places, truths, guesses in batches(judgements, CHUNK):
        left = [row for row, place in enumerate(places) if _key(judgements, place) not in known]
        if (
            left
            and metric.why_not(ImageSpec(truths.shape[1], truths.shape[2], truths.shape[3], 1), len(truths)) is None
        ):
            values = metric(truths[left], guesses[left]).tolist()
            for row, value in zip(left, values, strict=True):
                study, case_key, place = _key(judgements, places[row])
                known[study, case_key, place] = value
                fresh.setdefault(study, []).append(Score(case_key, place, name, None if value != value else value))
        for place in places:
            found[place] = known.get(_key(judgements, place), torch.nan)
    _keep(fresh)
    return found


def _key(judgements: Judgements, place: int) -> tuple[Path, str, int]:
    guess = judgements.guesses[place]
    return guess.study, guess.case_key, guess.place


def _known(judgements: Judgements, name: str) -> dict[tuple[Path, str, int], float]:
    found: dict[tuple[Path, str, int], float] = {}
    for study in dict.fromkeys(guess.study for guess in judgements.guesses):
        store = Store(Location.of(study).database)
        scores = store.scores()
        store.close()
        found |= {
            (study, case, place): value
            for (case, place, metric), value in scores.items()
            if metric == name and value is not None
        }
    return found


def _keep(fresh: dict[Path, list[Score]]) -> None:
    for study, scores in fresh.items():
        store = Store(Location.of(study).database)
        store.add_scores(scores)
        store.close()
