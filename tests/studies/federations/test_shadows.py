"""Shadow federations are trained as the clients train, once, and tell members better than a coin."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tests.federated.local import federate

from glasshouse import defenses
from glasshouse.errors import GlasshouseError
from glasshouse.federated.clients import weights_of
from glasshouse.federated.holdings import open_pool
from glasshouse.federated.plan import Federation
from glasshouse.federated.records import Ledger
from glasshouse.membership import Shadows
from glasshouse.membership.queries import logits, views
from glasshouse.studies.audit import Running
from glasshouse.studies.federations import program
from glasshouse.studies.federations.asked import Asked
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import lines, told
from glasshouse.studies.federations.shadows import FederatedTrainer, Shadowed, unused
from glasshouse.training import Samples

pytest.importorskip("flwr", reason="needs glasshouse[federated]")

SMALL = Federation(model="mlp:width=16", images=60, clients=3, rounds=2, local_epochs=2, batch=8, lr=0.1, momentum=0.9)
STUDY = Federations(
    defenses=("none",),
    models=("mlp:width=32",),
    extra=("digits | mlp:width=32 | none | shadows",),
    clients=2,
    rounds=4,
    local_epochs=4,
    lr=0.1,
    momentum=0.9,
    images=100,
    shadow_membership=("lira:shadows=4", "rmia:shadows=4"),
)


@pytest.fixture(scope="module", autouse=True)
def _without_processes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "federate", federate)
        yield


def test_the_federation_is_asked_anew_as_its_shadows_will_be(tmp_path):
    """Behind a key the place of a query among the others may count, and fewer others are asked about here."""
    federate(SMALL, tmp_path)
    asked = Asked.of(SMALL, tmp_path, None)
    asked.accuracy(SMALL.rounds)
    shadowed = Shadowed.of(asked, ("lira:shadows=4",), tmp_path, None)
    assert asked.answers
    assert not shadowed.asked.answers
    assert len(shadowed.asked.others.images) == SMALL.images < len(asked.others.images)


@pytest.mark.parametrize("defense", ["none", "csvar"])
def test_a_shadow_of_the_federations_own_images_is_the_global_model(defense, tmp_path):
    plan = dataclasses.replace(SMALL, defense=defense)
    federate(plan, tmp_path)
    asked = Asked.of(plan, tmp_path, None)
    pool = open_pool("digits", "train", None, None)
    places = sorted(place for client in range(plan.clients) for place in held(plan, client))
    samples = Samples(pool.read(places, 0), torch.tensor([pool.labels[place] for place in places]))
    found = weights_of(FederatedTrainer.of(plan, asked.image).train(samples, plan.seed))
    for name, expected in Ledger(tmp_path).sent(plan.rounds).items():
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-5)


def test_answers_do_not_depend_on_what_was_asked_first(tmp_path):
    plan = dataclasses.replace(SMALL, defense="image_noise:sigma=50")
    federate(plan, tmp_path)
    asked = Asked.of(plan, tmp_path, None)
    asked.accuracy(plan.rounds)
    found = logits(asked.ways(plan.rounds)["protected"], asked.candidates.images)
    direct = logits(views(defenses.create(plan.defense), plan.seed)["protected"](asked.model), asked.candidates.images)
    torch.testing.assert_close(found, direct)


def held(plan: Federation, client: int) -> tuple[int, ...]:
    from glasshouse.federated.holdings import dealt

    return dealt(plan, client, open_pool("digits", "train", None, None).class_names, None).places


def test_public_images_are_nobodys(tmp_path):
    federate(SMALL, tmp_path)
    candidates = Asked.of(SMALL, tmp_path, None).candidates
    public = unused(SMALL, candidates, None)
    nearest = torch.cdist(public.images.flatten(1), candidates.images.flatten(1)).amin(1)
    assert len(public.images) > 100
    assert float(nearest.min()) > 0


def test_other_settings_of_the_federation_are_other_shadows():
    image = open_pool("digits", "train", None, None).spec
    key = FederatedTrainer.of(SMALL, image).key
    for change in (
        {"clients": 2},
        {"rounds": 3},
        {"split": "dirichlet:alpha=1"},
        {"augment": True},
        {"defense": "csvar"},
    ):
        assert FederatedTrainer.of(dataclasses.replace(SMALL, **change), image).key != key
    assert FederatedTrainer.of(dataclasses.replace(SMALL, seed=7), image).key == key  # the bank counts seeds


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    directory = tmp_path_factory.mktemp("study")
    return directory, program.carry_out(STUDY, directory, Running())[0]


def test_attacks_with_shadows_tell_members_after_the_last_round(study):
    directory, found = study
    (row,) = found["rows"]
    assert set(row["shadowed"]) == {"lira:shadows=4, clean", "rmia:shadows=4, clean"}
    assert set(told(row)) == {"loss, clean", *row["shadowed"]}
    assert row["shadowed"]["rmia:shadows=4, clean"]["auc"]["low"] > 0.5
    assert {line.attack for line in lines(directory)} == {"", "loss", "lira:shadows=4", "rmia:shadows=4"}


def test_a_killed_study_finds_its_shadows_again(study, tmp_path, monkeypatch):
    trained: list[int] = []
    before = Shadows.train_one

    def until_the_third(self, number, progress):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(number)
        before(self, number, progress)

    monkeypatch.setattr(Shadows, "train_one", until_the_third)
    with pytest.raises(KeyboardInterrupt):
        program.carry_out(STUDY, tmp_path, Running())
    monkeypatch.setattr(
        Shadows, "train_one", lambda self, number, progress: (trained.append(number), before(self, number, progress))
    )
    shares: list[float] = []
    found, summary = program.carry_out(STUDY, tmp_path, Running(training_progress=lambda done, _: shares.append(done)))
    assert trained == [0, 1, 2, 3]
    assert summary.done == 1
    assert shares == sorted(shares)
    assert found["rows"][0]["shadowed"] == study[1]["rows"][0]["shadowed"]


def test_a_federation_without_time_for_its_shadows_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(Shadowed, "train", lambda self, deadline, progress: False)
    found, summary = program.carry_out(STUDY, tmp_path, Running())
    assert (summary.left, summary.failed) == (1, 0)
    assert found["rows"][0]["pending"]


def test_when_the_time_is_over_no_shadow_is_begun(tmp_path):
    federate(SMALL, tmp_path)
    shadowed = Shadowed.of(Asked.of(SMALL, tmp_path, None), ("lira:shadows=4",), tmp_path / "shadows", None)
    assert not shadowed.train(0.0, lambda share: None)
    assert len(shadowed.shadows.missing()) == 4


def test_without_images_of_the_attackers_own_it_says_so(tmp_path):
    plan = dataclasses.replace(SMALL, images=None, rounds=1, local_epochs=1, batch=64)
    federate(plan, tmp_path)
    shadowed = Shadowed.of(Asked.of(plan, tmp_path, None), ("lira:shadows=4",), tmp_path / "shadows", None)
    with pytest.raises(GlasshouseError, match="no public images"):
        shadowed.membership(1)
