"""Public images: kept once, found again by their content, never those that are attacked."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from glasshouse.data.crops import CROPS, photo_crops
from glasshouse.errors import CapabilityError, DataError, StudyError
from glasshouse.store import Location
from glasshouse.studies.audit import Running, audit, audit_plan
from glasshouse.studies.materials import from_dataset, from_tensors
from glasshouse.studies.plan import Plan
from glasshouse.studies.public import load_public, public_file, save_public
from glasshouse.studies.study import prepare

LEARNED = Plan(
    dataset="digits",
    public="digits:split=train",
    images=2,
    model="lenet:width=4",
    attacks=("learned:images=20,hashed=8,steps=2", "invgrad:steps=2"),
    defenses=("none",),
    metrics=("psnr",),
)


def materials(plan: Plan):
    return from_dataset(plan.dataset, plan.images, 0, size=None, root=None, download=False, public=plan.public)


def test_images_come_back_as_8_bit_values_and_changes_are_noticed(tmp_path, rng):
    images = torch.rand(3, 1, 4, 4, generator=rng)
    name = save_public(tmp_path, images)
    assert torch.equal(load_public(tmp_path / public_file(name), name), (images * 255).round() / 255)
    file = tmp_path / "public" / f"{name}.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(StudyError, match="was changed"):
        load_public(tmp_path / public_file(name), name)
    with pytest.raises(StudyError, match="cannot be read"):
        load_public(tmp_path / public_file("nothing"), "nothing")


def test_an_audit_hands_them_to_the_attack_that_learns_and_to_its_key_only(tmp_path):
    study = prepare(LEARNED, Location.of(tmp_path), materials(LEARNED))
    study.store.close()
    learned, other = ([case for case in study.cases if case.attack.startswith(name)] for name in ("learned", "invgrad"))
    assert all(case.public for case in learned)
    assert not any(case.public for case in other)
    assert study.bench.known(learned[0]).shape[1:] == (1, 8, 8)
    changed = dataclasses.replace(learned[0], public="other")
    assert changed.key() != learned[0].key()


def test_an_audit_with_public_images_runs_to_its_end(tmp_path):
    result, summary = audit_plan(LEARNED, tmp_path / "study", Running())
    assert summary.failed == 0
    assert {row.setup.attack.partition(":")[0] for row in result.rows} == {"learned", "invgrad"}
    assert all(row.setup.threat.adversary == "honest-but-curious server" for row in result.rows)


def test_attacked_images_are_left_out(rng):
    images = torch.rand(3, 1, 8, 8, generator=rng)
    mixed = torch.cat([torch.rand(2, 1, 8, 8, generator=rng), images[1:2]])
    found = from_tensors(images, torch.arange(3), 0, public=mixed).public
    assert torch.equal(found, mixed[:2])
    with pytest.raises(DataError, match="public have shape"):
        from_tensors(images, torch.arange(3), 0, public=torch.rand(2, 1, 4, 4))


def test_public_images_are_fitted_to_the_attacked_ones():
    found = from_dataset("digits", 2, 0, size=None, root=None, download=False, public="photos")
    assert found.public.shape == (10, 1, 8, 8)


def test_without_them_the_attack_is_refused_before_any_work(tmp_path):
    plan = dataclasses.replace(LEARNED, public=None)
    with pytest.raises(CapabilityError, match="--public SPEC"):
        prepare(plan, Location.of(tmp_path), materials(plan))
    assert not list(tmp_path.iterdir())


def test_a_vertical_federation_is_audited_from_beginning_to_end(tmp_path):
    images, labels = torch.rand(4, 1, 8, 8), torch.arange(4)
    result = audit(
        "vertical:width=2,units=4",
        images,
        labels,
        attacks=["cafe:steps=2"],
        metrics=["psnr"],
        batch=4,
        out=tmp_path / "study",
    )
    assert [row.setup.threat.adversary for row in result.rows] == ["honest-but-curious server of a vertical federation"]
    assert result.rows[0].setup.threat.labels_right == 1


UNSHUFFLE = Plan(
    dataset="photos:size=16",
    images=2,
    model="lenet:width=4",
    attacks=("unshuffle:part=learned,steps=1,practice=1", "unshuffle:part=thumbnail,steps=1"),
    defenses=("csvar",),
    metrics=("psnr",),
)


def test_an_attack_that_may_use_public_images_gets_crops_of_photographs_that_are_not_attacked(tmp_path):
    found = materials(UNSHUFFLE)
    study = prepare(UNSHUFFLE, Location.of(tmp_path), found)
    study.store.close()
    learned, other = ([case for case in study.cases if part in case.attack] for part in ("learned", "thumbnail"))
    assert not any(case.public for case in other)
    expected = photo_crops(found.spec, CROPS, 0, without=found.identities)
    assert torch.equal(study.bench.known(learned[0]), (expected * 255).round() / 255)


def test_an_attack_that_may_use_public_images_gets_those_that_are_named(tmp_path):
    plan = dataclasses.replace(UNSHUFFLE, public="faces")
    study = prepare(plan, Location.of(tmp_path), materials(plan))
    study.store.close()
    known = study.bench.known(next(case for case in study.cases if "learned" in case.attack))
    assert torch.equal(known, (materials(plan).public * 255).round() / 255)


def test_where_every_photograph_is_attacked_nothing_is_begun(tmp_path):
    plan = dataclasses.replace(UNSHUFFLE, images=10)
    with pytest.raises(DataError, match="attack fewer"):
        prepare(plan, Location.of(tmp_path), materials(plan))
    assert not list(tmp_path.iterdir())
    plan = dataclasses.replace(plan, attacks=UNSHUFFLE.attacks[1:])
    prepare(plan, Location.of(tmp_path), materials(plan)).store.close()
