"""The client mod in somebody else's Flower app: it sees what the server could, warns, and holds back."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn
from torch.nn import functional as F

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from flwr.app import ArrayRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from glasshouse import data
from glasshouse.errors import SettingError
from glasshouse.federated import audit_mod
from glasshouse.federated.leaks import Finding, likeness

LR = 0.1


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


@pytest.fixture(scope="module")
def private():
    return data.load("digits").batch([3])


def somebodys_app(private, mods, *, steps=1, noise=0.0, names=True) -> ClientApp:
    """A Flower app as people write them, which knows nothing of Glasshouse but the mod."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message, context):
        model = make_model()
        arrays = message.content["arrays"].to_torch_state_dict()
        model.load_state_dict(dict(zip(model.state_dict(), arrays.values(), strict=True)))
        optimizer = torch.optim.SGD(model.parameters(), lr=LR)
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(model(private[0]), private[1]).backward()
            optimizer.step()
        state = {key: value + noise * torch.randn(value.shape) for key, value in model.state_dict().items()}
        if not names:
            state = {str(number): value for number, value in enumerate(state.values())}
        content = RecordDict({"arrays": ArrayRecord(state), "metrics": MetricRecord({"num-examples": 1})})
        return Message(content, reply_to=message)

    @app.query()
    def answer(message, context):
        return Message(RecordDict(), reply_to=message)

    return app


def ask(app, local_grid, kind=MessageType.TRAIN, names=True):
    grid = local_grid(app, 1)
    state = make_model().state_dict()
    if not names:
        state = {str(number): value for number, value in enumerate(state.values())}
    content = RecordDict({"arrays": ArrayRecord(state)})
    (number,) = grid.push_messages([Message(content, dst_node_id=1000, message_type=kind)])
    (reply,) = grid.pull_messages([number])
    return reply


def audited(private, local_grid, *, noise=0.0, steps=1, names=True, **options):
    found: list[Finding] = []
    settings = {"attack": "fc_inversion", "learning_rate": LR, "local_steps": steps, **options}
    mod = audit_mod(make_model, lambda _: private[0], tell=found.append, **settings)
    app = somebodys_app(private, [mod], steps=steps, noise=noise, names=names)
    return ask(app, local_grid, names=names), found


def test_an_update_that_gives_the_image_away_is_warned_of(private, local_grid, caplog):
    with caplog.at_level(logging.WARNING, "glasshouse"):
        reply, (finding,) = audited(private, local_grid)
    assert not reply.has_error()
    assert finding.likeness > 0.99
    assert "fc_inversion on its gradient finds an image that correlates 1.00" in caplog.text


def test_blocked_and_the_server_gets_an_error(private, local_grid):
    reply, _ = audited(private, local_grid, block=True)
    assert reply.has_error()
    assert "holds this update back" in reply.error.reason


def test_noise_lets_it_pass(private, local_grid, caplog):
    reply, (finding,) = audited(private, local_grid, noise=1.0, block=True)
    assert not reply.has_error()
    assert finding.likeness < 0.6


@pytest.mark.parametrize("block", [True, False])
def test_what_cannot_be_audited_is_held_back_or_warned_of(block, private, local_grid, caplog):
    with caplog.at_level(logging.WARNING, "glasshouse"):
        reply, findings = audited(private, local_grid, noise=float("nan"), attack="invgrad:steps=2", block=block)
    assert not findings
    assert "What this update shows cannot be told: It holds NaN or infinite values" in caplog.text
    assert reply.has_error() is block


def test_several_steps_and_no_names(private, local_grid):
    reply, (finding,) = audited(private, local_grid, steps=4, names=False, attack="invgrad:steps=60,tv=0.001")
    assert not reply.has_error()
    assert "its update" in finding.how
    assert finding.likeness > 0.5


def test_it_leaves_other_messages_alone(private, local_grid):
    mod = audit_mod(make_model, lambda _: pytest.fail("looked at images"), learning_rate=LR, attack="fc_inversion")
    assert not ask(somebodys_app(private, [mod]), local_grid, MessageType.QUERY).has_error()


def test_it_asks_for_the_images_of_the_client_that_trains(private, local_grid):
    """Simulated clients share the program: the context says which of them it is."""
    asked = []

    def images(context):
        asked.append(context.node_config["partition-id"])
        return private[0]

    mod = audit_mod(make_model, images, learning_rate=LR, attack="fc_inversion")
    ask(somebodys_app(private, [mod]), local_grid)
    assert asked == [0]


@pytest.mark.parametrize("block", [True, False])
def test_functions_of_the_app_that_fail_are_treated_alike(block, private, local_grid, caplog):
    def lost(context):
        raise KeyError("patient 7")

    for images in (lost, lambda _: torch.rand(1, 1, 9, 9)):  # the second are not what the network takes
        mod = audit_mod(make_model, images, learning_rate=LR, attack="fc_inversion", block=block)
        with caplog.at_level(logging.WARNING, "glasshouse"):
            reply = ask(somebodys_app(private, [mod]), local_grid)
        assert "What this update shows cannot be told" in caplog.text
        assert reply.has_error() is block
        assert not block or "patient" not in reply.error.reason
        caplog.clear()


def test_likeness_is_the_correlation_of_pixels(rng):
    guesses, images = torch.rand(3, 1, 5, 5, generator=rng), torch.rand(4, 1, 5, 5, generator=rng)
    found = likeness(guesses, images)
    for row, guess in enumerate(guesses):
        for column, image in enumerate(images):
            expected = torch.corrcoef(torch.stack([guess.flatten(), image.flatten()]))[0, 1]
            assert found[row, column] == pytest.approx(float(expected), abs=1e-5)
    assert likeness(torch.full((1, 1, 5, 5), 0.5), images).abs().max() < 1e-6


@pytest.mark.parametrize("block", [True, False])
def test_what_does_not_fit_is_said(block, private, local_grid, caplog):
    other = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10))  # noqa: E731
    mod = audit_mod(other, lambda _: private[0], learning_rate=LR, block=block)
    with caplog.at_level(logging.WARNING, "glasshouse"):
        reply = ask(somebodys_app(private, [mod]), local_grid)
    assert "give audit_mod the model that the app exchanges" in caplog.text
    assert reply.has_error() is block
    with pytest.raises(SettingError, match="threshold=2"):
        audit_mod(make_model, lambda _: private[0], learning_rate=LR, threshold=2)
