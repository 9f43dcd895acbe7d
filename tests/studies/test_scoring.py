"""What counts as seen: the truth does; noise, flat colour, another image and an average do not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from glasshouse import data
from glasshouse.metrics.features import FeatureMetric
from glasshouse.store import Location
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.pictures import save_picture, to_pixels
from glasshouse.studies.plan import Plan
from glasshouse.studies.results import collect
from glasshouse.studies.runner import run
from glasshouse.studies.scoring import MARGINS, beats_floor, identified, mean_colors, measures, rule, score
from glasshouse.studies.study import prepare

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def digits():
    return data.load("digits:size=16").batch(range(60))[0]


def test_told_from_others(digits, rng):
    truth, gallery = digits[:8], digits[8:]
    noise = torch.rand(truth.shape, generator=rng)
    assert identified(truth, truth, gallery).all()
    assert identified(truth, (truth + 0.3 * noise).clamp(0, 1), gallery).all()
    assert not identified(truth, mean_colors(truth), gallery).any()
    assert not identified(truth, gallery[:8], gallery).any()
    assert not identified(truth, gallery.mean(0, keepdim=True).expand_as(truth), gallery).all()
    assert identified(truth, noise, gallery).float().mean() < 0.3


def judged(tmp_path, guess) -> list[tuple[int, ...]]:
    """Put guesses in place of a study's reconstructions and see which count as seen."""
    from glasshouse.studies.materials import from_dataset

    plan = Plan(dataset="photos", images=3, model="lenet:width=4", attacks=("invgrad:steps=1",), defenses=("none",))
    materials = from_dataset("photos", 3, 0, size=None, root=None, download=False)
    study = prepare(plan, Location.of(tmp_path), materials)

    run(study.cases, study.store, study.album, study.bench, executor=Running().executor())
    for one in study.store.reconstructions():
        pixels = to_pixels(guess(materials.images)[one.place])
        file, sha256 = save_picture(study.album, one.file.removeprefix("images/").removesuffix(".png"), pixels)
        study.store.finish(one.case_key, {}, [dataclasses.replace(one, file=file, sha256=sha256)])
    (subject,) = study.subjects
    known = measures(subject, plan.metrics)
    score(study, subject, known)
    found = [one.images for one in collect(plan, study, known).identified]
    study.store.close()
    return found


@pytest.mark.parametrize(
    ("name", "guess", "expected"),
    [
        ("truth", lambda truth: truth, (0, 1, 2)),
        ("mean colour", mean_colors, ()),
        ("noise", lambda truth: torch.rand(truth.shape, generator=torch.Generator().manual_seed(0)), ()),
        ("another image", lambda truth: truth.roll(1, 0), ()),
        ("faint noise", lambda truth: (truth + 0.05 * torch.randn(truth.shape)).clamp(0, 1), (0, 1, 2)),
    ],
)
def test_what_counts_as_seen(tmp_path, name, guess, expected):
    assert judged(tmp_path, guess) == [expected]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("threat-model.md", "in SSIM by more than {ssim:g} or in PSNR by more than {psnr:g} dB"),
        ("tutorial.md", "in SSIM by {ssim:g} or PSNR by {psnr:g} dB"),
        ("metrics/ssim.md", "by more than {ssim:g} in SSIM or by more than {psnr:g} dB in PSNR"),
        ("metrics/psnr.md", "by more than {psnr:g} dB in PSNR or by more than {ssim:g} in SSIM"),
    ],
)
def test_margins_are_those_the_docs_name(name, words):
    assert words.format(**MARGINS) in (DOCS / name).read_text(encoding="utf-8")


def test_the_rule_names_what_could_be_asked_for():
    assert rule(MARGINS) == "in LPIPS, and by 0.3 in SSIM or by 5 dB in PSNR"
    assert rule({"psnr": 5.0}) == "by 5 dB in PSNR"


@pytest.mark.parametrize(
    ("better", "told", "answer"),
    [
        ((True, False, False), 0.5, "yes"),
        ((False, True, True), 0.5, "yes"),
        ((False, True, False), 0.5, "no: LPIPS, SSIM or PSNR"),
        ((True, True, True), 0.04, "no: telling originals apart"),
        ((False, False, False), 0.0, "no: LPIPS, SSIM or PSNR, telling originals apart"),
    ],
)
def test_what_beats_the_floor(better, told, answer):
    assert beats_floor(dict(zip(("lpips", "ssim", "psnr"), better, strict=True)), told, 0.01) == answer


def test_strong_noise_hides_what_none_shows(tmp_path):
    plan = Plan(
        dataset="photos:size=16",
        images=2,
        model="mlp",
        attacks=("fc_inversion",),
        defenses=("none", "gaussian:sigma=10"),
        metrics=("psnr",),
    )
    result, _ = audit_plan(plan, tmp_path, Running())
    assert [one.images for one in result.identified] == [(0, 1), ()]


def test_a_new_version_of_a_metric_is_computed_again(plan, tmp_path, monkeypatch):
    from glasshouse.metrics.mse import MSE

    plan = dataclasses.replace(plan, metrics=("mse",))
    before = audit_plan(plan, tmp_path, Running())[0].rows[0].value
    monkeypatch.setattr(MSE, "per_image", lambda self, truth, guess: torch.full((len(truth),), 9.0))
    assert audit_plan(plan, tmp_path, Running())[0].rows[0].value == before
    monkeypatch.setattr(MSE, "version", 2)
    assert audit_plan(plan, tmp_path, Running())[0].rows[0].value.mean == 9


def test_metrics_of_sets_look_once_at_the_same_pictures(plan, tmp_path, monkeypatch):
    looks = []

    def update(self, *pair):
        """In the place of Inception, which would take seconds."""
        looks.append(len(pair[0]))
        for images, features in zip(pair, (self.truths, self.guesses), strict=True):
            features.append(images.flatten(1)[:, ::50])

    monkeypatch.setattr(FeatureMetric, "update", update)
    plan = dataclasses.replace(plan, images=10, metrics=("mse", "kid"), attacks=("invgrad:steps=1",))
    results = [audit_plan(plan, tmp_path / "study", Running())[0] for _ in range(2)]
    assert looks == [10] * len(plan.defenses)
    first, again = ([row.value.mean for row in one.rows if row.metric == "kid"] for one in results)
    assert first == again
    assert len(first) == len(plan.defenses)
