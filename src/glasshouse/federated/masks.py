"""A client's side of secure aggregation: what it lets out, and what it refuses a server that asks for more.

Flower's SecAgg+ stands around; a server that leaves the protocol is not believed what this client can check.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.common import Code, FitRes, Scalar, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, RECORD_KEY_STATE, Key, Stage
from flwr.compat.common import recorddict_compat

from glasshouse.errors import ModelError, SettingError
from glasshouse.federated.clients import Weights
from glasshouse.federated.messages import (
    ARRAYS,
    CLASS_NAMES,
    CONFIG,
    EXAMPLES,
    FIRST,
    LOSS,
    METRICS,
    ROUND,
    from_record,
    tensors,
    to_record,
)
from glasshouse.federated.plan import FEWEST_SECURE

log = logging.getLogger(__name__)

MODULUS = 2**32  # masks are drawn below it
LEVELS = 2**22  # whole numbers that a change is rounded to
FINE = 1000  # levels that a client's part must keep; what is rounded more coarsely is next to nothing
NAMES = "names"
APART = "\n"  # the older interface knows no lists


@dataclass(frozen=True, slots=True)
class Terms:
    """On what a client shares: whether masked alone, how far a weight may change, how many images of one may count.

    Who counts more is seen more: a server that counts up to many images can have all clients but one count for little.
    """

    secure: bool
    limit: float
    most_images: int | None = None


def masked(terms_of: Callable[[Context], Terms]) -> Mod:
    """A client mod that lets nothing out but masked changes, where the client's own terms say so.

    A server that asks such a client for its weights in the open gets an error.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        terms = terms_of(context)
        if not terms.secure:
            return call_next(message, context)
        records = message.content.config_records
        # SecAgg+ takes 'train.anything' for none of its own, and would let the reply pass as it is
        if RECORD_KEY_CONFIGS not in records or message.metadata.message_type != MessageType.TRAIN:
            raise SettingError(
                "The server asks for weights in the open, but this client shares them by secure aggregation only: "
                "start the run with secure-aggregation=true."
            )
        state: Mapping[str, object] = context.state.config_records.get(RECORD_KEY_STATE, {})
        threshold = state.get(Key.THRESHOLD)
        asked = Asked(message.metadata.dst_node_id, terms, threshold if isinstance(threshold, int) else 0)
        check_asked(records[RECORD_KEY_CONFIGS], asked)
        return secaggplus_mod(message, context, partial(as_change, call_next=call_next, limit=terms.limit))

    return mod


