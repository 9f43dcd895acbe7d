"""``glasshouse federate``: train over clients that keep their images, simulated by Flower on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glasshouse.cli.long_work import Log, Quiet, logged
from glasshouse.cli.resuming import resumable

if TYPE_CHECKING:
    from glasshouse.cli.screen import Stages
    from glasshouse.federated import FederationResult
    from glasshouse.federated.records import Round


def federate(
    data: Annotated[str, typer.Option(help="SPEC, FILE.npz, DIRECTORY, or what 'glasshouse protect' wrote")] = "digits",
    data_root: Annotated[Path | None, typer.Option(help="where data sets lie [default: $GLASSHOUSE_DATA]")] = None,
    test: Annotated[str | None, typer.Option(help="data to test on [default: the test images of --data]")] = None,
    size: Annotated[int | None, typer.Option(help="resize images to this many pixels")] = None,
    images: Annotated[int | None, typer.Option(help="train on so many images in all [default: all]")] = None,
    test_images: Annotated[int | None, typer.Option(help="test on so many images [default: all]")] = None,
    model: Annotated[str, typer.Option(help="SPEC or FILE.py:FACTORY")] = "mlp",
    clients: Annotated[int, typer.Option(help="how many clients")] = 4,
    rounds: Annotated[int, typer.Option(help="how many rounds")] = 10,
    local_epochs: Annotated[int, typer.Option(help="passes of a client over its images in each round")] = 1,
    batch: Annotated[int, typer.Option(help="images per step of a client")] = 16,
    lr: Annotated[float, typer.Option(help="learning rate of the clients")] = 0.1,
    momentum: Annotated[float, typer.Option(help="Nesterov momentum of the clients")] = 0.0,
    augment: Annotated[bool, typer.Option(help="clients shift and mirror images")] = False,
    split: Annotated[str, typer.Option(help="how images are dealt out: iid, or dirichlet:alpha=0.3")] = "iid",
    defense: Annotated[str, typer.Option(help="defense SPEC of every client, or a chain of them")] = "none",
    secure_aggregation: Annotated[
        bool, typer.Option("--secure-aggregation", help="the server sees only the sum of the updates (SecAgg+)")
    ] = False,
    secure_range: Annotated[float, typer.Option(help="largest change of a weight that the sum carries")] = 8.0,
    adversary: Annotated[str | None, typer.Option(help="SPEC of a client who does not play fair")] = None,
    timeout: Annotated[float, typer.Option(help="seconds to wait for clients in a round")] = 600.0,
    seed: Annotated[int, typer.Option(help="seed of everything random")] = 0,
    cores: Annotated[int | None, typer.Option(help="clients that train at once [default: one per core]")] = None,
    out: Annotated[Path, typer.Option(help="study directory")] = Path("federation"),
    quiet: Quiet = False,
    log: Log = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the results to standard output as JSON")] = False,
) -> None:
    """Train a model over several clients by federated averaging; the same command goes on after a kill."""
    with resumable(f"Every finished round is kept in {out}"), logged(log) as lines:
        from glasshouse.cli.screen import stages
        from glasshouse.federated import Federation
        from glasshouse.federated import federate as run
        from glasshouse.reports.federation import write_federation_report

        plan = Federation(
            dataset=data,
            test=test,
            size=size,
            images=images,
            test_images=test_images,
            model=model,
            clients=clients,
            rounds=rounds,
            local_epochs=local_epochs,
            batch=batch,
            lr=lr,
            momentum=momentum,
            augment=augment,
            split=split,
            defense=defense,
            secure_aggregation=secure_aggregation,
            secure_range=secure_range,
            adversary=adversary,
            timeout=timeout,
            seed=seed,
        )
        with stages(quiet=quiet, log=lines) as shown:
            teller = _Teller(shown, rounds)
            result = run(plan, out, root=data_root, cores=cores, tell=teller.tell, begin=teller.begin)
        page = write_federation_report(result)
        if as_json:
            print(json.dumps(result.to_json(), allow_nan=False))
        else:
            _show(result, page)


class _Teller:
    """Says of each round what came out, how fast rounds go, and how long the others take if they are like those.

    The first round of a run counts for the pace only while there is no other: workers start in it.
    """

    def __init__(self, shown: Stages, rounds: int) -> None:
        self.shown, self.rounds = shown, rounds
        self.seconds: list[float] = []
        self.begun = False

    def begin(self) -> None:
        """Flower begins: until the first round is over there is nothing else to see."""
        self.begun = True
        earlier = f"{len(self.seconds)} of {self.rounds} rounds were finished before. " if self.seconds else ""
        self.seconds.clear()
        self.shown.say(f"{earlier}Starting Flower's simulation, which takes up to a minute on busy cores.")

    def tell(self, one: Round) -> None:
        """A round is over."""
        from glasshouse.cli.screen import pace

        self.seconds.append(one.seconds)
        if self.begun:
            number = one.number + 1
            usual = self.seconds[1:] or self.seconds
            speed = pace(len(usual) / max(sum(usual), 1e-9), self.rounds - number, "rounds")
            self.shown.say(f"Round {number} of {self.rounds}: {', '.join(_facts(one))}{speed}")


def _facts(one: Round) -> list[str]:
    """What there is to say of a round while others are to come."""
    faults = [f"{len(one.faults)} of the clients failed"] if one.faults else []
    sent = f"{one.bytes_sent / 1e6:.2f} MB sent"
    return [f"accuracy {one.accuracy:.1%}", f"loss {one.loss:.3f}", sent, f"{one.seconds:.1f} s", *faults]


def _show(result: FederationResult, page: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from glasshouse.federated.records import named
    from glasshouse.reports.federation import shield

    console = Console()
    plan = result.plan
    table = Table(title=f"{plan.model} on {plan.dataset}: {plan.clients} clients, {plan.split}, {shield(plan)}")
    for name in ("round", "accuracy", "loss", "MB sent", "seconds", "clients", "failed"):
        table.add_column(name, justify="right")
    for one in result.rounds:
        table.add_row(
            str(one.number + 1),
            f"{one.accuracy:.1%}",
            f"{one.loss:.3f}",
            f"{one.bytes_sent / 1e6:.2f}",
            f"{one.seconds:.1f}",
            str(len(one.heard)),
            str(len(one.faults)),
        )
    console.print(table)
    for one in result.rounds:
        for line in named(one.faults):
            console.print(f"round {one.number + 1}: {line}", style="yellow", markup=False)
    if result.promise:
        console.print(result.promise, markup=False)
    console.print(f"Report: {page}", markup=False, soft_wrap=True)
