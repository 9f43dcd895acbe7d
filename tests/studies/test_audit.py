"""An audit from end to end: numbers, resuming, killing, refusing."""

from __future__ import annotations

import dataclasses
import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import glasshouse as gh
from glasshouse.errors import CapabilityError, DataError, GlasshouseError, ModelError, SettingError, StudyError
from glasshouse.functional.ssim import structural_similarity
from glasshouse.reports.page import write_report
from glasshouse.studies.audit import Running, audit_plan, owned
from glasshouse.studies.plan import Plan
from glasshouse.studies.study import refuse_foreign


def run(plan: Plan, out: Path, **running):
    return audit_plan(plan, out, Running(**running))


def numbers(out: Path) -> list[dict]:
    found = json.loads((out / "audit.json").read_text())
    return found["rows"] + found["per_image"]


def test_files_and_numbers(plan, tmp_path):
    result, summary = run(plan, tmp_path / "study")
    assert (summary.done, summary.left, summary.failed) == (4, 0, 0)
    found = json.loads((tmp_path / "study" / "audit.json").read_text())
    assert found["schema"] == 2
    assert len(found["rows"]) == 2 * 3
    assert len(found["per_image"]) == 2 * 3 * 2
    for row in found["rows"] + found["floor"]:
        least, most = gh.metrics.create(row["metric"]).bounds
        assert least <= row["low"] <= row["mean"] <= row["high"] <= most  # Student's t of two images knows no bounds
    for row in found["rows"]:
        assert row["threat"]["labels"] == "recovered"
        assert row["threat"]["tuning"] == "fixed settings"
    for one in found["per_image"]:
        truth, guess = (np.asarray(Image.open(tmp_path / "study" / one[side])) / 255 for side in ("truth", "guess"))
        if one["metric"] == "mse":
            assert one["value"] == pytest.approx(((truth - guess) ** 2).mean(), rel=1e-5)
        if one["metric"] == "ssim":
            first, second = (torch.from_numpy(x).permute(2, 0, 1)[None] for x in (truth, guess))
            assert one["value"] == pytest.approx(float(structural_similarity(first, second)), abs=1e-5)
    for part in ("study.toml", "glasshouse.db"):
        assert (tmp_path / "study" / part).is_file()
    assert list((tmp_path / "study" / "models").glob("*.safetensors"))
    assert {row["defense"] for row in found["rows"]} == set(plan.defenses)
    assert found["rows"][0]["threat"]["snr_db"] is None
    assert found["rows"][-1]["threat"]["snr_db"] is not None
    assert json.loads(json.dumps(result.to_json())) == found


