"""How well SemSim holds up on what it never saw: data sets, attacks and models that are left out of its training.

Where people voted, they teach and they test. Else some classifiers teach and others, of another make, test. Originals
of an attack or a model that is left out may have taught through other attacks or models; those of a data set never do.
Networks that have not learned are nobody's targets, so that reconstructions through them are left out of tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from glasshouse import data
from glasshouse.errors import DataError, GlasshouseError
from glasshouse.functional.intervals import Array
from glasshouse.functional.threads import one_thread
from glasshouse.metrics import create
from glasshouse.semsim import Network
from glasshouse.store import Kind
from glasshouse.studies.correlation import Correlation, correlation
from glasshouse.studies.judgements import TEACHERS, Guess, Judgements, batches, kind_of, read
from glasshouse.studies.learned import enough_for
from glasshouse.studies.ordering import Ordering, orderings
from glasshouse.studies.runner import RunProgress
from glasshouse.studies.semsim import Lesson, whose
from glasshouse.studies.voted import METRICS, by_testers, columns, judged_by, labels_of, refuse_none, tells
from glasshouse.types import JSON

SCHEMA = 2  # the first did not say what was asked
CLASSIFIER = "classifier"  # the paper's other way: how many of the teaching classifiers are right
CHUNK = 32

DATA_SET = "data set"

#: By what training and test are told apart, and how a guess says it.
AXES: Mapping[str, Callable[[Judgements, Guess], str]] = {
    DATA_SET: lambda judgements, guess: _name(judgements.dataset_of(guess)),
    "attack": lambda judgements, guess: _name(str(guess.facts.get("attack", ""))),
    "model": lambda judgements, guess: _name(str(guess.facts.get("model", ""))),
}


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """One training and its test: what was left out, on how much the network learned, and what the test says.

    ``unlearned`` counts the models that were left out because they had not learned; ``tested`` are the originals of the
    others. ``missing`` are metrics without a value, and why; ``failed`` is why there is no test at all. ``orderings``
    are a few originals with what was made of them, to be looked at.
    """

    axis: str
    left_out: str
    originals: int
    guesses: int
    unlearned: int
    tested: int
    found: Correlation | None
    missing: Mapping[str, str]
    failed: str | None = None
    orderings: tuple[Ordering, ...] = ()

    def to_json(self) -> JSON:
        """As plain JSON."""
        return {
            "axis": self.axis,
            "left_out": self.left_out,
            "trained_originals": self.originals,
            "trained_guesses": self.guesses,
            "unlearned_models": self.unlearned,
            "tested_originals": self.tested,
            "missing": dict(self.missing),
            "failed": self.failed,
            "correlation": None if self.found is None else self.found.to_json(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Tests of a recipe, and who taught and who tested."""

    teachers: str
    testers: str
    judge: str
    tests: tuple[Evaluated, ...]

    def to_json(self) -> JSON:
        """What ``--json`` prints."""
        return {
            "schema": SCHEMA,
            "teachers": self.teachers,
            "testers": self.testers,
            "judge": self.judge,
            "tests": [one.to_json() for one in self.tests],
        }


def panels(
    studies: Sequence[Path], lessons: Sequence[Path] = (), judges: Kind | None = None
) -> tuple[Judgements, Judgements]:
    """The judgements that teach and those that test: people do both, of classifiers some are kept for tests.

    ``lessons`` are studies that teach only; people may test what classifiers taught there. ``judges`` says who tests,
    where not people do as soon as there are any. Nobody is tested on degraded copies, which no attack made.
    """
    tests = kind_of(studies, judges)
    teaches = kind_of(lessons, None) if lessons else tests
    teaching = read([*studies, *lessons], teaches, None if teaches == "human" else TEACHERS)
    return teaching, by_testers(studies, tests)


def evaluate(
    studies: Sequence[Path],
    lesson: Lesson,
    *,
    lessons: Sequence[Path] = (),
    axes: Sequence[str] = tuple(AXES),
    metrics: Sequence[str] = METRICS,
    judge: str = "mean",
    judges: Kind | None = None,
    done: Collection[tuple[str, str]] = (),
    progress: RunProgress = lambda done, total: None,
    keep: Callable[[Evaluation], None] = lambda found: None,
) -> Evaluation:
    """Train without each data set, attack and model of some studies in turn, and test on what was left out.

    ``lessons`` are further studies to learn from, but for what is left out; ``judges`` are those who test. ``keep`` is
    given what was found after every test; what is ``done``, by its axis and what was left out, is not made again.
    """
    for name in metrics:
        create(name)  # one that is not there is said before anything is trained
    teaching, testing = panels(studies, lessons, judges)
    splits = [(axis, value) for axis in axes for value in _values(testing, axis) if _others(teaching, axis, value)]
    if not splits:
        raise DataError("There is one data set, one attack and one model only: nothing can be left out; add studies.")
    found = Evaluation(whose(teaching), whose(testing), judge, ())
    with one_thread():
        for number, (axis, value) in enumerate(splits):
            progress(number, len(splits))
            if (axis, value) in done:
                continue
            test = without(teaching, testing, axis, value, lesson, metrics, judge)
            found = replace(found, tests=(*found.tests, test))
            keep(found)
    progress(len(splits), len(splits))
    return found


