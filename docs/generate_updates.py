"""What the server of a federation sees, by round, images, local steps, clients summed and labels, as a page.

python docs/generate_updates.py DIRECTORY trains small federations of embedded digits there, attacks them and writes
docs/results/updates.json and .png; the same command goes on. Without arguments only the page is written.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
from page_tables import table

from glasshouse.federated import Federation, federate
from glasshouse.functional.intervals import mean_interval, share_interval
from glasshouse.reports.federation_audit import beats_floor
from glasshouse.studies.federation import FederationAudit, audit_federation
from glasshouse.studies.sightings import Row
from glasshouse.types import Interval, finite_json

FILE = Path(__file__).parent / "results" / "updates.json"
PICTURE = FILE.with_suffix(".png")
CLIENTS, OWN = 10, 8  # images of a client
METRICS = ("psnr", "lpips", "semsim")
BASE = Federation(clients=CLIENTS, images=CLIENTS * OWN, batch=OWN, rounds=10, model="mlp:width=64")
AUDIT = FederationAudit(
    attacks=("invgrad:steps=1000,tv=0.001",), metrics=METRICS, membership=(), clients=CLIENTS, images=32, round=1
)
SHOWN = 4  # pairs of pictures in a line of the figure


@dataclass(frozen=True)
class Line:
    """One thing changed of the federation or of how it is attacked; ``drawn`` where the figure shows it."""

    what: str
    plan: dict[str, object] = field(default_factory=dict)
    audit: dict[str, object] = field(default_factory=dict)
    drawn: bool = False


LINES = (
    Line("nothing", drawn=True),
    Line("labels given", audit={"labels": "given"}),
    Line("the fifth round", audit={"round": 5}),
    Line("the last round", audit={"round": 10}),
    *(
        Line(f"{own} image{'s' * (own > 1)} a client", {"images": CLIENTS * own, "batch": max(own, 2)})
        for own in (1, 2, 4, 16, 32)
    ),
    Line("2 local steps of 4 images", {"batch": 4}),
    Line("4 local steps of 2 images", {"batch": 2}, drawn=True),
    Line("4 local epochs", {"local_epochs": 4}),
    Line("3 clients behind masks", {"clients": 3, "images": 3 * OWN, "secure_aggregation": True}),
    Line("10 clients behind masks", {"secure_aggregation": True}, drawn=True),
)


def measure(home: Path) -> None:
    """Train each federation once, attack what its server saw, and keep what was found."""
    rows, drawn = [], {}
    for line in LINES:
        place = home / ("-".join(f"{name}-{value}" for name, value in line.plan.items()) or "base")
        federate(dataclasses.replace(BASE, **line.plan), place)
        settings = dataclasses.replace(AUDIT, **line.audit)
        found = audit_federation(place, home / "audits" / line.what.replace(" ", "-"), settings)
        rows.append({"changed": line.what, **summed(found.rows)})
        if line.drawn:
            pairs = [pair for row in found.rows for pair in row.pictures][:SHOWN]
            drawn[line.what] = [[plt.imread(found.directory / one) for one in pair] for pair in pairs]
    kept = {"plan": dataclasses.asdict(BASE), "attack": AUDIT.attacks[0], "rows": rows}
    FILE.write_text(json.dumps(finite_json(kept), indent=0, allow_nan=False) + "\n")
    draw(drawn)


def summed(rows: tuple[Row, ...]) -> dict[str, object]:
    """All updates of a line together: means over clients, or over the images of the one update there is."""
    first = rows[0]
    guesses = sum(row.home.images for row in rows)
    home = share_interval(sum(row.home.mean * row.home.images for row in rows), guesses)
    right = sum((row.threat.labels_right or 0) * row.home.images for row in rows) / guesses
    return {
        "images": first.threat.batch,
        "steps": first.threat.local_steps,
        "clients": first.threat.clients,
        "round": int(first.threat.round),
        "labels": first.threat.labels,
        "right": right,
        "values": {name: dataclasses.asdict(over_clients([row.values[name] for row in rows])) for name in METRICS},
        "floor": {name: over_clients([row.floor[name] for row in rows]).mean for name in METRICS},
        "home": dataclasses.asdict(home),
        "noise": sum(row.chance * row.home.images for row in rows) / guesses,
        "beats": beats_floor(rows),
    }


def over_clients(values: list[Interval]) -> Interval:
    """The mean of several clients' means with its interval; one has its own, over images."""
    return values[0] if len(values) == 1 else mean_interval([one.mean for one in values])


