"""RMIA against a slow loop over pairs, its approximation of p(x), and the tuned a."""

from __future__ import annotations

import pytest
import torch

from glasshouse.errors import SettingError
from glasshouse.membership import create
from glasshouse.membership.rmia import Known, expected, share_below


@pytest.fixture
def known() -> Known:
    rng = torch.Generator().manual_seed(0)
    logs = torch.randn(6, 25, generator=rng, dtype=torch.float64).abs().neg()
    inside = torch.stack([torch.randperm(6, generator=rng) < 3 for _ in range(25)], 1)
    inside[:, 20:] = False  # images that no shadow saw
    return Known(logs, inside, 10, online=False, gamma=1.0)


def slow(known: Known, target: torch.Tensor, a: float) -> list[float]:
    """The paper's test, pair by pair, with plain probabilities."""
    p, seen = known.logs.exp().tolist(), known.inside.tolist()

    def ratio(image: int) -> float:
        out = [row[image] for row, saw in zip(p, seen, strict=True) if not saw[image]]
        within = [row[image] for row, saw in zip(p, seen, strict=True) if saw[image]]
        if known.online and within:
            likely = (sum(out) / len(out) + sum(within) / len(within)) / 2
        else:
            likely = ((1 + a) * sum(out) / len(out) + (1 - a)) / 2
        return float(target[image].exp()) / likely

    population = range(known.candidates, known.logs.shape[1])
    return [
        sum(ratio(x) / ratio(z) >= known.gamma for z in population) / len(population) for x in range(known.candidates)
    ]


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("gamma", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("a", [0.0, 0.3, 1.0])
def test_against_a_slow_loop(known, online, gamma, a):
    target = -torch.rand(25, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    one = Known(known.logs, known.inside, known.candidates, online, gamma)
    assert one.scores(target, a).tolist() == pytest.approx(slow(one, target, a))


def test_ties_count_and_nothing_underflows():
    assert share_below(torch.zeros(1), torch.tensor([0.0, -1, 1, 0]), 1.0).tolist() == [0.75]
    tiny = torch.full((4, 3), -2000.0, dtype=torch.float64)
    inside = torch.tensor([[True, False, False]] * 2 + [[False, False, True]] * 2)
    found = expected(tiny, inside, 1.0, online=True)
    torch.testing.assert_close(found, torch.full((3,), -2000.0, dtype=torch.float64))


def test_images_that_every_shadow_saw_are_refused(known):
    with pytest.raises(SettingError, match="in every shadow model"):
        expected(known.logs, torch.ones_like(known.inside), 0.5, online=False)


def test_a_is_tuned_on_a_shadow_without_its_pair(world):
    attack = create("rmia:shadows=8")
    tuned = world.scores(attack)
    grid = [world.scores(create("rmia:shadows=8", a=step / 10)) for step in range(11)]
    assert any(torch.equal(tuned, one) for one in grid)


def test_the_pair_of_the_attacked_shadow_is_left_out(known):
    changed = Known(known.logs.clone(), known.inside, known.candidates, known.online, known.gamma)
    changed.logs[1] -= 50
    assert changed.tuned() == known.tuned()


@pytest.mark.parametrize(
    "spec", ["rmia:shadows=8", "rmia:shadows=8,mode=online", "rmia:shadows=8,gamma=2", "rmia:shadows=2,a=0.3"]
)
def test_every_mode_tells_members(spec, world):
    assert world.auc(create(spec)) > 0.65  # this world: 0.76 to 0.84
    assert world.auc(create(spec), world.stranger) == pytest.approx(0.5, abs=0.15)
