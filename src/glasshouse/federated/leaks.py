"""A Flower client mod that attacks an update before it is sent, as the server could, and warns or holds it back."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glasshouse import attacks, checks
from glasshouse.errors import GlasshouseError, LeakError, ModelError
from glasshouse.federated.observed import Sighting, change_of
from glasshouse.functional.threads import one_thread
from glasshouse.types import ImageSpec

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.clientapp.typing import ClientAppCallable, Mod

log = logging.getLogger(__name__)

TRAIN = "train"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a quick attack made of an update: ``likeness`` is of the best reconstruction to an image of the client."""

    likeness: float
    attack: str
    how: str

    def __str__(self) -> str:
        return (
            f"{self.attack} on {self.how} finds an image that correlates {self.likeness:.2f} with one of the client's"
        )


def audit_mod(
    model: Callable[[], nn.Module],
    images: Callable[[Context], Tensor],
    *,
    learning_rate: float,
    local_steps: int = 1,
    attack: str = "invgrad:steps=100,tv=0.01",
    guesses: int = 1,
    threshold: float = 0.8,
    block: bool = False,
    seed: int = 0,
    tell: Callable[[Finding], None] | None = None,
) -> Mod:
    """A mod for ``ClientApp(mods=[audit_mod(...)])``: attacks every update of a training before it leaves the client.

    ``model`` builds the network whose state is exchanged; ``images`` is given Flower's context of the client and
    answers with its private images (N, C, H, W) in [0, 1], of which the attack is told nothing; ``learning_rate`` and
    ``local_steps`` say how the client trains. Where a reconstruction correlates with an image by ``threshold`` or
    more, the mod warns, or with ``block`` raises, so that the server gets an error instead of the update. ``tell``
    hears of every finding. What cannot be audited, whatever goes wrong, is treated alike: a warning, or with ``block``
    no update. A low
    likeness says that this quick attack failed, not that the update is safe.
    """
    from glasshouse.federated.messages import BROKEN

    checks.between("threshold", threshold, -1, 1)
    checks.at_least("learning_rate", learning_rate, 1e-12)
    checks.at_least("local_steps", local_steps, 1)
    checks.at_least("guesses", guesses, 1)
    chosen = attacks.create(attack)

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        if message.metadata.message_type.partition(".")[0] != TRAIN:
            return call_next(message, context)
        content = copy.deepcopy(message.content)  # the app may take it apart
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        try:
            finding = audited(content, reply.content, context)
        except (GlasshouseError, *BROKEN) as error:  # the app's own functions and network may raise anything
            _object(f"What this update shows cannot be told: {error}", block=block)
            return reply
        if tell is not None:
            tell(finding)
        if not finding.likeness < threshold:
            _object(f"This update shows private images: {finding}", block=block)
        return reply

    def audited(asked: RecordDict, replied: RecordDict, context: Context) -> Finding:
        network, private = model().eval(), images(context)
        checks.images("images", private)
        sent, returned = _state(asked, network), _state(replied, network)
        change = change_of(_filled(network, sent), sent, returned)
        if not all(bool(value.isfinite().all()) for value in change.values()):
            raise ModelError("It holds NaN or infinite values.")
        sighting = Sighting(
            change,
            local_steps=local_steps,
            learning_rate=learning_rate,
            image=_spec(network, private),
            batch_size=guesses,
            batchnorm="eval",
        )
        with one_thread():
            found, how = sighting.attacked(chosen, network, rng=torch.Generator().manual_seed(seed))
        return Finding(float(likeness(found.images, private).max()), attack, how)

    return mod


def _object(why: str, *, block: bool) -> None:
    """Warn, or hold the update back; of the reason the server is told nothing, for it may speak of the images."""
    log.warning("%s.", why)
    if block:
        raise LeakError("The client's audit holds this update back.")


def likeness(guesses: Tensor, images: Tensor) -> Tensor:
    """Pearson correlation of the pixels of every guess with those of every image: (guesses, images) in [-1, 1].

    An image of one colour correlates with nothing, so the floor of this measure is 0.
    """
    first, second = (one.flatten(1) - one.flatten(1).mean(1, keepdim=True) for one in (guesses, images))
    lengths: Tensor = torch.outer(first.norm(dim=1), second.norm(dim=1))
    return (first @ second.T).div(lengths.clamp_min(1e-12))


def _state(content: RecordDict, network: nn.Module) -> dict[str, Tensor]:
    """The weights in a message, by the network's names; older apps send them without names, in the same order."""
    records = list(content.array_records.values())
    expected = network.state_dict()
    if len(records) != 1:
        raise ModelError(f"The message holds {len(records)} records of arrays: audit_mod wants one, the model's state.")
    found = {name: torch.from_numpy(array.numpy().copy()) for name, array in records[0].items()}
    if not set(found) & set(expected) and len(found) == len(expected):
        found = dict(zip(expected, found.values(), strict=True))
    wrong = [name for name in expected if name in found and found[name].shape != expected[name].shape]
    missing = [name for name, value in network.named_parameters() if name not in found]
    if wrong or missing:
        raise ModelError(
            f"The message does not hold the state of the given model ('{(wrong or missing)[0]}' does not fit): give "
            "audit_mod the model that the app exchanges."
        )
    return found


def _filled(network: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """The network with the weights that the server sent."""
    network.load_state_dict({**network.state_dict(), **weights}, strict=False)
    return network


def _spec(network: nn.Module, images: Tensor) -> ImageSpec:
    with torch.no_grad():
        classes = int(network(images[:1]).shape[1])
    channels, height, width = images.shape[1:]
    return ImageSpec(channels, height, width, classes)
