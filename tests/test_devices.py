"""Devices: which one is chosen, and, on a pretended GPU, that work goes there, mixes nothing, and comes back."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from tests.pretended import CPU, GPU, pretended_gpu
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from glasshouse import attacks, defenses, devices, membership, metrics, models, weights
from glasshouse.attacks.engine.matcher import matcher_for
from glasshouse.attacks.engine.objectives import Cosine
from glasshouse.attacks.engine.tape import Tape
from glasshouse.defenses import DefendedClient
from glasshouse.errors import DeviceError
from glasshouse.functional.gradients import parameter_gradients, parameter_names
from glasshouse.membership.queries import Protected, logits
from glasshouse.metrics.base import Metric
from glasshouse.models import trunks
from glasshouse.models.batchnorm import batchnorm_mode
from glasshouse.studies.audit import Running
from glasshouse.training import Recipe, accuracy, fit
from glasshouse.types import ImageSpec, Observation, SharedUpdate

SPEC = ImageSpec(3, 16, 16, 10)
LABELS = torch.tensor([3, 1])


@pytest.fixture(autouse=True)
def _nothing_asked_for(monkeypatch):
    monkeypatch.setenv(devices.VARIABLE, "")


@pytest.fixture
def gpus(monkeypatch):
    """Say how many GPUs there are."""
    return lambda count: monkeypatch.setattr(devices, "_present", lambda: count)


@pytest.fixture
def gpu(gpus):
    """A pretended GPU in this machine, which work goes to unasked; what it holds and has done."""
    gpus(1)
    with pretended_gpu() as memory:
        yield memory


@pytest.fixture
def images(photos):
    return nn.functional.interpolate(photos[:2], size=(16, 16), mode="area")


def seen_of(model, images, *, count=1, batchnorm="eval", give=False, kind="gradient", known=None):
    with batchnorm_mode(model, batchnorm):
        found = parameter_gradients(model, images[:count], LABELS[:count])
    tensors = dict(zip(parameter_names(model), found, strict=True))
    shared = SharedUpdate(tensors, kind, local_steps=2, learning_rate=0.1)
    labels = LABELS[:count] if give else None
    return Observation((shared,), SPEC, count, batchnorm, labels, batch_statistics=known)


def network(spec, seed=0):
    """A network whose batch norm has seen something."""
    model = models.create(spec, SPEC, seed=seed)
    rng = torch.Generator().manual_seed(seed)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.copy_(torch.rand(buffer.shape, generator=rng))
    return model


@pytest.mark.parametrize(
    ("present", "asked", "expected"),
    [(0, "", "cpu"), (2, "", "cuda:0"), (2, "cpu", "cpu"), (2, "cuda", "cuda:0"), (2, "cuda:1", "cuda:1")],
)
def test_a_gpu_is_used_where_there_is_one_and_nobody_says_otherwise(gpus, monkeypatch, present, asked, expected):
    gpus(present)
    monkeypatch.setenv(devices.VARIABLE, asked)
    assert devices.chosen() == torch.device(expected)


@pytest.mark.parametrize(("asked", "text"), [("cuda", "sees no GPUs"), ("cuda:1", "sees 1 GPU "), ("gpu", "no device")])
def test_a_device_that_is_not_there_is_refused(gpus, monkeypatch, asked, text):
    gpus(0 if asked == "cuda" else 1)
    monkeypatch.setenv(devices.VARIABLE, asked)
    with pytest.raises(DeviceError, match=f"{devices.VARIABLE}={asked}.*{text}.*use .*cpu"):
        devices.chosen()


def test_a_study_refuses_it_before_any_work(gpus, monkeypatch):
    gpus(0)
    monkeypatch.setenv(devices.VARIABLE, "cuda")
    with pytest.raises(DeviceError, match="sees no GPUs"):
        Running(engine="local", workers=2)


def test_what_pytorch_sees_counts(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for there in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert devices.gpus() == (2 if there else 0)


def test_workers_take_turns_at_the_gpus(gpus, monkeypatch):
    gpus(2)
    assert (devices.usual_workers(), devices.share_of_gpu(3), devices.share_of_gpu(1)) == (2, 0.5, 1)
    for worker, expected in ((1, "cuda:1"), (2, "cuda:0")):
        monkeypatch.setenv(devices.VARIABLE, "cuda")
        devices.settle(worker)
        assert devices.chosen() == torch.device(expected)
    devices.settle(1)  # who asked for one GPU keeps it
    assert (devices.chosen(), devices.gpus()) == (torch.device("cuda:0"), 1)
    devices.granted(gpu=False)
    assert (devices.chosen(), devices.share_of_gpu(1)) == (CPU, 0)


def test_too_little_memory_is_said(gpu):
    model = nn.Linear(2, 2)
    with pytest.raises(DeviceError, match=r"cuda:0 does not hold this .* GLASSHOUSE_DEVICE=cpu"), devices.placed(model):
        raise torch.OutOfMemoryError("CUDA out of memory.")
    assert devices.home_of(model) == CPU


MIXED = {
    "a sum": lambda there, here: there + here,
    "a product of matrices": lambda there, here: there @ here,
    "side by side": lambda there, here: torch.cat([there, here]),
    "in place": lambda there, here: there.mul_(here),
    "into": lambda there, here: torch.mul(here, here, out=there),
}


@pytest.mark.parametrize("meeting", MIXED.values(), ids=MIXED)
def test_the_pretended_gpu_refuses_what_pytorch_refuses(meeting):
    for world in (pretended_gpu, FakeTensorMode):
        with world():
            here, there = (torch.ones(3, 3, device=device) for device in ("cpu", "cuda"))
            meeting(there, there.clone())
            with pytest.raises(RuntimeError, match="on the same device"):
                meeting(there, here)


def test_the_pretended_gpu_keeps_to_what_a_gpu_keeps_to():
    with pretended_gpu() as memory:
        there = torch.eye(3, device="cuda")
        assert there.new_zeros(2).device == there[0].device == copy.deepcopy(there).device == GPU
        assert (there * torch.tensor(2.0)).device == there[torch.tensor([0])].device == GPU
        assert torch.zeros(2).device == there.cpu().device == torch.empty_like(there, device="cpu").device == CPU
        assert nn.functional.one_hot(there.long()).device == GPU
        with pytest.raises(RuntimeError, match="draws random numbers"):
            there.exponential_(generator=torch.Generator())
        with pytest.raises(RuntimeError, match="on the same device"):
            torch.ones(3)[there.long()]
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        assert memory.work[GPU]["mul"] == 1


ON_GPU = {
    "restarts": ("invgrad:steps=2,restarts=2,patience=1", "lenet:width=8", {"give": True}),
    "recovered labels": ("invgrad:steps=1,annealed=false,masked=true", "lenet:width=8", {"count": 2}),
    "optimised labels": ("invgrad:steps=1,labels=optimised", "lenet:width=8", {"count": 2}),
    "updates": ("invgrad:steps=1", "lenet:width=8", {"kind": "update"}),
    "running statistics": ("gradattack:steps=1", "convnet8:width=4", {}),
    "double precision": ("dlg:steps=1,restarts=1,float64=true", "lenet:width=8", {}),
    "idlg": ("idlg:steps=1,restarts=1", "lenet:width=8", {}),
    "unshuffle": ("unshuffle:steps=1,part=unmixed", "lenet:width=8", {}),
    "model_inversion": ("model_inversion:steps=2", "lenet:width=8", {"count": 2, "give": True}),
}


def attacked(spec, model, seen):
    return attacks.create(spec)(model, seen, rng=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("spec", "model", "how"), ON_GPU.values(), ids=ON_GPU)
def test_attacks_that_follow_run_on_the_gpu_from_beginning_to_end(gpus, images, spec, model, how):
    model = network(model)
    seen = seen_of(model, images, **how)
    gpus(0)
    here = attacked(spec, model, seen)
    gpus(1)
    with pretended_gpu() as memory:
        there = attacked(spec, model, seen)
    assert memory.work[GPU]["convolution"]
    assert not memory.work[CPU]["convolution"]
    assert {memory.device_of(one) for one in (there.images, *model.parameters(), *model.buffers())} == {CPU}
    torch.testing.assert_close(there.images, here.images)
    assert there.objective == pytest.approx(here.objective, rel=1e-4, abs=1e-6)


def test_every_attack_that_follows_is_tried():
    followers = {name for name in attacks.attacks.names() if attacks.attacks.get(name).follows_device}
    assert followers == {spec.partition(":")[0] for spec, _, _ in ON_GPU.values()}


def test_other_attacks_stay_on_the_cpu_even_with_a_model_that_does_not(gpu, images):
    model = network("mlp")
    seen = seen_of(model, images)
    there = copy.deepcopy(model).to("cuda")
    gpu.work[GPU].clear()
    found = attacked("fc_inversion", there, seen.to(GPU))
    assert devices.home_of(there) == GPU
    assert "addmm" not in gpu.work[GPU]
    torch.testing.assert_close(found.images, images[:1])


@pytest.mark.parametrize(
    ("model", "batchnorm"),
    [
        ("lenet:width=16", "eval"),
        ("tanhnet", "eval"),
        ("convnet8:width=4", "train"),
        ("resnet20:width=4", "eval"),
    ],
)
def test_the_engine_takes_a_model_on_the_gpu_and_falls_back_on_nothing(gpu, images, model, batchnorm):
    model = network(model)
    names = parameter_names(model)
    with batchnorm_mode(model, batchnorm):
        found = zip(names, parameter_gradients(model, images, LABELS), strict=True)
        target = {name: one[None] for name, one in found if not name.endswith("bias")}  # some are not shared
        plain = Tape(model, 2)
        here = plain.step(images.flip(0), LABELS, plain.pack(target), Cosine())
        with devices.placed(model):
            engine = matcher_for(model, SPEC.shape, SPEC.classes, 2)
            assert isinstance(engine, Tape)
            assert len(engine.entries) == len(plain.entries)  # operations one by one, not all of it as one
            packed = engine.pack({name: one.to(GPU) for name, one in target.items()})
            there = engine.step(images.flip(0).to(GPU), LABELS.to(GPU), packed, Cosine())
            assert engine.bytes_per_problem(SPEC.shape) > 0
    for one, other in zip(there, here, strict=True):
        assert one.device == GPU
        torch.testing.assert_close(one.cpu(), other)


@pytest.mark.parametrize(
    "defense",
    [
        "none",
        "gaussian:at=training",
        "laplace:at=training",
        "prune:at=training",
        "clip:noise=0.1,at=training",
        "soteria",
        "pixelate/gaussian:at=training",
        "mixup",
        "image_noise",
    ],
)
def test_training_runs_on_the_gpu_behind_any_defense_and_learns_the_same(gpus, images, defense):
    trained, losses = [], []
    for present in (0, 1):
        gpus(present)
        model = network("lenet:width=4")
        client = DefendedClient(defenses.create(defense), torch.Generator().manual_seed(1))
        with pretended_gpu() as memory:
            after = []
            recipe = Recipe(epochs=1, batch=2)
            losses.append(fit(model, images, LABELS, recipe, client=client, after_epoch=after.append))
            right = accuracy(model, images, LABELS)
            assert memory.device_of(next(model.parameters())) == CPU
        assert after == [1]
        trained.append((right, nn.utils.parameters_to_vector(model.parameters())))
        assert ("convolution" in memory.work[CPU]) != present
    assert losses[0] == pytest.approx(losses[1])
    assert trained[0][0] == trained[1][0]
    torch.testing.assert_close(trained[0][1], trained[1][1])


def test_every_defense_says_whether_training_behind_it_may_run_there():
    stays = [name for name in defenses.defenses.names() if not defenses.defenses.get(name).follows_device]
    assert stays == ["dp_sgd"]
    assert not defenses.create("csvar/dp_sgd").follows_device


@pytest.mark.parametrize("metric", ["lpips", "semsim", "kid"])
def test_metrics_look_through_networks_on_the_gpu(gpus, monkeypatch, photos, metric):
    if metric == "lpips" and any(weights.where(name) is None for name in ("alexnet", "lpips_alex")):
        pytest.skip("the weights are not here: run 'glasshouse weights install'")
    small = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    monkeypatch.setattr(trunks, "inception_fid", lambda: small)  # the real one takes seconds to load
    values = []
    for present in (0, 1):
        gpus(present)
        with pretended_gpu() as memory:
            values.append(measured(metrics.create(metric), photos[:1], photos[1:2]))
            assert memory.device_of(values[-1]) == CPU
        assert ("convolution" in memory.work[CPU]) != present
    torch.testing.assert_close(values[1], values[0])


def measured(metric, truth, guess):
    if isinstance(metric, Metric):
        return metric(truth, guess)
    metric.update(truth, guess)
    return torch.cat(metric.truths + metric.guesses)


def test_membership_asks_models_on_the_gpu(gpus, images):
    model = network("lenet:width=4")
    asked = Protected(model, defenses.create("pixelate/image_noise"), versions=2)
    attack = membership.create("loss")
    gpus(0)
    here = logits(asked, images), attack(model, images, LABELS, rng=torch.Generator())
    gpus(1)
    with pretended_gpu() as memory:
        there = logits(asked, images), attack(model, images, LABELS, rng=torch.Generator())
        assert {memory.device_of(one) for one in there} == {CPU}
    assert memory.work[GPU]["convolution"]
    for one, other in zip(there, here, strict=True):
        torch.testing.assert_close(one, other)


def test_observations_move_with_all_that_they_hold(gpu, images):
    model = network("lenet:width=8")
    statistics = ((torch.zeros(2), torch.ones(2)),)
    seen = replace(seen_of(model, images, count=2, give=True, known=statistics), public=images).to(GPU)
    assert seen.labels is not None
    held = [*seen.rounds[0].tensors.values(), seen.labels, seen.public, *seen.batch_statistics[0]]
    assert {one.device for one in held} == {GPU}
