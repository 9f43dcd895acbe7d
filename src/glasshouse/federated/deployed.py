"""The Flower apps for a SuperLink and SuperNodes: the plan comes from ``flwr run``, the images from each node.

``--run-config`` holds the settings of a federation with dashes for underscores, and ``out``, the server's directory.
``--node-config`` is the client's own word: ``partition-id``, its number; ``data``, what it trains on; ``key-file``, its
secret; ``defense``, which overrides what whoever started the run asks for; ``secure-aggregation``, which when true lets
nothing out in the open whatever the run says; and ``most-images``, how many images of one client the sum may count.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import get_type_hints

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from glasshouse import defenses
from glasshouse.collection import read_key
from glasshouse.errors import SettingError, UnknownNameError
from glasshouse.federated.apps import Participant, client_app, serve
from glasshouse.federated.clients import Member
from glasshouse.federated.grid import WatchedGrid
from glasshouse.federated.holdings import owned
from glasshouse.federated.plan import Federation
from glasshouse.federated.run import begun, refuse_simulated, write_down
from glasshouse.plans import wrong_type

OUT = "out"
OWN = ("partition-id", "data", "key-file", "defense", "secure-aggregation", "most-images", "data-root")
FLOWERS = ("num-partitions",)  # set by Flower's own simulation, and of no use here

Config = Mapping[str, object]


def plan_of(config: Config) -> Federation:
    """The plan that a run's configuration describes; an empty text stands for what is not set."""
    written = {name.replace("-", "_"): value for name, value in config.items() if value != "" and name != OUT}
    hints = get_type_hints(Federation)
    unknown = set(written) - set(hints)
    if unknown:
        raise UnknownNameError("setting of a federation", min(unknown), hints)
    for name, value in written.items():
        problem = wrong_type(name.replace("_", "-"), value, hints[name])
        if problem:
            raise SettingError(problem)
    plan = Federation(**{name: float(value) if hints[name] is float else value for name, value in written.items()})  # type: ignore[arg-type]
    if plan.adversary is not None:
        raise SettingError(f"adversary = '{plan.adversary}': adversaries take part in simulations only. Leave it out.")
    for name in ("images", "split"):
        if getattr(plan, name) != getattr(Federation, name):
            raise SettingError(
                f"{name} = {getattr(plan, name)!r} deals out images of simulations: a node trains on all that its "
                "'data' holds. Leave it out."
            )
    return plan


def participant(context: Context) -> Participant:
    """Who a SuperNode is, by its own configuration."""
    node = context.node_config
    unknown = set(node) - {*OWN, *FLOWERS}
    if unknown:  # a misspelt defense would be none
        raise UnknownNameError("key of --node-config", min(unknown), OWN)
    plan = _protected(plan_of(context.run_config), node)
    if "data" not in node:
        raise SettingError("This SuperNode has no data: start it with --node-config 'partition-id=0 data=\"DIR\"'.")
    root = Path(str(node["data-root"])) if "data-root" in node else None
    member = _member(plan, node)
    most = node.get("most-images")
    if most is not None and (type(most) is not int or most < 1):
        raise SettingError(f"most-images is {most!r} in --node-config: give a whole number from 1 on.")
    source = str(node["data"])
    return Participant(plan, member, lambda names: owned(source, plan, names, root), most_images=most)


def _protected(plan: Federation, node: Config) -> Federation:
    """The run's plan with the client's own defense; of secure aggregation it can ask for more, never for less."""
    insists = node.get("secure-aggregation", False)
    if not isinstance(insists, bool):
        raise SettingError(f"secure-aggregation is {insists!r} in --node-config: give true or false, without quotes.")
    return dataclasses.replace(
        plan,
        defense=str(node.get("defense", plan.defense)),
        secure_aggregation=plan.secure_aggregation or insists,
    )


def _member(plan: Federation, node: Config) -> Member:
    """The client's number and secret; a defense under a secret that everybody knows would be none."""
    number = node.get("partition-id")
    if not isinstance(number, int):
        raise SettingError(f"partition-id is {number!r}: give each SuperNode a whole number of its own, from 0 on.")
    if "key-file" in node:
        return Member(number, read_key(Path(str(node["key-file"]))), fresh=True)
    if defenses.create(plan.defense).acts_on != "nothing":
        raise SettingError(
            f"Defense '{plan.defense}' needs a secret that the server does not know: make one with 'glasshouse key new "
            'FILE\' and start the SuperNode with key-file="FILE" in its --node-config.'
        )
    return Member.simulated(number, plan.seed)


client = client_app(participant)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out the rounds that are left, and write the result down as a simulation does."""
    out = Path(str(context.run_config.get(OUT, "")))
    if not out.is_absolute():
        raise SettingError(f"out = '{out}' in the run's configuration: give the absolute path of a directory.")
    refuse_simulated(out)
    with begun(plan_of(context.run_config), out) as host:
        serve(host, WatchedGrid(grid, threading.Event()), context)
        write_down(host, promised=False)  # a node may have another defense than the run asks for
