"""How the dials of csvar_exchange hide who is in a set: measure part H of unshuffle, write docs/results/members.md.

python docs/generate_members.py DATASET, with GLASSHOUSE_DATA set; without arguments only the page is written.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import torch

from glasshouse.attacks.unshuffling.members import METHODS, ask
from glasshouse.functional.threads import one_thread
from glasshouse.reports.comparison import number, percent
from glasshouse.studies.adaptive import ask_about
from glasshouse.studies.comparison import Comparison, Dealt, deal
from glasshouse.studies.shuffled import Truth, told_apart
from glasshouse.studies.variants import Variant

FILE = Path(__file__).parent / "results" / "members.json"
DIALS = (
    "csvar",
    "csvar_exchange:k=4,blend=1",
    "csvar_exchange:k=4,blend=2",
    "csvar_exchange:k=4,blend=4",
    "csvar_exchange:k=6,blend=3",
    "csvar_exchange:k=6,blend=3,dither=16",
    "csvar_exchange:k=8,blend=4",
)


def main(datasets: list[str]) -> None:
    """Measure the data sets named, then write the page."""
    for dataset in datasets:
        plan = Comparison(dataset=dataset, images=1, gallery=400, train=800, versions=3)
        with one_thread():
            dealt = deal(plan, None)
            rows = [measured(plan, dealt, text) for text in DIALS]
        FILE.write_text(json.dumps({"plan": dataclasses.asdict(plan), "rows": rows}, indent=0) + "\n")
    FILE.with_suffix(".md").write_text(page(json.loads(FILE.read_text())))


def measured(plan: Comparison, dealt: Dealt, text: str) -> dict:
    """Every method against one setting of the dials."""
    variant = Variant.parse(text)
    rng = torch.Generator().manual_seed(plan.seed)
    defense = variant.defense.with_key(rng)
    versions = [variant.protect(defense.in_epoch(epoch), dealt.client, rng) for epoch in range(plan.versions)]
    census, inside = ask_about(plan, variant, dealt.client, versions, dealt.public)
    partners = variant.partners(defense, dealt.client)
    truth = Truth(dealt.client.images, torch.arange(len(partners)), inside=inside, partners=partners)
    found = ask(census, variant.region(*dealt.client.images.shape[-2:]))
    scores = {method: told_apart(truth, asked) for method, asked in found.items()}
    return {
        "variant": text,
        "methods": {
            method: {name: dataclasses.asdict(value) for name, value in one.items()} for method, one in scores.items()
        },
    }


def page(found: dict) -> str:
    """The page from the stored rows."""
    plan = found["plan"]
    lines = [TEXT, f"## {plan['dataset']}: area under the ROC curve\n"]
    columns = ("defense", *METHODS, "its group found, at best")
    lines.append("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in found["rows"]:
        cells = [number(row["methods"][method]["auc"]) for method in METHODS]
        group = max((one["group found"] for one in row["methods"].values()), key=lambda share: share["mean"])
        lines.append("| " + " | ".join([row["variant"], *cells, percent(group)]) + " |")
    lines.append(
        f"\nSettings: {plan['gallery']} members, as many others of the same classes, as many protected by the attacker "
        f"itself; {plan['versions']} versions; seed {plan['seed']}. 95 % intervals (bootstrap over images)."
    )
    return "\n".join(lines) + "\n"


TEXT = """# Who is in a protected set

Made by `docs/generate_members.py` from the file beside this page. Part H of [unshuffle](../attacks/unshuffle.md) asks
of each candidate whether it is in a set that [csvar](../defenses/csvar.md) or
[csvar_exchange](../defenses/csvar_exchange.md) protected; 0.5 is guessing, 1 is certainty. The attacker holds the
originals of all members among its candidates, and does not know which they are. Each kind of averaging has a method
that is made for it; averages of three or four among more have none here, and so the rows with the lowest figures are
also those that were attacked least well.
"""

main(sys.argv[1:])
