"""``glasshouse audit --federation``: what the server saw is attacked, and less can be seen behind what protects."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from glasshouse.attacks import attacks
from glasshouse.cli.main import app
from glasshouse.collection import open_protected, protect
from glasshouse.data import load
from glasshouse.errors import GlasshouseError, SettingError, StudyError
from glasshouse.federated import Federation
from glasshouse.federated.clients import network, set_weights
from glasshouse.federated.holdings import dealt, open_pool
from glasshouse.federated.observed import Sighting
from glasshouse.federated.records import Ledger
from glasshouse.federated.run import DATA_FILE
from glasshouse.models.batchnorm import batchnorm_mode, watched
from glasshouse.reports.federation_audit import asked, verdict, write_federation_audit_report
from glasshouse.studies import federation
from glasshouse.studies.federation import FederationAudit, audit_federation
from glasshouse.studies.sightings import Scene, assigned, points_home, victims
from glasshouse.types import Reconstruction

FITS = {"dlg": "lenet", "idlg": "lenet", "gradattack": "resnet20:width=4", "imprint": "imprinted", "rgap": "rgapnet"}
ATTACK = "invgrad:steps=150,tv=0.0001"
SETTINGS = FederationAudit(attacks=(ATTACK,), metrics=("mse", "psnr"), labels="given", clients=3)


def plan(**changes) -> Federation:
    """Three clients with two digits each, who take one step."""
    return Federation(**{"images": 6, "clients": 3, "rounds": 2, "batch": 2, "model": "mlp:width=32", **changes})


@pytest.fixture(scope="module")
def places(carry_out, tmp_path_factory):
    """The same federation in the open, behind CSVAR, and summed behind masks, of few images and of many."""
    found = {}
    for name, changes in (
        ("open", {}),
        ("csvar", {"defense": "csvar"}),
        ("secure", {"secure_aggregation": True}),
        ("crowd", {"secure_aggregation": True, "images": 60, "batch": 20}),
    ):
        found[name] = tmp_path_factory.mktemp(name) / "federation"
        carry_out(plan(**changes), found[name])
    return found


@pytest.fixture(scope="module")
def audits(places, tmp_path_factory):
    return {
        name: audit_federation(place, tmp_path_factory.mktemp(f"audit-{name}"), SETTINGS)
        for name, place in places.items()
    }


def error(result) -> float:
    return sum(row.values["mse"].mean for row in result.rows) / len(result.rows)


def floor(result) -> float:
    return sum(row.floor["mse"].mean for row in result.rows) / len(result.rows)


def test_one_step_in_the_open_shows_the_images(audits):
    rows = audits["open"].rows
    assert [row.victim for row in rows] == ["client 0", "client 1", "client 2"]
    assert {(row.how, row.threat.local_steps, row.threat.batch, row.threat.clients) for row in rows} == {
        ("its gradient", 1, 2, 1)
    }
    assert error(audits["open"]) < 0.5 * floor(audits["open"])
    assert sum(row.home.mean for row in rows) / 3 > 0.6


def test_the_verdict_says_who_beats_the_floor_or_that_nobody_does(audits, places, tmp_path):
    assert f"the floor is beaten by {ATTACK}" in verdict(audits["open"])
    weak = audit_federation(places["open"], tmp_path, dataclasses.replace(SETTINGS, attacks=("invgrad:steps=1",)))
    assert "No attack beats the floor" in verdict(weak)
    page = write_federation_audit_report(weak).read_text(encoding="utf-8")
    assert "No attack beats the floor" in page
    assert "Round 1 of 2" in page


def test_digits_of_anybody_are_near_and_raise_no_alarm(places, audits, tmp_path, monkeypatch):
    """The mean of a class is nearer to any image of it than that image's colour, and shows nobody's image."""
    images, labels = load("digits:split=test").batch(range(297))
    means = torch.stack([images[labels == digit].mean(0) for digit in range(6)])
    seen = Reconstruction(means, torch.zeros(6))
    monkeypatch.setattr(Sighting, "attacked", lambda *_, **__: (seen, "nothing at all"))
    found = audit_federation(places["crowd"], tmp_path, dataclasses.replace(SETTINGS, images=6))
    assert all(row.nearer for row in found.rows)
    assert error(found) < 0.5 * floor(found)
    assert "No attack beats the floor" in verdict(found)


def test_csvar_shows_less(audits):
    assert error(audits["csvar"]) > 1.5 * error(audits["open"])


def test_secure_aggregation_shows_the_mean_which_hides_in_a_crowd_only(audits):
    """Six images behind a mean are found as two are; of sixty little is."""
    (row,) = audits["secure"].rows
    assert row.victim == "mean of 3 clients"
    assert row.threat.clients == 3
    assert row.threat.batch == 6
    assert error(audits["secure"]) < 0.5 * floor(audits["secure"])
    assert audits["crowd"].rows[0].threat.batch == 60
    assert error(audits["crowd"]) > 3 * error(audits["open"])


@pytest.mark.parametrize(("name", "secure"), [("open", False), ("secure", True)])
def test_noise_is_measured_against_what_would_have_been_sent(places, audits, carry_out, tmp_path, name, secure):
    sigma = 0.01
    carry_out(plan(defense=f"gaussian:sigma={sigma}", secure_aggregation=secure), tmp_path / "federation")
    settings = dataclasses.replace(SETTINGS, attacks=("invgrad:steps=1",), clients=1)
    (row,) = audit_federation(tmp_path / "federation", tmp_path / "audit", settings).rows
    plain, ledger = plan(secure_aggregation=secure), Ledger(places[name])
    held = {number: dealt(plain, number, tuple(map(str, range(10))), None) for number in range(3)}
    clean = victims(plain, ledger, 0, held, network(plain, held[0].spec))[0]
    signal = sum(float(value.pow(2).sum()) for value in clean.change.values())
    noise = sigma**2 * sum(value.numel() for value in clean.change.values()) / clean.clients
    assert row.threat.snr_db == pytest.approx(10 * math.log10(signal / noise), abs=0.5)
    assert audits[name].rows[0].threat.snr_db is None
    assert math.isfinite(audits["csvar"].rows[0].threat.snr_db)


def test_recovered_labels_are_counted(places, audits, tmp_path):
    settings = dataclasses.replace(SETTINGS, attacks=("invgrad:steps=1",), labels="recovered")
    found = audit_federation(places["open"], tmp_path, settings)
    assert [row.threat.labels_right for row in found.rows] == [1.0] * 3
    assert {(row.threat.labels, row.threat.labels_right) for row in audits["open"].rows} == {("given", 1.0)}
    assert "recovered<small>100 % right</small>" in write_federation_audit_report(found).read_text()


def test_membership_is_asked_clean_and_protected(audits):
    assert [one.query for one in audits["open"].told] == ["clean"]
    assert [one.query for one in audits["csvar"].told] == ["clean", "protected"]
    assert 0 <= audits["csvar"].told[1].values["auc"].mean <= 1


def test_noise_is_at_home_among_shuffled_images_and_raises_no_alarm(carry_out, tmp_path, monkeypatch, rng):
    """Clients hold shuffled digits, test images are clean: noise looks more like the first."""
    images, labels = load("digits").batch(range(80))
    np.savez(tmp_path / "raw.npz", x_train=(images * 255).byte().permute(0, 2, 3, 1).numpy(), y_train=labels.numpy())
    protect(tmp_path / "raw.npz", tmp_path / "protected", key=bytes(32), epochs=1)
    chosen = plan(dataset=str(tmp_path / "protected"), test="digits:split=test", images=None, clients=1, rounds=1)
    carry_out(chosen, tmp_path / "out")
    seen = Reconstruction(torch.rand(32, 1, 8, 8, generator=rng), torch.zeros(32))
    monkeypatch.setattr(Sighting, "attacked", lambda *_, **__: (seen, "nothing at all"))
    found = audit_federation(tmp_path / "out", tmp_path / "audit", dataclasses.replace(SETTINGS, images=32))
    assert found.rows[0].home.low > 0.5
    assert [asked(one, found) for one in found.told] == ["clients' images as they hold them, test images as they are"]
    assert "No attack beats the floor" in verdict(dataclasses.replace(found, rows=tuple(map(near, found.rows))))


def near(row):
    return dataclasses.replace(row, nearer=True)


def test_an_attack_that_cannot_work_fails_with_its_reason(places, tmp_path):
    settings = FederationAudit(attacks=("fc_inversion",), clients=1, metrics=("psnr",), round=2)
    found = audit_federation(places["open"], tmp_path, settings)
    assert found.rows == ()
    assert "fc_inversion on client 0: Attack 'fc_inversion' needs a gradient of one image" in found.failures[0]
    assert verdict(found).startswith("No attack could be tried")


def test_an_attack_of_one_image_is_not_asked_for_one_of_several(places, tmp_path):
    settings = FederationAudit(attacks=("fc_inversion",), clients=1, metrics=("psnr",), images=1)
    found = audit_federation(places["open"], tmp_path, settings)
    assert found.rows == ()
    assert "needs a gradient of one image, not of 2" in found.failures[0]


@pytest.mark.parametrize("name", attacks.names())
def test_every_attack_makes_pictures_where_it_can(carry_out, name, tmp_path):
    """Clients with one image each, and a network that the attack is for."""
    few = "steps" in {field.name for field in dataclasses.fields(attacks.get(name))}
    text = f"{name}:steps=2" if few else name
    carry_out(plan(images=3, rounds=1, model=FITS.get(name, "mlp:width=32")), tmp_path / "federation")
    settings = dataclasses.replace(SETTINGS, attacks=(text,), membership=(), clients=1, public="digits:split=test")
    found = audit_federation(tmp_path / "federation", tmp_path / "audit", settings)
    if name == "cafe":
        assert "needs sample indices, which this attacker does not have" in found.failures[0]
    else:
        assert [(row.attack, row.threat.batch) for row in found.rows] == [(text, 1)], found.failures
        assert all((tmp_path / "audit" / file).is_file() for pair in found.rows[0].pictures for file in pair)


@pytest.fixture
def attacked(monkeypatch):
    """Who is attacked; with ``most`` set the process is killed before more are."""
    seen: list[str] = []
    run = Scene.attacked

    def counted(self, victim, text, attack, **options):
        if len(seen) == counted.most:
            raise KeyboardInterrupt
        seen.append(victim.name)
        return run(self, victim, text, attack, **options)

    counted.most = None
    monkeypatch.setattr(Scene, "attacked", counted)
    return counted, seen


def test_a_killed_audit_goes_on_where_it_stopped(places, audits, attacked, tmp_path):
    counted, seen = attacked
    counted.most = 2
    with pytest.raises(KeyboardInterrupt):
        audit_federation(places["open"], tmp_path, SETTINGS)
    counted.most = None
    found = audit_federation(places["open"], tmp_path, SETTINGS)
    assert seen == ["client 0", "client 1", "client 2"]
    assert found.rows == audits["open"].rows
    assert found.to_json() == audits["open"].to_json()


def test_rows_that_are_damaged_or_were_asked_otherwise_are_done_again(places, audits, attacked, tmp_path):
    _, seen = attacked
    settings = dataclasses.replace(SETTINGS, attacks=("invgrad:steps=2",), clients=1)
    first = audit_federation(places["open"], tmp_path, settings)
    (kept,) = (tmp_path / "rows").glob("*.json")
    kept.write_text("{")
    assert audit_federation(places["open"], tmp_path, settings).rows == first.rows
    (tmp_path / first.rows[0].pictures[0][1]).unlink()
    assert audit_federation(places["open"], tmp_path, settings).rows == first.rows
    assert (tmp_path / first.rows[0].pictures[0][1]).is_file()
    assert len(seen) == 3
    changed = json.loads(kept.read_text())
    changed["home"]["mean"] += 0.125
    kept.write_text(json.dumps(changed))
    assert audit_federation(places["open"], tmp_path, settings).rows == first.rows
    picture = tmp_path / first.rows[0].pictures[0][0]
    content = picture.read_bytes()
    picture.write_bytes(content[:-1] + b"x")
    assert audit_federation(places["open"], tmp_path, settings).rows == first.rows
    assert picture.read_bytes() == content
    assert len(seen) == 5
    for change in ({"images": 1}, {"labels": "recovered"}, {"seed": 1}, {"round": 2}, {"metrics": ("mse",)}):
        audit_federation(places["open"], tmp_path, dataclasses.replace(settings, **change))
    assert len(seen) == 10
    audit_federation(places["open"], tmp_path, settings)
    assert len(seen) == 10


def test_command_table_json_and_page(places, tmp_path):
    words = ["audit", "--federation", places["open"], "--round", 2, "--attack", "invgrad:steps=2", "--metric", "psnr"]
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.exception
    assert "What the server could see in round 2 of 2" in done.output
    assert "invgrad:steps=2" in done.output
    assert "client 1" in done.output
    assert "client 2" not in done.output
    page = (places["open"] / "audit" / "report" / "index.html").read_text()
    assert "what the server makes of the update" in page
    done = CliRunner().invoke(
        app, [str(word) for word in (*words, "--clients", 1, "--json", "--out", tmp_path / "out")]
    )
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found == json.loads((tmp_path / "out" / "federation_audit.json").read_text())
    assert [(row["victim"], row["attack"], row["threat"]["round"]) for row in found["rows"]] == [
        ("client 0", "invgrad:steps=2", "2")
    ]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--round", "9"], "has 2 finished rounds: --round goes from 1 to 2"),
        (["--round", "0"], "round"),
        (["--batch", "3"], "--batch means nothing for a federation"),
        (["--metric", "fid"], "compares whole sets"),
        (["--membership", "lira"], "trains shadow models"),
    ],
)
def test_refusals(places, words, match):
    done = CliRunner().invoke(app, ["audit", "--federation", str(places["open"]), *words])
    assert isinstance(done.exception, GlasshouseError)
    assert match in str(done.exception)


def test_more_refusals(places, tmp_path):
    for option in ("--round", "--clients"):
        done = CliRunner().invoke(app, ["audit", option, "1"])
        assert isinstance(done.exception, SettingError)
        assert "nothing without --federation" in str(done.exception)
    with pytest.raises(StudyError, match="is not a federation's directory"):
        audit_federation(tmp_path, tmp_path / "out", SETTINGS)
    with pytest.raises(StudyError, match="holds another study"):
        audit_federation(places["open"], places["open"], SETTINGS)


def archive(path, images, labels):
    """Twelve digits in a file, under names of the caller's."""
    found, classes = load("digits").batch(range(12))
    np.savez(path, **{images: (found * 255).byte().permute(0, 2, 3, 1).numpy(), labels: classes.numpy()})
    return path