def draw(lines: dict[str, list[list]]) -> None:
    """Images of clients over what the server makes of their updates, a column for each line."""
    figure, grid = plt.subplots(2 * SHOWN, len(lines), figsize=(2 * len(lines), 2.1 * SHOWN), squeeze=False)
    for column, (what, pairs) in zip(grid.T, lines.items(), strict=True):
        column[0].set_title(what if what != "nothing" else "one step of 8 images", fontsize=7)
        for place, image in enumerate(one for pair in pairs for one in pair):
            column[place].imshow(image, cmap="gray", vmin=0, vmax=1)
    for axis in grid.flat:
        axis.axis("off")
    figure.tight_layout(pad=0.3)
    figure.savefig(PICTURE, dpi=80)
    plt.close(figure)


def page(found: dict) -> str:
    """The page from what is kept."""
    plan, rows = found["plan"], found["rows"]
    held = [row["changed"] for row in rows if not row["beats"]]
    ranked = sorted(rows, key=lambda row: row["values"]["semsim"]["mean"])
    heads = (
        *("changed", "images behind it", "local steps", "clients", "round", "labels"),
        *("PSNR", "LPIPS", "SemSim", "points home", "beats the floor"),
    )
    cells = [
        [
            row["changed"],
            *(str(row[name]) for name in ("images", "steps", "clients", "round")),
            row["labels"] if row["labels"] == "given" else f"recovered, {row['right']:.0%} right",
            *(f"{shown(row['values'][name], '.3g')} ({row['floor'][name]:.3g})" for name in METRICS),
            f"{shown(row['home'], '.0%')} ({row['noise']:.0%})",
            "yes" if row["beats"] else "no",
        ]
        for row in rows
    ]
    facts = (
        f"`{plan['model']}` on `{plan['dataset']}`, {plan['clients']} clients of {OWN} images, one local epoch in one "
        f"step, learning rate {plan['lr']:g}, seed {plan['seed']}; attack `{found['attack']}` at fixed settings."
    )
    return "\n".join(
        [
            HEAD,
            f"By SemSim, from most to least that can be seen: {'; '.join(row['changed'] for row in ranked)}. The floor "
            f"is beaten in all lines but these: {'; '.join(held) or 'none'}.",
            "",
            "![images of clients, and below each what the server makes of the update](updates.png)",
            "",
            *table(heads, cells),
            "",
            facts,
            "",
            TAIL,
        ]
    )


def shown(value: dict, form: str) -> str:
    """A mean with its interval, where it has one."""
    ends = "" if value["low"] is None else f" [{value['low']:{form}}, {value['high']:{form}}]"
    return f"{value['mean']:{form}}{ends}"


HEAD = """# What the server of a federation sees

Made by `docs/generate_updates.py` from the file beside this page: `glasshouse federate` on embedded digits, then
`glasshouse audit --federation`. One thing is changed at a time.
"""
TAIL = """In brackets: the floor, the images' own mean colours; for *points home*, what noise does. Intervals are 95
%, over clients, or over images where the server saw one mean of all. *Points home*: the share of guesses
that are more like one of the images behind the update than like any of as many test images. The floor is
beaten by guesses that are nearer than mean colours by LPIPS, or by SSIM and PSNR, and point home more often
than noise does. A guess is compared with the image that it is nearest to, so where many images are behind
an update it has many to be near to by luck.

One small network on pictures of 8 x 8 pixels, one seed, and an attack that was tuned for none of the lines:
how they differ says where to look, not what is safe.
"""

if __name__ == "__main__":
    if sys.argv[1:]:
        measure(Path(sys.argv[1]))
    FILE.with_suffix(".md").write_text(page(json.loads(FILE.read_text())))