def test_a_second_run_computes_nothing_and_a_new_metric_only_itself(plan, tmp_path):
    run(plan, tmp_path)
    before = numbers(tmp_path)
    _, again = run(plan, tmp_path)
    assert (again.found, again.done) == (4, 0)
    assert numbers(tmp_path) == before
    _, more = run(dataclasses.replace(plan, metrics=("mse", "psnr", "ssim", "fid")), tmp_path)
    assert more.done == 0
    fid = [row for row in numbers(tmp_path) if row["metric"] == "fid"]
    assert fid[0]["mean"] is None
    assert "under 50 images" in fid[0]["reason"]


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    """The numbers of a run that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole")
    run(plan, out)
    return numbers(out)


def test_the_local_engine_gives_the_same_pictures(plan, whole, tmp_path):
    run(plan, tmp_path, engine="local", workers=2)
    assert numbers(tmp_path) == whole


COMMAND = [
    "audit", "--data", "photos:size=16", "--images", "2",
    "--model", "lenet:width=4", "--attack", "invgrad:steps=4", "--defense", "none", "--defense", "gaussian:sigma=0.5",
    "--metric", "mse", "--metric", "psnr", "--metric", "ssim", "--engine", "inline",
]  # fmt: skip


@pytest.mark.parametrize(
    "failpoint",
    ["file.before_fsync:1", "store.before_commit:4", "store.after_commit:6"],  # and all others in make soak
)
def test_killed_anywhere_the_same_command_ends_with_the_same_numbers(glasshouse, whole, tmp_path, failpoint):
    words = [*COMMAND, "--out", str(tmp_path / "killed")]
    assert glasshouse(*words, GLASSHOUSE_FAILPOINT=failpoint).returncode == -signal.SIGKILL
    finished = _finished(tmp_path / "killed")
    assert glasshouse(*words).returncode == 0
    assert numbers(tmp_path / "killed") == whole
    for name, time in finished.items():
        assert (tmp_path / "killed" / "images" / name).stat().st_mtime_ns == time, "a finished case was computed again"


def _finished(out: Path) -> dict[str, int]:
    """Picture files of the cases that the database says are done."""
    if not (out / "glasshouse.db").exists():
        return {}
    from glasshouse.store import Store

    store = Store(out / "glasshouse.db")
    files = [Path(one.file).name for one in store.reconstructions()]
    store.close()
    return {name: (out / "images" / name).stat().st_mtime_ns for name in files}


def test_minutes_stop_and_go_on(plan, tmp_path):
    _, first = run(plan, tmp_path / "study", minutes=0)
    assert (first.done, first.left) == (0, 4)
    found = json.loads((tmp_path / "study" / "audit.json").read_text())
    assert found["pending"] == 4
    assert found["rows"][0]["reason"] == "no reconstruction was finished"
    _, local = run(plan, tmp_path / "study", minutes=0, engine="local", workers=1)
    assert local.left == 4
    _, second = run(plan, tmp_path / "study")
    assert second.left == 0


def test_damaged_pictures_are_made_again(plan, tmp_path):
    run(plan, tmp_path)
    before = numbers(tmp_path)
    guess = tmp_path / before[-1]["guess"]
    guess.write_bytes(guess.read_bytes()[:40])
    _, again = run(plan, tmp_path)
    assert again.done == 1
    assert numbers(tmp_path) == before


def test_another_plan_is_refused(plan, tmp_path):
    run(plan, tmp_path)
    with pytest.raises(StudyError, match="belongs to another study"):
        run(dataclasses.replace(plan, seed=1), tmp_path)


def test_a_directory_with_other_things_is_refused(plan, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StudyError, match="holds no study"):
        run(plan, tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_a_database_may_lie_in_the_directory_under_another_name(tmp_path):
    directory = tmp_path / "study"
    with owned(directory, Running(store=f"sqlite:///{directory}/x.db")):
        refuse_foreign(directory)  # the lock of the database is ours


def test_failed_cases_are_kept_with_their_reason(tmp_path):
    """Where the model is sure, the gradient is zero: that case fails, the rest goes on."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 256, 2))
    with torch.no_grad():
        module[1].weight[:] = torch.tensor([[1e3], [-1e3]])
        module[1].bias.zero_()
    images = torch.stack([torch.zeros(3, 16, 16), torch.ones(3, 16, 16)])
    result = gh.audit(module, images, [0, 0], attacks=["invgrad:steps=2"], metrics=["mse"], out=tmp_path)
    assert [failure.images for failure in result.failures] == [(1,)]
    assert "exactly zero" in result.failures[0].reason
    assert [one.image for one in result.per_image] == [0]


def test_a_smaller_last_batch_belongs_to_the_row_of_the_others(tmp_path):
    images, labels = gh.data.load("photos:size=16").batch(range(3))
    result = gh.audit(
        "lenet:width=4", images, labels, attacks=["invgrad:steps=2"], metrics=["mse"], batch=2, out=tmp_path
    )
    (row,) = result.rows
    assert (row.value.images, row.setup.threat.batch, row.setup.threat.last_batch) == (3, 2, 1)
    assert "<td>2, last 1</td>" in write_report(tmp_path).read_text()


def test_where_no_attack_is_left_the_audit_is_refused(tmp_path):
    with pytest.raises(GlasshouseError, match="nosuch"):
        gh.audit("lenet:width=4", torch.rand(1, 3, 16, 16), [0], layers="nosuch", out=tmp_path)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 14 * 14, 12)

    def forward(self, x):
        return self.fc(torch.sigmoid(self.bn(self.conv(x))).flatten(1))


def test_python_call_with_a_model_object(tmp_path):
    torch.manual_seed(0)
    model = Net()  # in train mode, as people leave it
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = gh.audit(
        model,
        torch.rand(2, 3, 16, 16),
        [0, 11],
        attacks=["invgrad:steps=3"],
        defenses=["none", "gaussian:sigma=1e-3"],
        metrics=["psnr"],
    )
    assert {(s.defense, s.threat.batchnorm) for s in result.setups} == {
        (defense, mode) for defense in ("none", "gaussian:sigma=1e-3") for mode in ("eval", "train")
    }
    assert result.setups[0].threat.round == "given"
    assert {s.threat.statistics for s in result.setups} == {
        "running statistics known",
        "running statistics known, batch statistics unknown",
    }
    assert "<table>" in result._repr_html_()
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    with pytest.raises(StudyError, match="engine='inline'"):
        gh.audit(model, torch.rand(1, 3, 16, 16), [0], attacks=["invgrad:steps=3"], engine="local")


