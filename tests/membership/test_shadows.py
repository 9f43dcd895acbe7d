"""Shadow models: who is in which, kept once finished, the same by seed, refused where they prove nothing."""

from __future__ import annotations

import dataclasses
import os
import signal

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from glasshouse import defenses
from glasshouse.errors import DataError, SettingError, WeightsError
from glasshouse.membership import Bank, Protected, Shadows, Trainer, views
from glasshouse.membership.queries import editions, logits, of_label
from glasshouse.membership.shadows import halves
from glasshouse.training import Recipe, Samples

QUICK = Recipe(epochs=2, batch=8, augment=False)


def network(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


def trainer(**changed) -> Trainer:
    return Trainer(**{"build": network, "identity": "tiny", "recipe": QUICK, **changed})


def samples(count: int, seed: int = 0) -> Samples:
    rng = torch.Generator().manual_seed(seed)
    return Samples(torch.rand(count, 1, 4, 4, generator=rng), torch.arange(count) % 3)


def said(shadows: Shadows) -> torch.Tensor:
    return torch.stack([logits(shadows.model(number), ASKED.images) for number in range(len(shadows))])


ASKED, PUBLIC = samples(12), samples(20, 1)


@pytest.mark.parametrize("count", [7, 8])
def test_without_a_size_a_pair_is_complementary_halves_of_all(count):
    first, second = halves(count, 12, None, pair=0, seed=0)
    assert torch.equal(first, ~second)
    assert abs(int(first.sum()) - int(second.sum())) <= 1
    other = halves(count, 12, None, pair=1, seed=0)[0]
    assert not torch.equal(first, other)
    assert not torch.equal(first, halves(count, 12, None, pair=0, seed=1)[0])


@pytest.mark.parametrize(("size", "mine"), [(6, 6), (10, 6), (4, 4), (14, 6)])
def test_with_a_size_candidates_come_first_and_public_images_fill(size, mine):
    first, second = halves(12, 16, size, pair=0, seed=0)
    for half in (first, second):
        assert int(half.sum()) == size
        assert int(half[:12].sum()) == mine
    assert not (first & second).any()


def test_a_size_that_the_images_do_not_give_is_refused():
    with pytest.raises(DataError, match="want 15 different images each, but there are 12 candidates and 16 public"):
        halves(12, 16, 15, pair=0, seed=0)


def test_every_candidate_is_in_half_of_the_shadows():
    shadows = Bank(trainer(), size=9).shadows(ASKED, PUBLIC, 8)
    assert len(shadows) == 8
    assert shadows.of_candidates.sum(0).tolist() == [4] * 12
    assert shadows.of_public.shape == (8, 20)
    assert shadows.inside.sum(1).tolist() == [9] * 8
    more = Bank(trainer(), size=9).shadows(ASKED, PUBLIC, 10)
    assert torch.equal(more.inside[:8], shadows.inside)
    assert more.key == shadows.key


def test_the_same_on_disk_and_in_memory_and_by_seed(tmp_path):
    found = []
    for folder, seed in ((None, 0), (tmp_path, 0), (tmp_path, 1)):
        shadows = Bank(trainer(), folder=folder, size=9, seed=seed).shadows(ASKED, PUBLIC, 4)
        shadows.train()
        assert shadows.missing() == []
        found.append(said(shadows))
    assert found[0].shape == (4, 12, 3)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert len(list(tmp_path.glob("shadow-*.safetensors"))) == 8


def test_a_finished_shadow_is_kept_and_a_lost_one_comes_back_the_same(tmp_path):
    shadows = Bank(trainer(), folder=tmp_path, size=9).shadows(ASKED, PUBLIC, 4)
    shadows.train()
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in tmp_path.iterdir()}
    lost = max(before)
    lost.unlink()
    again = Bank(trainer(), folder=tmp_path, size=9).shadows(ASKED, PUBLIC, 4)
    assert again.missing() == [3]
    again.train()
    for file, (changed, content) in before.items():
        assert file.read_bytes() == content
        assert (file.stat().st_mtime_ns == changed) == (file != lost)


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_shadow_is_trained_again_to_the_same(tmp_path, damage):
    shadows = Bank(trainer(), folder=tmp_path, size=9).shadows(ASKED, PUBLIC, 4)
    shadows.train()
    file = min(tmp_path.iterdir())
    content = file.read_bytes()
    broken = {"flipped": content[:-1] + bytes([content[-1] ^ 1]), "cut": content[:-9]}
    file.write_bytes(broken[damage])
    assert shadows.missing() == [0]
    shadows.train()
    assert file.read_bytes() == content