def test_members_are_not_told_from_themselves(carry_out, tmp_path, monkeypatch):
    """Data without a test part are tested on training images: only those that nobody holds are others."""
    asked = []
    monkeypatch.setattr(
        federation, "measure", lambda inside, outside: asked.append((len(inside), len(outside))) or {"auc": None}
    )
    own = str(archive(tmp_path / "own.npz", "images", "labels"))
    carry_out(plan(dataset=own), tmp_path / "some")
    settings = dataclasses.replace(SETTINGS, attacks=("invgrad:steps=1",), clients=1)
    audit_federation(tmp_path / "some", tmp_path / "audit", settings)
    assert asked == [(6, 6)]
    carry_out(plan(dataset=own, images=None), tmp_path / "all")
    with pytest.raises(StudyError, match=r"All 12 test images .* --test naming images that no client has"):
        audit_federation(tmp_path / "all", tmp_path / "refused", settings)


def test_only_a_simulation_on_the_same_images_is_scored(carry_out, tmp_path):
    own = archive(tmp_path / "own.npz", "x_train", "y_train")
    carry_out(plan(dataset=str(own), test="digits"), tmp_path / "out")
    settings = dataclasses.replace(SETTINGS, attacks=("invgrad:steps=1",), membership=(), clients=1)
    assert audit_federation(tmp_path / "out", tmp_path / "audit", settings).rows
    arrays = dict(np.load(own))
    np.savez(own, x_train=arrays["x_train"][::-1], y_train=arrays["y_train"])
    open_pool.cache_clear()  # as another process would see it
    with pytest.raises(StudyError, match="was begun with other images than"):
        audit_federation(tmp_path / "out", tmp_path / "audit", settings)
    (tmp_path / "out" / DATA_FILE).unlink()  # which a deployment does not write
    with pytest.raises(StudyError, match="was begun by 'flwr run'"):
        audit_federation(tmp_path / "out", tmp_path / "audit", settings)