def as_change(message: Message, context: Context, call_next: ClientAppCallable, limit: float) -> Message:
    """A client mod that stands between SecAgg+ and training: FitIns in, the change of the weights out as FitRes."""
    asked = recorddict_compat.recorddict_to_fitins(message.content, keep_input=True)
    names = str(asked.config[NAMES]).split(APART)
    received = tensors(names, asked.parameters)
    config = ConfigRecord({name: _whole(asked.config[name]) for name in (FIRST, ROUND)})
    config[CLASS_NAMES] = str(asked.config[CLASS_NAMES]).split(APART)
    message.content = RecordDict({ARRAYS: to_record(received), CONFIG: config})
    content = call_next(message, context).content
    trained, metrics = from_record(content.array_records[ARRAYS]), content.metric_records[METRICS]
    change, examples = {name: trained[name] - received[name] for name in names}, _whole(metrics[EXAMPLES])
    most = float(str(context.state.config_records[RECORD_KEY_STATE][Key.MAX_WEIGHT]))
    if examples > most:
        raise SettingError(f"The server counts {most:g} images of a client at most, which would clip this one's part.")
    if round(examples / most * LEVELS) < FINE:
        raise SettingError(
            f"The server counts up to {most:g} images of a client: beside them this one's part would be next to "
            "nothing, and would hide nobody."
        )
    check_range(change, limit)
    _fix_rounding(change)
    # flat, for SecAgg+ masks numbers without a dimension wrongly
    parameters = ndarrays_to_parameters([change[name].numpy().reshape(-1) for name in names])
    told: dict[str, Scalar] = {LOSS: float(str(metrics[LOSS]))}
    reply = FitRes(Status(Code.OK, ""), parameters, examples, told)
    return Message(recorddict_compat.fitres_to_recorddict(reply, keep_input=True), reply_to=message)


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is asked: its node, its terms, and how many must help to unmask, once that was said."""

    node: int
    terms: Terms
    threshold: int = 0


def check_asked(config: Mapping[str, object], one: Asked) -> None:
    """Refuse a server that would add up too few clients, draw masks of nothing, or unmask one."""
    check = CHECKS.get(str(config.get(Key.STAGE)))
    if check is None:
        raise SettingError(f"The server asks for stage {config.get(Key.STAGE)!r}, which secure aggregation has not.")
    check(config, one)


def _check_setup(config: Mapping[str, object], one: Asked) -> None:
    clients, shares, threshold = (config.get(key) for key in (Key.SAMPLE_NUMBER, Key.SHARE_NUMBER, Key.THRESHOLD))
    if not isinstance(clients, int) or clients < FEWEST_SECURE:
        raise SettingError(f"The server would add up {clients} clients: {FEWEST_SECURE} or more hide each other.")
    if not isinstance(shares, int) or not isinstance(threshold, int) or 2 * threshold <= shares:
        raise SettingError(f"The server would unmask with {threshold} of {shares} shares: more than half are safe.")
    if shares != clients:
        raise SettingError(f"The server would hide each of {clients} clients among {shares}: all of them are safe.")
    most, own = config.get(Key.MAX_WEIGHT), one.terms.most_images
    if own is not None and not (isinstance(most, int | float) and most <= own):
        raise SettingError(f"The server counts up to {most} images of a client, this client at most {own}.")
    agreed = {Key.MOD_RANGE: MODULUS, Key.TARGET_RANGE: LEVELS, Key.CLIPPING_RANGE: one.terms.limit}
    for key, value in agreed.items():
        if config.get(key) != value:
            raise SettingError(
                f"The server asks for {key} {config.get(key)}, this client's plan for {value:g}: masks of a smaller "
                "range hide nothing. Give both one --secure-range."
            )


def _check_keys(config: Mapping[str, object], one: Asked) -> None:
    clients = len(config) - 1  # beside the stage
    if clients < FEWEST_SECURE:
        raise SettingError(f"The server has keys of {clients} clients: {FEWEST_SECURE} or more hide each other.")


def _check_sources(config: Mapping[str, object], one: Asked) -> None:
    sources = config.get(Key.SOURCE_LIST)
    others = {*sources} - {one.node} if isinstance(sources, list) else set()
    if not isinstance(sources, list) or len(others) != len(sources):
        raise SettingError("The server names one client twice: its mask alone would stand for everybody's.")
    if len(others) + 1 < max(FEWEST_SECURE, one.threshold):
        raise SettingError(f"The server would add up {len(others) + 1} clients: too few to hide each other.")


def _check_unmasking(config: Mapping[str, object], one: Asked) -> None:
    present, gone = (config.get(key) for key in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST))
    if not isinstance(present, list) or not isinstance(gone, list) or len({*present, *gone}) < len(present + gone):
        raise SettingError("The server calls one client present and gone: that would take both its masks off.")
    if one.node not in present:
        raise SettingError("The server calls this client gone, which it asks: that would take both its masks off.")


CHECKS = {
    Stage.SETUP: _check_setup,
    Stage.SHARE_KEYS: _check_keys,
    Stage.COLLECT_MASKED_VECTORS: _check_sources,
    Stage.UNMASK: _check_unmasking,
}


def check_range(change: Weights, limit: float) -> None:
    """Refuse to send what SecAgg+ would clip, or what cannot be added: behind masks nobody would notice."""
    for name, value in change.items():
        if not bool(value.isfinite().all()):
            raise ModelError("Some weight is NaN or infinite, which would spoil the sum: use a smaller --lr.")
        largest = float(value.abs().max()) if value.numel() else 0.0
        if largest > limit:
            log.warning("'%s' changed by %.3g.", name, largest)  # here, for errors travel unmasked
            raise ModelError(
                f"Some weight changed by more than secure aggregation carries ({limit:g}) without clipping: use a "
                "larger --secure-range, or a smaller --lr."
            )


def _fix_rounding(change: Weights) -> None:
    """SecAgg+ rounds at random, by numpy's own generator: seeded by what is rounded, equal changes give equal sums."""
    content = b"".join(value.numpy().tobytes() for value in change.values())
    np.random.seed(zlib.crc32(content))


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise SettingError(f"The server sent {value!r} where a whole number belongs: use a Glasshouse server.")
    return value