def test_trained_beside_fresh(plan, tmp_path):
    from safetensors.torch import save_file

    from glasshouse import models
    from glasshouse.types import ImageSpec

    trained = models.create("lenet:width=4", ImageSpec(3, 16, 16, 10), seed=99)
    save_file(trained.state_dict(), tmp_path / "trained.safetensors")
    result, _ = run(dataclasses.replace(plan, weights=str(tmp_path / "trained.safetensors")), tmp_path / "study")
    assert {setup.threat.round for setup in result.setups} == {"0", "trained"}


def test_batches_are_assigned_and_labels_counted(plan, tmp_path):
    result, _ = run(dataclasses.replace(plan, batch=2, labels="given"), tmp_path)
    assert {setup.threat.batch for setup in result.setups} == {2}
    assert {setup.threat.labels for setup in result.setups} == {"given"}
    assert len(result.per_image) == 2 * 3 * 2


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"attacks": ("invgard",)}, SettingError, "Did you mean 'invgrad'"),
        ({"defenses": ("prun",)}, SettingError, "Did you mean 'prune'"),
        ({"metrics": ("pnsr",)}, SettingError, "Did you mean 'psnr'"),
        ({"metrics": ()}, SettingError, "no metrics"),
        ({"dataset": "photoz"}, GlasshouseError, "Did you mean 'photos'"),
        ({"model": "lenett"}, SettingError, "Did you mean 'lenet'"),
        ({"attacks": ("dlg",), "model": "resnet20:width=4"}, ModelError, "smooth network"),
        ({"images": 11}, SettingError, "images=11"),
        ({"weights": "nowhere.safetensors"}, GlasshouseError, "no weights file"),
        ({"model": "convnet8:width=2", "dataset": "digits"}, ModelError, "at least 9 px"),
        ({"dataset": "cifar10"}, DataError, "cifar10"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(plan, tmp_path, monkeypatch, changes, error, message):
    monkeypatch.setenv("GLASSHOUSE_DATA", str(tmp_path / "no data"))
    with pytest.raises(error, match=message):
        run(dataclasses.replace(plan, **changes), tmp_path / "study")
    assert not (tmp_path / "study" / "study.toml").exists()


def test_bad_running():
    with pytest.raises(SettingError, match="engine=cloud"):
        Running(engine="cloud")
    with pytest.raises(SettingError, match="workers=0"):
        Running(workers=0)
    with pytest.raises(SettingError, match="minutes=-1"):
        Running(minutes=-1)


def test_capabilities_are_checked_before_any_work(plan, tmp_path, monkeypatch):
    from glasshouse.attacks.invgrad import InvGrad
    from glasshouse.types import Capability

    monkeypatch.setattr(InvGrad, "needs", frozenset({Capability.PUBLIC_IMAGES}))
    with pytest.raises(CapabilityError, match="needs public images"):
        run(plan, tmp_path)


def test_seen_does_not_depend_on_the_metrics_asked_for(plan, tmp_path):
    few, many = (dataclasses.replace(plan, metrics=metrics) for metrics in (("mse",), ("mse", "ssim", "psnr")))
    first, second = run(few, tmp_path / "few")[0], run(many, tmp_path / "many")[0]
    assert "ssim" in first.judges
    assert [one.images for one in first.identified] == [one.images for one in second.identified]
    assert {row.metric for row in first.rows} == {"mse"}


def test_steps_set_from_outside_are_shown(plan, tmp_path):
    result, _ = run(dataclasses.replace(plan, steps=2), tmp_path)
    assert {setup.attack for setup in result.setups} == {"invgrad:steps=2"}


def test_other_images_in_the_same_directory_are_refused(tmp_path):
    def again(seed: int) -> None:
        images = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
        gh.audit("lenet:width=4", images, [1], attacks=["invgrad:steps=2"], metrics=["mse"], out=tmp_path)

    again(0)
    again(0)
    with pytest.raises(StudyError, match="other images"):
        again(1)


def test_the_same_attack_twice_counts_once(plan, tmp_path):
    result, summary = run(dataclasses.replace(plan, attacks=("invgrad:steps=4", "invgrad:steps=4")), tmp_path)
    assert (summary.planned, summary.left) == (4, 0)
    assert [one.share.images for one in result.identified] == [2, 2]


def test_one_class_still_has_a_gradient(tmp_path):
    result = gh.audit("lenet:width=4", torch.rand(1, 3, 16, 16), [0], attacks=["invgrad:steps=2"], metrics=["mse"])
    assert not result.failures
    with pytest.raises(ModelError, match="one output"):
        gh.audit(nn.Sequential(nn.Flatten(), nn.Linear(768, 1)), torch.rand(1, 3, 16, 16), [0])


def test_batch_norm_that_cannot_train_on_one_image_is_refused_before_any_work(tmp_path):
    images = torch.rand(1, 1, 8, 8)
    with pytest.raises(ModelError, match="larger --batch"):
        gh.audit("resnet18", images, [0], attacks=["invgrad:steps=1"], metrics=["mse"], out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_gradient_of_zero_fails_with_a_reason():
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 2))
    with torch.no_grad():
        model[1].weight.zero_()
        model[1].bias.copy_(torch.tensor([1e4, -1e4]))
    result = gh.audit(model, torch.rand(1, 3, 16, 16), [0], attacks=["invgrad:steps=1"], metrics=["mse"])
    assert "exactly zero" in result.failures[0].reason


