"""Scores of stored pictures: every metric, the floor that a guess must beat, and re-identification."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glasshouse.errors import DataError, PictureError, WeightsError
from glasshouse.metrics import Metric, SetMetric, create
from glasshouse.metrics.base import AnyMetric
from glasshouse.registry import complete_spec
from glasshouse.store import ReconstructionRecord, Score
from glasshouse.studies.pictures import load_picture
from glasshouse.studies.runner import RunProgress, silent
from glasshouse.studies.study import Study
from glasshouse.studies.subjects import Subject

log = logging.getLogger(__name__)

FLOOR = "floor"
IDENTIFIED = "identified"

#: How far above the floor a reconstruction must be to count as seen: in LPIPS, and in SSIM or PSNR. A trace of an
#: outline in noise gains 0.2 in SSIM on digits, and we could not name it; smooth images have a floor in SSIM that a
#: good guess hardly beats, but in PSNR it does.
MARGINS = {"ssim": 0.3, "psnr": 5.0, "lpips": 0.0}
UNITS = {"ssim": " in SSIM", "psnr": " dB in PSNR"}
CHUNK = 128
TIMES_CHANCE = 5

#: Every score by case, image and metric.
Scores = Mapping[tuple[str, int, str], float | None]


@dataclass(frozen=True, slots=True)
class Measures:
    """The metrics that a plan asks for, those that can be computed here, and the reason for each that cannot.

    ``usable`` are the plan's metrics of single images by SPEC; ``judges`` decide what counts as seen, whatever
    metrics the plan asks for.
    """

    asked: tuple[str, ...]
    usable: dict[str, Metric]
    judges: dict[str, Metric]
    missing: dict[str, str]


def score_name(metric: AnyMetric) -> str:
    """Under which name a metric's scores are kept: all its settings and the edition of its algorithm."""
    return f"{complete_spec(metric)} {metric.edition}"


def identified_name(gallery: Tensor) -> str:
    """Under which name it is kept whether an image was told from the others: it depends on which they are."""
    return f"{IDENTIFIED} {hashlib.sha256(gallery.numpy().tobytes()).hexdigest()[:16]}"


def measures(subject: Subject, metrics: Sequence[str]) -> Measures:
    """Try every metric on one grey pair, so that missing weights are said once and early."""
    found: dict[str, Metric] = {}
    missing: dict[str, str] = {}
    grey = torch.full((1, *subject.image.shape), 0.5)
    for text in dict.fromkeys((*metrics, *MARGINS)):
        metric = create(text)
        reason = metric.why_not(subject.image, len(subject.records))
        if isinstance(metric, Metric) and reason is None:
            try:
                metric(grey, grey)
                found[text] = metric
            except WeightsError as error:
                reason = str(error)
                log.warning("%s", reason)
        if reason is not None:
            missing[text] = reason
    usable = {text: found[text] for text in metrics if text in found}
    return Measures(tuple(metrics), usable, {text: found[text] for text in MARGINS if text in found}, missing)


def score(study: Study, subject: Subject, known_measures: Measures, progress: RunProgress = silent) -> None:
    """Compute every score that the plan asks for and is not there yet, from the stored 8-bit pictures."""
    single = {score_name(one): one for one in (*known_measures.usable.values(), *known_measures.judges.values())}
    told = identified_name(subject.gallery)
    known = study.store.scores()
    truths = study.bench.batch(subject.places)[0]
    _score_floor(study, subject, single, truths, known.keys())
    first, here = subject.places[0], set(subject.places)
    todo = [
        one
        for one in _planned(study)
        if one.place in here and any((one.case_key, one.place, name) not in known for name in (*single, told))
    ]
    for start in range(0, len(todo), CHUNK):
        chunk = todo[start : start + CHUNK]
        guesses = torch.stack([load_picture(study.album, one.file, one.sha256) for one in chunk])
        truth = truths[[one.place - first for one in chunk]]
        values = {name: metric(truth, guesses) for name, metric in single.items()}
        values[told] = identified(truth, guesses, subject.gallery).float()
        study.store.add_scores(_scores([(one.case_key, one.place) for one in chunk], values))
        progress(start + len(chunk), len(todo))


def set_value(
    study: Study, subject: Subject, text: str, records: Sequence[ReconstructionRecord], known: Scores
) -> float | str:
    """The value of a set metric over some reconstructions, which is kept, or the reason why it has none."""
    metric = create(text)
    reason = metric.why_not(subject.image, len(records))
    if reason is not None or not isinstance(metric, SetMetric):
        return reason or f"{text} is not a metric of sets"
    key, name = _set_key(records), score_name(metric)
    if (value := known.get((key, 0, name))) is not None:
        return value
    truth, _ = study.bench.batch(tuple(one.place for one in records))
    guess = torch.stack([load_picture(study.album, one.file, one.sha256) for one in records])
    try:
        metric.update(truth, guess)
    except WeightsError as error:
        return str(error)
    value = metric.compute()
    study.store.add_scores([Score(key, 0, name, value)])
    return value


