"""The GAN attack's participant: one client among others, whose update is an honest one on its images and its fakes."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from glasshouse.attacks.gan import Forger
from glasshouse.cli.main import app
from glasshouse.data import load
from glasshouse.errors import DataError, SettingError, UnknownNameError
from glasshouse.federated import Federation
from glasshouse.federated.adversaries import create
from glasshouse.federated.adversaries.findings import Findings
from glasshouse.federated.clients import Member, network, set_weights, train_round
from glasshouse.federated.deployed import plan_of
from glasshouse.federated.holdings import dealt
from glasshouse.federated.host import Host
from glasshouse.federated.run import write_down
from glasshouse.reports.federation import write_federation_report
from glasshouse.reports.federation_audit import write_federation_audit_report
from glasshouse.studies.federation import FederationAudit, audit_federation
from glasshouse.training import fit

SPEC = "gan:target=3,client=1,steps=3,fakes=8,width=4,latent=8"


@pytest.fixture(scope="module")
def plan(small) -> Federation:
    return dataclasses.replace(small, adversary=SPEC)


@pytest.fixture(scope="module")
def place(plan, carry_out, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("gan") / "federation"
    carry_out(plan, out)
    return out


@pytest.fixture(scope="module")
def class_names(plan, tmp_path_factory) -> tuple[str, ...]:
    return Host.prepare(plan, tmp_path_factory.mktemp("host")).class_names


def states(ledger, rounds: int):
    return [value for number in range(rounds + 1) for value in ledger.sent(number).values()]


def test_the_global_model_has_one_class_more(place, carry_out, small, plan):
    ledger = carry_out(plan, place)
    assert ledger.sent(0)["network.3.weight"].shape[0] == 11
    assert [heard.client for heard in ledger.finished()[1].heard] == [0, 1, 2]


def test_the_adversary_holds_every_class_but_the_targets(plan, small, class_names):
    own, honest = dealt(plan, 1, class_names, None), dealt(small, 1, class_names, None)
    assert sorted(set(own.labels.tolist())) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert set(own.places) == {
        place for place, label in zip(honest.places, honest.labels.tolist(), strict=True) if label != 3
    }
    assert any(3 in dealt(plan, client, class_names, None).labels for client in (0, 2))


def test_honest_clients_do_as_without_an_adversary(plan, place, carry_out, class_names):
    """What the server saw of client 0 is what an honest round on its images gives, whoever else is there."""
    ledger = carry_out(plan, place)
    fair = dataclasses.replace(plan, adversary=None)
    member = Member.simulated(0, plan.seed)
    alone = train_round(fair, dealt(fair, 0, class_names, None), member, 1, ledger.sent(1))
    assert all(value.equal(ledger.seen(1, 0)[name]) for name, value in alone.weights.items())


def test_the_update_is_an_honest_one_on_own_images_and_fakes(plan, place, carry_out, class_names):
    """Recomputed by hand: the generator that the round left makes the fakes, and plain training does the rest."""
    ledger, adversary = carry_out(plan, place), create(SPEC)
    own = dealt(plan, 1, class_names, None)
    member = Member.simulated(1, plan.seed)
    forger = Forger(own.spec, latent=8, width=4, lr=adversary.lr, seed=0)
    forger.restore(Findings(place).before(2))
    made = forger.samples(8, rng=member.generator("fakes", 1))
    model = network(plan, own.spec)
    set_weights(model, ledger.sent(1))
    images = torch.cat([own.in_epoch(1).images, made])
    labels = torch.cat([own.labels, torch.full((8,), 10)])
    recipe = dataclasses.replace(plan.recipe, seed=member.seed("order", 1))
    fit(model, images, labels, recipe, decay_at=())
    seen = ledger.seen(1, 1)
    assert all(value.allclose(seen[name], atol=1e-6) for name, value in model.state_dict().items())
    assert ledger.finished()[1].heard[1].examples == len(own)  # fakes are not counted


def test_pictures_of_every_round_are_kept_and_read_back(place):
    findings = Findings(place)
    for number in (0, 1):
        samples = findings.samples(number, 8)
        assert samples.shape == (64, 1, 8, 8)
        assert samples.std() > 0
    assert not findings.samples(0, 8).equal(findings.samples(1, 8))
    member = Member.simulated(1, 0)
    forger = Forger(dataclasses.replace(load("digits").spec, classes=11), latent=8, width=4, lr=1e-3, seed=0)
    forger.restore(findings.before(2))
    again = forger.samples(64, rng=member.generator("shown"))
    assert samples.sub(again).abs().max() <= 0.5 / 255 + 1e-6


def test_a_killed_run_goes_on_to_the_same_result(plan, place, carry_out, tmp_path):
    """Killed after the adversary's second round but before the server's: that round is done again from the first."""
    ledger = carry_out(dataclasses.replace(plan, rounds=2), place)
    carry_out(plan, tmp_path / "out")
    for file in ("rounds/001/round.json", "rounds/002/global.safetensors"):
        (tmp_path / "out" / file).unlink()
    again = carry_out(plan, tmp_path / "out")
    assert all(one.equal(two) for one, two in zip(states(ledger, 2), states(again, 2), strict=True))
    first, second = (Findings(folder).before(2) for folder in (place, tmp_path / "out"))
    assert all(value.equal(second[name]) for name, value in first.items())


def test_a_damaged_state_has_its_round_done_again(plan, place, carry_out, tmp_path):
    shutil.copytree(place, tmp_path / "out")
    files = [tmp_path / "out" / "adversary" / f"{number:03d}.safetensors" for number in range(plan.rounds)]
    before = [file.read_bytes() for file in files]
    files[-1].write_bytes(before[-1][:-1] + bytes([before[-1][-1] ^ 1]))
    carry_out(plan, tmp_path / "out")
    assert [file.read_bytes() for file in files] == before


def test_behind_masks_it_does_the_same(plan, carry_out, tmp_path, place):
    """Secure aggregation hides the adversary from the server as it hides everybody else."""
    carry_out(dataclasses.replace(plan, secure_aggregation=True), tmp_path / "out")
    open_, masked = (Findings(folder).samples(1, 8) for folder in (place, tmp_path / "out"))
    assert open_.sub(masked).abs().max() < 0.05  # the sum is carried in whole numbers
    assert open_.sub(masked).abs().mean() < 0.005


def test_a_defense_is_the_honest_clients_own(plan, place, carry_out, class_names):
    """The adversary protects nothing: its first update is the same whatever the others do."""
    noisy = dataclasses.replace(plan, defense="image_noise:sigma=50", rounds=1)
    ledger = carry_out(noisy, place.parent / "noisy")
    seen, before = ledger.seen(0, 1), carry_out(plan, place).seen(0, 1)
    assert all(value.equal(seen[name]) for name, value in before.items())
    assert not all(value.equal(ledger.seen(0, 0)[name]) for name, value in carry_out(plan, place).seen(0, 0).items())


def test_what_cannot_be_is_refused(plan, small, class_names, tmp_path):
    with pytest.raises(UnknownNameError, match="Unknown class '10'"):
        Host.prepare(dataclasses.replace(small, adversary="gan:target=10"), tmp_path)
    with pytest.raises(SettingError, match="client=3 is out of range"):
        dataclasses.replace(small, adversary="gan:client=3")
    with pytest.raises(SettingError, match="fakes=0"):
        dataclasses.replace(small, adversary="gan:fakes=0")
    with pytest.raises(UnknownNameError, match="Unknown adversary 'gann'"):
        dataclasses.replace(small, adversary="gann")
    with pytest.raises(DataError, match="No other client holds an image of class '2'"):
        dealt(dataclasses.replace(plan, images=12, adversary="gan:target=2,client=1"), 1, class_names, None)
    whole = dealt(small, 1, class_names, None)
    with pytest.raises(DataError, match="holds images of class '3' itself"):
        create(SPEC).train_round(plan, whole, Member.simulated(1, 0), 0, {}, home=tmp_path)
    with pytest.raises(SettingError, match="simulations only"):
        plan_of({"adversary": SPEC})


class MeanJudge:
    """Takes an image for the class whose mean image is nearest: stands in for a probe that needs weights."""

    def __init__(self, images, labels, seed):
        self.classes = labels.unique()
        self.means = torch.stack([images[labels == label].mean(0) for label in self.classes])

    def __call__(self, images):
        return self.classes[torch.cdist(images.flatten(1), self.means.flatten(1)).argmin(1)]


def test_the_audit_scores_the_samples_in_table_json_and_page(place, monkeypatch):
    monkeypatch.setattr("glasshouse.studies.forgery.train_judge", MeanJudge)
    words = ["audit", "--federation", place, "--attack", "invgrad:steps=1", "--metric", "mse", "--clients", 1]
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.exception
    assert "What an adversary among the clients learned of class 3" in done.output
    found = json.loads((place / "audit" / "federation_audit.json").read_text(), parse_constant=pytest.fail)
    assert [row["victim"] for row in found["rows"]] == ["client 0"]  # and never the adversary
    forged = found["forgery"]
    assert (forged["target"], forged["rounds"], forged["classes"], len(forged["history"])) == ("3", [1, 2], 10, 2)
    assert forged["accuracy"]["mean"] > 0.7
    assert forged["taught"] == 297  # all test images
    samples = Findings(place).samples(1, 8)
    images, labels = load("digits", split="test").batch(range(297))
    share = float((MeanJudge(images, labels, 0)(samples) == 3).float().mean())
    assert forged["history"][1]["mean"] == pytest.approx(share)
    page = (place / "audit" / "report" / "index.html").read_text()
    assert "samples of the adversary, round 2" in page
    assert "rank of the target" in page


def test_the_page_of_the_federation_shows_every_round(plan, place):
    page = write_federation_report(write_down(Host.prepare(plan, place))).read_text()
    assert page.count('alt="samples of the adversary in round') == 2
    assert "Client 1 is gan:target=3" in page


def test_others_have_no_adversary_to_score(small, carry_out, tmp_path):
    carry_out(dataclasses.replace(small, rounds=1), tmp_path / "out")
    settings = FederationAudit(attacks=("invgrad:steps=1",), metrics=("mse",), clients=1)
    found = audit_federation(tmp_path / "out", tmp_path / "audit", settings)
    assert found.forgery is None
    assert found.to_json()["forgery"] is None
    assert "adversary among" not in write_federation_audit_report(found).read_text()