def without(
    teaching: Judgements,
    testing: Judgements,
    axis: str,
    value: str,
    lesson: Lesson,
    metrics: Sequence[str] = (),
    judge: str = "mean",
) -> Evaluated:
    """One training without something, and its test on that."""
    every = testing.only(lambda guess: AXES[axis](testing, guess) == value)
    # what a data set is called may differ between studies, its pictures tell
    tested = {original.pixels for original in every.originals} if axis == DATA_SET else set()
    known = {place for place, original in enumerate(teaching.originals) if original.pixels in tested}
    rest = teaching.only(lambda guess: AXES[axis](teaching, guess) != value and guess.owner not in known)
    left = learned(every)
    amounts = len(rest.originals), len(rest.guesses), _models(every) - _models(left), len(left.originals)
    missing: dict[str, str] = {}
    try:
        if not left.guesses:
            raise DataError("No network here has learned enough to be anybody's target.")
        network, _ = lesson.learn(rest)
        people = judged_by(left, judge)
        ours = {"semsim": distances(network, left)}
        if teaching.kind == "classifier":
            shares = _shares(teaching, left)
            if np.isnan(shares).any():
                missing[CLASSIFIER] = "no teaching classifier voted on some of these pictures"
            else:
                ours[CLASSIFIER] = shares
        values = columns(left, people, metrics, missing)
        values |= {name: column for name, column in ours.items() if tells(name, column, people, missing)}
        refuse_none(values, missing)
        leaks = {name: create(name).leaks_when for name in metrics if name in values}
        found = correlation(
            people, values, source=f"{axis} {value}", judge=judge, images=len(left.guesses), leaks=leaks
        )
    except GlasshouseError as error:  # one test that cannot be made leaves the others standing
        return Evaluated(axis, value, *amounts, None, missing, str(error))
    shown = orderings(left, values["psnr"], values["semsim"]) if {"psnr", "semsim"} <= values.keys() else ()
    return Evaluated(axis, value, *amounts, found, missing, orderings=shown)


def learned(judgements: Judgements) -> Judgements:
    """Without what was made through networks that are hardly better than chance, of which a study knows that."""
    trained = {judgements.dataset_of(guess) for guess in judgements.guesses if guess.accuracy is not None}
    least = {dataset: _least_accuracy(dataset) for dataset in trained}
    return judgements.only(
        lambda guess: guess.accuracy is None or guess.accuracy >= least[judgements.dataset_of(guess)]
    )


def _least_accuracy(dataset: str) -> float:
    """How often a network must be right to have learned a data set."""
    try:
        return enough_for(len(data.load(dataset).class_names))
    except GlasshouseError as error:
        raise DataError(f"Which networks have learned '{dataset}' is told by its number of classes. {error}") from error


def _models(judgements: Judgements) -> int:
    """How many models are ranked."""
    return len(set(labels_of(judgements)))


def distances(network: Network, judgements: Judgements) -> Array:
    """SemSim of every guess, (K,)."""
    found = np.empty(len(judgements.guesses))
    with torch.no_grad():
        for places, truths, guesses in batches(judgements, CHUNK):
            found[places] = network.distances(truths, guesses).numpy()
    return found


def _shares(teaching: Judgements, left: Judgements) -> Array:
    """The share of teaching classifiers who name the class, for each guess that is tested."""
    known = {(guess.study, guess.case_key, guess.place): guess.share for guess in teaching.guesses}
    return np.array([known.get((guess.study, guess.case_key, guess.place), np.nan) for guess in left.guesses])


def _values(judgements: Judgements, axis: str) -> list[str]:
    """What there is along an axis; degraded copies, which no attack made, are of none."""
    return sorted({AXES[axis](judgements, guess) for guess in judgements.guesses if guess.attacked})


def _others(judgements: Judgements, axis: str, value: str) -> bool:
    """Whether something remains without a value."""
    return _values(judgements, axis) != [value]


def _name(spec: str) -> str:
    """A SPEC without its settings, and without the word that it was tuned."""
    return spec.partition(":")[0].partition(" ")[0]
