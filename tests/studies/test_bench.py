"""One case from beginning to end: who gets which random numbers, and in which order results come back."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from glasshouse.attacks.base import InversionAttack
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.store import Location
from glasshouse.studies.materials import from_dataset
from glasshouse.studies.plan import Plan
from glasshouse.studies.study import prepare
from glasshouse.types import Reconstruction, no_progress


@pytest.fixture
def study(plan, tmp_path):
    plan = dataclasses.replace(plan, batch=2, attacks=("invgrad:steps=1", "invgrad:steps=2"))
    study = prepare(plan, Location.of(tmp_path), from_dataset(plan.dataset, 2, 0, size=None, root=None, download=False))
    yield study
    study.store.close()


def replace_run(monkeypatch, run):
    monkeypatch.setattr(InvGrad, "run", run)
    monkeypatch.setattr(InvGrad, "run_all", InversionAttack.run_all)


def test_results_come_back_in_the_order_of_the_images(study, monkeypatch):
    truth, _ = study.bench.batch((0, 1))
    replace_run(monkeypatch, lambda self, model, seen, *, rng, progress: Reconstruction(truth.flip(0), 0.0))
    (outcome,) = study.bench.perform([study.cases[0]], no_progress)
    for pixels, image in zip(outcome.pixels, truth, strict=True):
        assert torch.equal(torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255, image)


def test_two_attacks_face_the_same_noise_with_random_numbers_of_their_own(study, monkeypatch):
    seen_by: dict[str, list[torch.Tensor]] = {}
    drawn: dict[str, float] = {}

    def spy(self, model, seen, *, rng, progress):
        seen_by.setdefault(str(self.steps), []).append(next(iter(seen.rounds[0].tensors.values())))
        drawn[str(self.steps)] = float(torch.rand(1, generator=rng))
        return Reconstruction(torch.rand(2, 3, 16, 16), 0.0)

    replace_run(monkeypatch, spy)
    noisy = [case for case in study.cases if case.defense.startswith("gaussian")]
    for case in noisy:
        study.bench.perform([case], no_progress)
    assert torch.equal(seen_by["1"][0], seen_by["2"][0])
    assert drawn["1"] != drawn["2"]
    defense = torch.Generator().manual_seed(noisy[0].random_seed("defense", "attack_spec", "versions"))
    assert drawn["1"] != float(torch.rand(1, generator=defense))


def test_labels_are_given_only_when_the_plan_says_so(study, monkeypatch):
    known = []

    def spy(self, model, seen, *, rng, progress):
        known.append(seen.labels)
        return Reconstruction(torch.rand(2, 3, 16, 16), 0.0, torch.tensor([0, 0]))

    replace_run(monkeypatch, spy)
    (outcome,) = study.bench.perform([study.cases[0]], no_progress)
    study.bench.perform([dataclasses.replace(study.cases[0], labels="given")], no_progress)
    assert known[0] is None
    assert known[1].tolist() == [0, 1]
    assert outcome.labels_right == 0.5


def test_threads_do_not_change_the_pictures(tmp_path):
    plan = Plan(dataset="photos", images=1, model="resnet20:width=8", attacks=("invgrad:steps=6",), defenses=("none",))
    study = prepare(plan, Location.of(tmp_path), from_dataset("photos", 1, 0, size=None, root=None, download=False))
    pictures = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        pictures.append(study.bench.perform([study.cases[0]], no_progress)[0].pixels[0].tobytes())
        assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    study.store.close()
    assert pictures[0] == pictures[1]
