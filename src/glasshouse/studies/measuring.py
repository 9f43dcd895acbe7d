"""Metrics of judged guesses; what a study's database has scored already is not measured again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch
from torch import Tensor

from glasshouse.errors import SettingError
from glasshouse.metrics import Metric, create
from glasshouse.store import Location, Score, Store
from glasshouse.studies.judgements import Guess, Judgements, batches
from glasshouse.studies.pictures import fingerprint, to_pixels
from glasshouse.studies.scoring import score_name
from glasshouse.types import ImageSpec

CHUNK = 128

#: Under which a score is kept: study, case and place.
Key = tuple[Path, str, int]


def measured(judgements: Judgements, spec: str) -> Tensor:
    """A metric of every guess, (K,); NaN where it is not defined for images of that size."""
    metric = create(spec)
    if not isinstance(metric, Metric):
        raise SettingError(f"{spec} is a metric of sets: give one of single images.")
    name = score_name(metric)
    keys = [_key(guess) for guess in judgements.guesses]
    known = _known({study for study, _, _ in keys}, name)
    fresh: dict[Path, list[Score]] = {}
    for places, truths, guesses in batches(judgements, CHUNK):
        left = [row for row, place in enumerate(places) if keys[place] not in known]
        if (
            left
            and metric.why_not(ImageSpec(truths.shape[1], truths.shape[2], truths.shape[3], 1), len(truths)) is None
        ):
            values = metric(truths[left], guesses[left]).tolist()
            for row, value in zip(left, values, strict=True):
                study, case_key, place = keys[places[row]]
                known[study, case_key, place] = value
                fresh.setdefault(study, []).append(Score(case_key, place, name, None if value != value else value))
    _keep(fresh)
    return torch.tensor([known.get(key, torch.nan) for key in keys])


def _key(guess: Guess) -> Key:
    """Where the scores of a guess are kept; of copies that no case made each task has its own: the picture tells."""
    made = guess.case_key if guess.facts else f"{guess.case_key} {fingerprint(to_pixels(guess.picture))[:24]}"
    return guess.study, made, guess.place


def _known(studies: Collection[Path], name: str) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for study in studies:
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