def test_channels_that_no_picture_has_are_refused():
    with pytest.raises(DataError, match="4 channels"):
        gh.audit("lenet", torch.rand(1, 4, 16, 16), [0])


def test_defenses_that_do_nothing_leave_the_same_pictures(plan, tmp_path):
    plan = dataclasses.replace(plan, defenses=("none", "gaussian:sigma=0", "prune:percent=0"))
    result, _ = run(plan, tmp_path)
    values = {setup.defense: [] for setup in result.setups}
    for one in result.per_image:
        values[one.setup.defense].append(one.value)
    assert values["none"] == values["gaussian:sigma=0"] == values["prune:percent=0"]


def test_default_attacks_that_cannot_run_are_left_out_by_the_steps_they_would_have_run(tmp_path, caplog):
    plan = Plan(dataset="photos", images=1, model="convnet8:width=2", defenses=("none",), metrics=("mse",), steps=1)
    result, _ = run(plan, tmp_path)
    assert {setup.attack for setup in result.setups} == {"invgrad:steps=1,tv=0.01"}
    assert [line.partition(": ")[0] for line in result.left_out] == ["idlg:steps=1,restarts=2"]
    assert "idlg:steps=1,restarts=2 is left out: " in caplog.text


def test_another_forward_is_another_model(tmp_path):
    class First(Net):
        pass

    class Second(Net):
        def forward(self, x):
            return super().forward(1 - x)

    Second.__qualname__ = First.__qualname__
    Second.__name__ = First.__name__
    results = []
    for kind in (First, Second):
        torch.manual_seed(0)
        model = kind().eval()
        results.append(
            gh.audit(
                model, torch.full((1, 3, 16, 16), 0.2), [1], attacks=["invgrad:steps=2"], metrics=["mse"], out=tmp_path
            )
        )
    assert results[0].rows[0].value != results[1].rows[0].value


def test_a_folder_of_somebody_elses_images_is_not_claimed(plan, tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / ".movie.part").write_text("precious")
    with pytest.raises(StudyError, match="holds no study"):
        run(plan, tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".movie.part", "images"]


def test_copies_among_the_others_do_not_hide_what_was_seen(tmp_path):
    images, labels = gh.data.load("photos:size=16").batch([0, 1])
    result = gh.audit(
        "mlp",
        images,
        labels,
        attacks=["fc_inversion"],
        metrics=["psnr"],
        others=torch.cat((images, images.flip(3))),
    )
    assert result.gallery == "2 others handed over"
    assert result.identified[0].images == (0, 1)


def test_defenses_that_act_while_training_are_refused(plan, tmp_path):
    with pytest.raises(SettingError, match="an audit trains nothing"):
        run(dataclasses.replace(plan, defenses=("gaussian:at=both",)), tmp_path)