def _set_key(records: Sequence[ReconstructionRecord]) -> str:
    """In the place of a case's key: which pictures a set has."""
    pictures = "\n".join(f"{one.case_key} {one.place} {one.sha256}" for one in records)
    return f"set {hashlib.sha256(pictures.encode()).hexdigest()[:32]}"


def identified(truth: Tensor, guess: Tensor, gallery: Tensor) -> Tensor:
    """Whether a guess correlates more with its truth than with every image of a gallery: (N,) booleans.

    Pixels are compared after removing mean and contrast, so a flat colour identifies nothing.
    """
    own = (_standard(guess) * _standard(truth)).sum(1)
    others = _standard(guess) @ _standard(gallery).T
    first: Tensor = own > others.amax(1)
    return first


def shows(scores: Scores, judges: Mapping[str, Metric], one: ReconstructionRecord, told_name: str) -> bool:
    """Told from the others, and clearly above the floor in LPIPS, and in SSIM or PSNR, where they are known."""
    beats = {name: _beats_floor(scores, one, name, judge) for name, judge in judges.items()}
    pixels = [beats[name] for name in ("ssim", "psnr") if name in beats]
    told = bool(scores.get((one.case_key, one.place, told_name)))
    return told and beats.get("lpips", True) and (any(pixels) or not pixels)


def rule(margins: Mapping[str, float]) -> str:
    """By how much a reconstruction must beat the floor, in words: those of ``MARGINS`` that could be asked for."""
    pixels = [f"by {margins[name]:g}{unit}" for name, unit in UNITS.items() if name in margins]
    return ", and ".join([*(["in LPIPS"] if "lpips" in margins else []), *([" or ".join(pixels)] if pixels else [])])


def _beats_floor(scores: Scores, one: ReconstructionRecord, name: str, judge: Metric) -> bool:
    guess = scores.get((one.case_key, one.place, score_name(judge)))
    floor = scores.get((FLOOR, one.place, score_name(judge)))
    if guess is None or floor is None:
        return False
    gain = guess - floor if judge.leaks_when == "high" else floor - guess
    return gain > MARGINS[name]


def nearer(better: Mapping[str, bool]) -> bool:
    """Whether what does ``better`` than mean colours by some metrics does so by LPIPS, or by SSIM and PSNR."""
    return better.get("lpips", False) or (better.get("ssim", False) and better.get("psnr", False))


def beats_floor(better: Mapping[str, bool], told: float, chance: float) -> str:
    """Whether an attack beats the floor, or where it falls short of it.

    It does where its means are ``better`` than those of mean colours in LPIPS, or in SSIM and PSNR; and guesses point
    to their originals at least five times as often as by chance, even at ``told``, the lower end of the interval of
    that share: one lucky guess of eight images is none.
    """
    short_of = [
        *(["LPIPS, SSIM or PSNR"] if not nearer(better) else []),
        *(["telling originals apart"] if told < TIMES_CHANCE * chance else []),
    ]
    return f"no: {', '.join(short_of)}" if short_of else "yes"


def _standard(images: Tensor) -> Tensor:
    flat = images.flatten(1)
    centred: Tensor = flat - flat.mean(1, keepdim=True)
    norms: Tensor = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
    return centred / norms.clamp_min(1e-6)


def mean_colors(images: Tensor) -> Tensor:
    """Each image replaced by its own mean colour: the guess that a real attack must beat."""
    return images.mean((2, 3), keepdim=True).expand_as(images)


def _score_floor(
    study: Study,
    subject: Subject,
    single: dict[str, Metric],
    truths: Tensor,
    known: Iterable[tuple[str, int, str]],
) -> None:
    there = {(place, metric) for key, place, metric in known if key == FLOOR}
    done = {metric for _, metric in there if all((place, metric) in there for place in subject.places)}
    flat = (mean_colors(truths) * 255).round() / 255
    values = {name: metric(truths, flat) for name, metric in single.items() if name not in done}
    study.store.add_scores(_scores([(FLOOR, place) for place in subject.places], values))


def _scores(owners: Sequence[tuple[str, int]], values: dict[str, Tensor]) -> list[Score]:
    return [
        Score(key, place, name, None if value != value else value)
        for name, column in values.items()
        for (key, place), value in zip(owners, column.tolist(), strict=True)
    ]


def check_pictures(study: Study) -> list[str]:
    """Keys of finished cases whose pictures are missing or damaged, so that they can be made again."""
    bad = set()
    for one in _planned(study):
        try:
            load_picture(study.album, one.file, one.sha256)
        except (PictureError, DataError):
            bad.add(one.case_key)
    return sorted(bad)


def _planned(study: Study) -> list[ReconstructionRecord]:
    """The reconstructions that the plan asks for; what an earlier one asked for stays as it is."""
    planned = {case.key() for case in study.cases}
    return [one for one in study.store.reconstructions() if one.case_key in planned]