def test_a_shadow_that_is_older_than_digests_is_kept(tmp_path):
    shadows = Bank(trainer(), folder=tmp_path, size=9).shadows(ASKED, PUBLIC, 2)
    shadows.train()
    for file in tmp_path.iterdir():
        save_file(load_file(file), file)
    assert shadows.missing() == []


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from test_shadows import ASKED, PUBLIC, Bank, trainer
Bank(trainer(), folder=Path(sys.argv[1]), size=9).shadows(ASKED, PUBLIC, 4).train()
"""


def test_killed_while_it_writes_the_third_shadow_it_goes_on(forked, tmp_path):
    words = [str(tmp_path), os.path.dirname(__file__)]  # noqa: PTH120
    assert forked(SCRIPT, *words, GLASSHOUSE_FAILPOINT="file.before_rename:3").returncode == -signal.SIGKILL
    shadows = Bank(trainer(), folder=tmp_path, size=9).shadows(ASKED, PUBLIC, 4)
    assert shadows.missing() == [2, 3]
    shadows.train()
    whole = Bank(trainer(), size=9).shadows(ASKED, PUBLIC, 4)
    whole.train()
    assert torch.equal(said(shadows), said(whole))


def test_the_name_covers_all_that_changes_a_shadow():
    changes = [
        Bank(trainer()),
        Bank(trainer(), size=9),
        Bank(trainer(), seed=1),
        Bank(trainer(identity="other")),
        Bank(trainer(recipe=dataclasses.replace(QUICK, epochs=3))),
        Bank(trainer(defense=defenses.create("csvar"))),
        Bank(trainer(defense=defenses.create("image_noise:sigma=9"))),
    ]
    keys = [bank.shadows(ASKED, PUBLIC, 2).key for bank in changes]
    keys += [
        changes[0].shadows(samples(12, 2), PUBLIC, 2).key,
        changes[0].shadows(Samples(ASKED.images, ASKED.targets.flip(0)), PUBLIC, 2).key,
        changes[0].shadows(samples(11), PUBLIC, 2).key,
    ]
    assert len(set(keys)) == len(keys)
    assert Bank(trainer(recipe=dataclasses.replace(QUICK, seed=5))).shadows(ASKED, PUBLIC, 2).key == keys[0]


def test_a_damaged_file_says_so(tmp_path):
    shadows = Bank(trainer(), folder=tmp_path, size=9).shadows(ASKED, PUBLIC, 2)
    shadows.train()
    next(tmp_path.iterdir()).write_bytes(b"broken")
    with pytest.raises(WeightsError, match="not a readable safetensors file"):
        said(shadows)


def test_nothing_to_train_on():
    with pytest.raises(DataError, match="give 4 or more"):
        Bank(trainer()).shadows(samples(2), samples(1), 2)
    with pytest.raises(SettingError, match="size=1 is out of range"):
        Bank(trainer(), size=1)


def test_a_defense_that_does_not_act_while_training_is_refused():
    with pytest.raises(SettingError, match="add at=training"):
        trainer(defense=defenses.create("gaussian"))
    trained = trainer(defense=defenses.create("gaussian:sigma=1,at=training")).train(ASKED, 0)
    assert not torch.equal(trained[1].weight, trainer().train(ASKED, 0)[1].weight)


def test_dp_sgd_is_set_up_for_the_training():
    guard = trainer(defense=defenses.create("dp_sgd:epsilon=4")).guard(12)
    assert (guard.steps, guard.sample_rate, guard.batch) == (4, 8 / 12, 8)
    assert "(epsilon, delta) = (4, 1e-05) over 4 steps" in guard.promise


def test_training_is_the_same_by_seed_and_says_how_far_it_is():
    shares: list[float] = []
    first, second, other = (trainer().train(ASKED, seed, shares.append) for seed in (0, 0, 1))
    assert torch.equal(first[1].weight, second[1].weight)
    assert not torch.equal(first[1].weight, other[1].weight)
    assert shares[:2] == [0.5, 1.0]
    assert not first.training


def test_dropout_is_drawn_by_the_seed_too():
    def dropping(seed: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), network(seed)[1])

    first, second = (trainer(build=dropping).train(ASKED, 0)[2].weight for _ in range(2))
    assert torch.equal(first, second)


def test_views_of_a_defended_model():
    assert list(views(defenses.create("none"), 0)) == ["clean"]
    assert list(views(defenses.create("dp_sgd"), 0)) == ["clean"]
    assert list(views(defenses.create("mixup"), 0)) == ["clean"]
    for spec in ("csvar", "image_noise", "dp_sgd/csvar"):
        assert list(views(defenses.create(spec), 0)) == ["clean", "protected"]
    model = network(0).eval()
    assert views(defenses.create("csvar"), 0)["clean"](model) is model


def test_a_protected_view_averages_versions_and_is_the_same_each_time():
    model, images = network(0).eval(), ASKED.images
    seen = []
    probe = nn.Sequential(model)
    probe.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    view = Protected(probe, defenses.create("csvar"), seed=3, versions=3)
    with torch.no_grad():
        found = view(images)
        torch.testing.assert_close(found, torch.stack([model(one).log_softmax(1) for one in seen]).mean(0))
        assert torch.equal(found, view(images))
        assert not torch.equal(found, Protected(model, defenses.create("csvar"), seed=4, versions=3)(images))
    assert len({one.numpy().tobytes() for one in seen[:3]}) == 3
    for one in seen[:3]:
        assert torch.equal(one.flatten(1).sort().values, images.flatten(1).sort().values)


@pytest.mark.parametrize("spec", ["csvar_exchange:dither=0", "csvar_exchange:dither=0/mixup"])
def test_who_asks_does_not_know_the_class_so_that_each_query_is_protected_alone(spec):
    seen = []
    probe = nn.Sequential(network(0).eval())
    probe.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    Protected(probe, defenses.create(spec), versions=2)(ASKED.images)
    for one in seen:
        assert not torch.equal(one, ASKED.images)
        assert torch.equal(one.flatten(1).sort().values, ASKED.images.flatten(1).sort().values)


def test_only_answers_that_changed_have_a_version_of_their_own():
    assert editions(defenses.create("csvar_exchange")) == editions(defenses.create("clip/csvar_exchange")) == (2,)
    assert not any(editions(defenses.create(spec)) for spec in ("none", "csvar", "mixup", "csvar/mixup"))
    assert editions(defenses.create("image_noise")) == (3,)
    assert editions(defenses.create("csvar_exchange/image_noise")) == (2, 3)


BY_PLACE = "csvar_exchange"  # mirrors and dithers by key and place: by content it would take fifteen times as long


@pytest.mark.parametrize("spec", [*(one for one in defenses.defenses.names() if one != BY_PLACE), "csvar/image_noise"])
def test_a_query_does_not_depend_on_those_beside_it(spec):
    for query, view in views(defenses.create(spec), 5).items():
        sent: list[torch.Tensor] = []
        probe = nn.Sequential(network(0).eval())
        probe.register_forward_pre_hook(lambda module, inputs, sent=sent: sent.append(inputs[0]))
        asked = view(probe)
        asked(ASKED.images)
        asked(ASKED.images[[3]])
        together, alone = sent[: len(sent) // 2], sent[len(sent) // 2 :]
        assert all(torch.equal(one[[3]], other) for one, other in zip(together, alone, strict=True)), query
        if spec == "image_noise" and query == "protected":
            noise = together[0] - ASKED.images
            assert not torch.equal(noise[0], noise[1])
            assert not torch.equal(together[0], together[1])


def test_queries():
    found = logits(network(0).eval(), samples(300).images)
    assert found.shape == (300, 3)
    assert found.dtype == torch.float64
    assert of_label(torch.arange(12).view(2, 2, 3), torch.tensor([2, 0])).tolist() == [[2, 3], [8, 9]]