def test_the_truth_is_the_version_that_the_round_began_with(carry_out, tmp_path):
    protect(archive(tmp_path / "own.npz", "x_train", "y_train"), tmp_path / "protected", key=bytes(32), epochs=4)
    versions = open_protected(tmp_path / "protected", "train")
    chosen = plan(dataset=str(tmp_path / "protected"), test="digits", images=None, local_epochs=2)
    ledger = carry_out(chosen, tmp_path / "out")
    names = tuple(str(digit) for digit in range(10))
    held = {0: dealt(chosen, 0, names, None)}
    (victim,) = victims(chosen, ledger, 1, held, network(chosen, held[0].spec))
    assert victim.truth.equal(versions.version(2, held[0].places))
    settings = dataclasses.replace(SETTINGS, public="digits:split=train")
    with pytest.raises(StudyError, match="leave out --public"):
        audit_federation(tmp_path / "out", tmp_path / "audit", settings)


def test_what_batch_norm_saw_in_one_step_is_read_off_its_running_statistics(carry_out, tmp_path):
    """The reference: the statistics of the client's images, measured in the network that it was sent."""
    names = tuple(str(digit) for digit in range(10))
    chosen = plan(model="resnet20:width=4", images=24, batch=8)
    ledger = carry_out(chosen, tmp_path / "one")
    held = {0: dealt(chosen, 0, names, None)}
    model = network(chosen, held[0].spec)
    (victim,) = victims(chosen, ledger, 1, held, model)
    set_weights(model, ledger.sent(1))
    with torch.no_grad(), batchnorm_mode(model, "train"), watched(model, 8) as found:
        model(victim.truth)
    assert len(victim.statistics) == len(found) > 10
    for (mean, variance), one in zip(victim.statistics, found, strict=True):
        assert torch.allclose(mean, one.mean[0], atol=1e-4)
        assert torch.allclose(variance, one.variance[0], rtol=1e-3, atol=1e-4)
    attack = "gradattack:steps=2,preset=own"
    settings = dataclasses.replace(SETTINGS, attacks=(attack,), membership=(), clients=1)
    (row,) = audit_federation(tmp_path / "one", tmp_path / "audit", settings).rows
    assert (row.threat.batchnorm, row.threat.statistics) == ("train", "running and batch statistics known")
    several = dataclasses.replace(chosen, batch=4)
    ledger = carry_out(several, tmp_path / "two")
    assert victims(several, ledger, 1, held, model)[0].statistics is None


def test_a_network_without_batch_norm_says_so_on_its_card(audits):
    assert {(row.threat.batchnorm, row.threat.statistics) for row in audits["open"].rows} == {("none", "none")}


def test_each_guess_has_an_image_of_its_own(rng):
    truth = torch.rand(5, 1, 4, 4, generator=rng)
    assert assigned(truth[[3, 1]], truth).tolist() == [3, 1]
    assert points_home(truth[:2], truth, torch.rand(5, 1, 4, 4, generator=rng)).mean == 1.0
    assert points_home(torch.rand(400, 1, 4, 4, generator=rng), truth, truth.flip(3)).mean == pytest.approx(
        0.5, abs=0.1
    )


def test_a_data_set_in_the_order_of_its_classes_points_nowhere(rng):
    """The first twenty of the others are one image: whoever took them would find every guess at home."""
    guesses, truth, more = (torch.rand(count, 1, 4, 4, generator=rng) for count in (400, 20, 180))
    others = torch.cat([more[:1].expand(20, -1, -1, -1), more])
    assert points_home(guesses, truth, others).mean == pytest.approx(0.5, abs=0.1)
