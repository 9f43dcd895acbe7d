"""What cannot work is refused before any work, and what changes nothing is said."""

from __future__ import annotations

import dataclasses
import logging
from contextlib import nullcontext

import pytest
import torch

from glasshouse.errors import CapabilityError, DataError, ModelError, SettingError
from glasshouse.reports.grid_advice import advice
from glasshouse.reports.grid_balance import balances, strongest
from glasshouse.store import Location
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.grid.opening import open_grid
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.materials import from_dataset, from_tensors
from glasshouse.studies.plan import DEFAULT_ATTACKS, Plan
from glasshouse.studies.suitable import refuse_lone_values
from glasshouse.types import ImageSpec

QUICK = Plan(
    dataset="photos:size=16",
    images=1,
    model="lenet:width=4",
    attacks=("invgrad:steps=1",),
    defenses=("none",),
    metrics=("mse",),
)

REFUSED = {
    "labels with a part of the layers": (
        {"layers": ("network.0.*",)},
        CapabilityError,
        r"Labels cannot be recovered.*--labels given.*invgrad:labels=optimised",
    ),
    "labels of a batch without the bias": (
        {"layers": ("network.7.weight",), "images": 2, "batch": 2},
        CapabilityError,
        r"Labels of 2 images cannot be recovered.*or use a batch of 1",
    ),
    "an update for an attack on gradients": (
        {"attacks": ("dlg:steps=1",), "local_lr": 0.1},
        CapabilityError,
        r"leave --local-lr out, or use an attack that takes updates \(gradattack or invgrad",
    ),
    "public images that are all attacked": (
        {"public": "photos:size=16", "images": 10},
        DataError,
        "All 10 public images are copies of attacked ones",
    ),
    "too few public images": (
        {"attacks": ("learned",), "public": "photos:size=16", "images": 8},
        CapabilityError,
        r"was given 2 public images: it needs at least 4.*--public SPEC",
    ),
    "one pixel": ({"dataset": "photos", "size": 1}, DataError, r"Images have one pixel.*--size 8"),
    "one value per channel": (
        {"dataset": "photos:size=4", "model": "resnet20:width=4", "batchnorm": ("train",)},
        ModelError,
        r"Batch norm in train mode.*1 image\(s\) of 4x4 pixels.*larger --batch.*--bn eval",
    ),
    "one value per channel in the last batch": (
        {"dataset": "photos:size=4", "model": "resnet20:width=4", "batchnorm": ("train",), "images": 3, "batch": 2},
        ModelError,
        r"of 1 image\(s\).*leaves none of the 3 images alone",
    ),
    "one value per channel in local training": (
        {"dataset": "photos:size=4", "model": "resnet20:width=4", "batchnorm": ("train",), "images": 2, "batch": 2}
        | {"local_lr": 0.1, "local_batch": 1},
        ModelError,
        r"Batch norm in train mode.*of 1 image\(s\)",
    ),
    "more restarts than fit into memory": (
        {"attacks": ("invgrad:steps=1,restarts=5000",), "images": 2, "batch": 2, "memory": 0.05},
        SettingError,
        r"takes about [\d.]+ GB for one batch of 2 with 5000 restarts.*--memory gives it 0.05: use restarts=\d+, or",
    ),
    "a batch that alone does not fit into memory": (
        {"model": "mlp:width=4096", "images": 8, "batch": 8, "memory": 0.01},
        SettingError,
        r"takes about [\d.]+ GB for one batch of 8, .*: use a smaller --batch, model or --size, or --memory [\d.]+",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_work_is_refused_before_any_work(what, tmp_path):
    settings, kind, words = REFUSED[what]
    with pytest.raises(kind, match=words):
        audit_plan(dataclasses.replace(QUICK, **settings), tmp_path, Running())
    assert not (tmp_path / "study.toml").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batchnorm": ("train",)}, "--bn train changes nothing: lenet:width=4 has no batch norm."),
        ({"statistics": "batch"}, "--statistics batch changes nothing: lenet:width=4 has no batch norm."),
        ({"public": "digits"}, "--public digits changes nothing: invgrad:steps=1 learns from no images"),
    ],
)
def test_settings_that_change_nothing_are_told(settings, words, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        audit_plan(dataclasses.replace(QUICK, **settings), tmp_path, Running())
    assert words in caplog.text


class Picky(torch.nn.Module):
    """Takes no image alone, for a reason of its own."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(1)

    def forward(self, images):
        if len(images) < 2:
            raise ValueError("no image alone")
        return self.norm(images).flatten(1)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_other_complaints_of_a_model_are_not_taken_for_one_value_per_channel(mode):
    plan, image = dataclasses.replace(QUICK, batchnorm=(mode,)), ImageSpec(1, 4, 4, 16)
    with pytest.raises(ValueError, match="no image alone") if mode == "train" else nullcontext():
        refuse_lone_values(plan, image, [(Picky(), mode)])


def grid_refused(directory, **settings):
    common = {"attacks": ("invgrad:steps=1",), "metrics": ("mse",), "epochs": 1, "checkpoints": (0,), "images": 3}
    grid = Grid(title="refused", datasets=("photos:size=4",), **{**common, **settings})
    open_grid(grid, Location.of(directory))


def test_grids_are_refused_before_anything_is_trained(tmp_path):
    small = {"models": ("resnet20:width=4",), "batchnorm": ("train",), "batch": 2}
    with pytest.raises(ModelError, match=r"Batch norm in train mode.*of 1 image\(s\)"):
        grid_refused(tmp_path, **small)
    many = {"models": ("resnet20:width=4",), "attacks": ("invgrad:steps=1,restarts=5000",), "memory": 0.05}
    with pytest.raises(SettingError, match=r"GB for one batch of 1 with 5000 restarts.*--memory gives it 0.05"):
        grid_refused(tmp_path, **many)
    assert list(tmp_path.iterdir()) == []


def test_a_grid_leaves_an_attack_out_where_it_does_not_fit(tmp_path):
    grid = Grid(
        title="some fit",
        datasets=("digits",),
        models=("lenet:width=4", "mlp:width=4,activation=tanh"),
        training_images=16,
        epochs=1,
        checkpoints=(0,),
        images=1,
        attacks=("invgrad:steps=1", "fc_inversion"),
        metrics=("mse",),
    )
    result = carry_out(grid, tmp_path, Running()).result
    (line,) = result.to_json()["left_out"]
    assert line.startswith("fc_inversion on lenet:width=4: Attack 'fc_inversion' needs")
    done = {(row.setup.model.partition(":")[0], row.setup.attack) for row in result.rows}
    assert done == {("lenet", "invgrad:steps=1"), ("mlp", "invgrad:steps=1"), ("mlp", "fc_inversion")}
    assert result.pending == 0


def test_an_attack_is_left_out_behind_the_defense_alone_that_takes_away_what_it_uses(tmp_path):
    attack = "gradattack:steps=1,preset=own,tv=0.1"
    grid = Grid(
        title="some fit",
        datasets=("digits",),
        models=("tanhnet_bn:width=2,hidden=4",),
        recipes=("none", "dp_sgd:epsilon=8", "prune:percent=50,at=training"),
        training_images=16,
        training_batch=8,
        epochs=1,
        checkpoints=(1,),
        images=1,
        attacks=("invgrad:steps=1", attack),
        defenses=("none", "dp_sgd:epsilon=8", "prune:percent=50"),
        paired=True,
        metrics=("mse",),
    )
    result = carry_out(grid, tmp_path, Running()).result
    (line,) = result.to_json()["left_out"]
    assert line.startswith(f"{attack} on tanhnet_bn:width=2,hidden=4 behind dp_sgd:epsilon=8: ")
    assert line.endswith("uses the running statistics of batch norm, and this model has none: use invgrad.")
    done = {(row.setup.attack.partition(":")[0], row.setup.defense.partition(":")[0]) for row in result.rows}
    both = {(name, defense) for name in ("invgrad", "gradattack") for defense in ("none", "dp_sgd", "prune")}
    assert done == both - {("gradattack", "dp_sgd")}
    assert result.pending == 0
    assert not result.failures
    found = {(one.attack, one.defense) for one in strongest(balances(result.to_json()))}
    assert found >= {("invgrad:steps=1", "dp_sgd:epsilon=8")}  # judged by the attack that fits
    (advised,) = advice(result.to_json())
    assert "Not judged" not in " ".join(advised.sentences)


def test_where_no_attack_fits_there_is_nothing_to_wait_for(tmp_path):
    grid = Grid(
        title="none fits",
        datasets=("digits",),
        models=("tanhnet_bn:width=2,hidden=4",),
        recipes=("none", "dp_sgd:epsilon=8"),
        training_images=16,
        training_batch=8,
        epochs=1,
        checkpoints=(1,),
        images=1,
        attacks=("gradattack:steps=1",),
        defenses=("none", "dp_sgd:epsilon=8"),
        paired=True,
        metrics=("mse",),
    )
    _, behind = strongest(balances(carry_out(grid, tmp_path, Running()).result.to_json()))
    assert behind.defense == "dp_sgd:epsilon=8"
    assert "not yet" not in behind.cells()[:2] + behind.cells()[8:]
    with pytest.raises(ModelError, match="uses the running statistics"):
        open_grid(
            dataclasses.replace(grid, without=("tanhnet_bn:width=2,hidden=4 | none",)), Location.of(tmp_path / "other")
        )


def test_an_attack_that_fits_no_network_of_a_grid_is_refused(tmp_path):
    with pytest.raises(ModelError, match="'fc_inversion' needs"):
        grid_refused(tmp_path, models=("lenet:width=4", "tanhnet:width=2"), attacks=("invgrad:steps=1", "fc_inversion"))
    assert list(tmp_path.iterdir()) == []


def test_settings_that_change_something_are_not(tmp_path, caplog):
    plan = dataclasses.replace(QUICK, model="resnet20:width=4", batchnorm=("train",), statistics="batch")
    with caplog.at_level(logging.WARNING):
        audit_plan(plan, tmp_path, Running())
    assert "changes nothing" not in caplog.text


def test_odd_public_images_are_told(caplog):
    with caplog.at_level(logging.WARNING):
        from_dataset("digits", 2, 0, size=None, root=None, download=False, public="photos")
    assert "public images of shape (3, 32, 32) are fitted to (1, 8, 8)" in caplog.text
    assert "There are only 10 public images" in caplog.text
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    mixed = torch.cat([images[:1], images.flip(-1)])
    with caplog.at_level(logging.WARNING):
        from_tensors(images, torch.arange(3), 0, public=mixed)
    assert "1 of 4 public images are copies of attacked ones and left out" in caplog.text


def test_default_attacks_that_cannot_work_are_left_out_with_the_reason(tmp_path):
    plan = dataclasses.replace(QUICK, attacks=DEFAULT_ATTACKS, steps=1, model="convnet8:width=2", dataset="photos")
    result, _ = audit_plan(plan, tmp_path, Running())
    (line,) = result.to_json()["left_out"]
    assert line.startswith("idlg:steps=1,restarts=2: Attack 'idlg' needs a smooth network")
    assert {row.setup.attack for row in result.rows} == {"invgrad:steps=1,tv=0.01"}


def test_a_rate_that_is_no_training_is_refused():
    with pytest.raises(SettingError, match=r"local_lr=1e[+]30 is out of range: use a number from 1e-09 to 100"):
        dataclasses.replace(QUICK, local_lr=1e30)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch": 5}, r"batch=5 is more than the 1 images .*--images"),
        ({"local_lr": 0.1, "local_batch": 2}, r"local_batch=2 is more than the 1 behind one update.*larger --batch"),
    ],
)
def test_more_than_there_is_says_of_what(settings, words):
    with pytest.raises(SettingError, match=words):
        dataclasses.replace(QUICK, **settings)


def test_a_setting_that_fits_nothing_is_refused_once_and_not_by_every_attack(tmp_path, caplog):
    plan = dataclasses.replace(QUICK, attacks=DEFAULT_ATTACKS, layers=("nothing",))
    with pytest.raises(SettingError, match="--layers nothing fits no parameter"):
        audit_plan(plan, tmp_path, Running())
    assert "left out" not in caplog.text


def test_image_specs_of_one_row_are_images():
    assert from_tensors(torch.rand(1, 1, 1, 8), torch.zeros(1).long(), 0, classes=2).spec == ImageSpec(1, 1, 8, 2)
