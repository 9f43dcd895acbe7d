"""The page of a federation: what the global model learned, what travelled, and who failed."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from glasshouse.collection import is_protected
from glasshouse.data.images import read_image
from glasshouse.federated import Federation, FederationResult
from glasshouse.federated.adversaries.findings import Findings
from glasshouse.federated.records import Round, named
from glasshouse.files import write_atomic
from glasshouse.reports.figures import INK, THEME, svg
from glasshouse.reports.page import template
from glasshouse.reports.thumbnails import data_address


def write_federation_report(result: FederationResult) -> Path:
    """Write ``report/index.html`` beside ``federation.json`` and return where it is."""
    page = template("federation.html").render(
        plan=result.plan,
        shield=shield(result.plan),
        parameters=result.parameters,
        examples=result.examples,
        promise=result.promise,
        accuracy=f"{result.accuracy:.1%}",
        sent=f"{sum(one.bytes_sent for one in result.rounds) / 1e6:.2f}",
        lines=[(one, named(one.faults)) for one in result.rounds],
        samples=samples(result),
        curves=Markup(curves(result.rounds)),  # noqa: S704 - our own figure, without names from elsewhere
    )
    path = result.directory / "report" / "index.html"
    write_atomic(path, page.encode())
    return path


def shield(plan: Federation) -> str:
    """What protects the clients' images: the defense of the plan, and what was done to images beforehand."""
    return f"{plan.defense}, on images protected beforehand" if is_protected(Path(plan.dataset)) else plan.defense


def samples(result: FederationResult) -> list[tuple[int, str]]:
    """What an adversary made in every round, if there is one who makes images: the round and its picture."""
    findings = Findings(result.directory)
    return [
        (number, data_address(read_image(findings.picture(number)))) for number in findings.rounds(len(result.rounds))
    ]


def curves(rounds: tuple[Round, ...]) -> str:
    """Accuracy and loss over the rounds, the loss beside what each client reported of its own images."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    numbers = [one.number + 1 for one in rounds]
    with mpl.rc_context(THEME):
        figure = Figure(figsize=(10, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot(numbers, [one.accuracy for one in rounds], "o-", color="C0")
        left.set(xlabel="round", ylabel="accuracy on the test images", ylim=(0, 1))
        right.plot(numbers, [one.loss for one in rounds], "o-", color="C0", label="test images")
        told = [(one.number + 1, heard.loss) for one in rounds for heard in one.heard]
        right.plot([at for at, _ in told], [loss for _, loss in told], ".", color="C1", label="told by clients")
        right.set(xlabel="round", ylabel="loss")
        right.legend(frameon=False, fontsize="small")
        for axes in (left, right):
            axes.grid(alpha=0.2, color=INK)
            axes.xaxis.get_major_locator().set_params(integer=True)
        return svg(figure)
