"""What every attack reaches on real data: export studies' scores, then write docs/results/attacks.md from the exports.

python docs/generate_attacks.py STUDY NAME "What this study is" ...; without arguments only the page is written. Each
study also gives the picture docs/pictures/attack-NAME.png.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from glasshouse.attacks import attacks
from glasshouse.metrics import metrics
from glasshouse.registry import parse_spec
from glasshouse.reports.view import cell, columns, lines, setup_of, short
from glasshouse.studies.scoring import beats_floor

FOLDER = Path(__file__).parent / "results"
PICTURES = Path(__file__).parent / "pictures"
MOST = 24  # thumbnails of one data set in one picture
SHOWN = 6  # images in one picture
OTHERS = 100  # images that each must be told from
HEAD = [
    *("attack", "adversary", "model", "data", "defense", "round", "batch norm", "batch", "labels"),
    *("beats the floor", "seen", "told apart"),
]


def export(study: Path, name: str, title: str) -> None:
    """Keep the scores, not the images, and one picture."""
    found = json.loads((study / "audit.json").read_text())
    draw(study, found, PICTURES / f"attack-{name}.png")
    for private in ("per_image", "images"):
        found.pop(private)
    found["settings"]["weights"] = found["settings"]["weights"] and "trained by `glasshouse train`"
    (FOLDER / f"attacks-{name}.json").write_text(json.dumps({"title": title, **found}, indent=1) + "\n")


def draw(study: Path, found: dict, target: Path) -> None:
    """A row of private images, and below it what each setup made of them, the most telling setups first."""
    setups: dict[tuple[str, ...], dict[int, str]] = {}
    for one in found["per_image"]:
        key = (one["attack"], one["defense"], one["threat"]["round"])
        setups.setdefault(key, {})[one["image"]] = one["guess"]
    telling = {(one["attack"], one["defense"], one["threat"]["round"]): one["mean"] for one in found["identified"]}
    rows = sorted(setups, key=lambda key: (key[1] != "none", -telling[key]))[: MOST // SHOWN - 1]
    shown = found["images"][:SHOWN]
    figure = Figure(figsize=(1.25 * len(shown), 1.45 * (1 + len(rows))), layout="constrained")
    strips = figure.subfigures(1 + len(rows), 1, squeeze=False)[:, 0]
    titles = ["private", *(f"{key[0]}, {key[1]}" + f", {key[2]}" * (key[2] != "0") for key in rows)]
    files = [{image["place"]: image["file"] for image in shown}, *(setups[key] for key in rows)]
    for strip, title, row in zip(strips, titles, files, strict=True):
        strip.suptitle(title, fontsize=8, x=0.01, horizontalalignment="left")  # may be wider than an image
        for place, image in zip(strip.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            place.axis("off")
            if image["place"] in row:
                picture = Image.open(study / row[image["place"]])
                place.imshow(picture, interpolation="nearest", cmap="gray", vmin=0, vmax=255)
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(target, dpi=100, facecolor="white")


def row_words(found: dict, line) -> list[str]:
    """The cells of a line before its metrics."""
    threat, settings = line.threat, found["settings"]
    right = "" if threat["labels_right"] is None else f", {threat['labels_right']:.0%} right"
    words = [line.name[1], threat["adversary"], line.name[2], settings["dataset"], line.name[0], threat["round"]]
    mode = "none" if threat["batchnorm"] == "none" else f"{threat['batchnorm']}, {threat['statistics']}"
    shown = [floor_beaten(found, line), line.seen, line.told]
    return [*words, mode, str(threat["batch"]), threat["labels"] + right, *shown]


def floor_beaten(found: dict, line) -> str:
    """Yes, or where a setup is no better than the mean colour or than picking by chance."""
    better = {metric: above(found, line, metric) for metric in ("lpips", "ssim", "psnr")}
    return beats_floor(better, identified(found, line)["told"]["low"], 1 / (OTHERS + 1))


def above(found: dict, line, metric: str) -> bool:
    """Whether a setup's mean of a metric is better than the floor's; that of identical images is best."""
    own = next(row for row in found["rows"] if row["metric"] == metric and setup_of(row) == line.name)
    floor = next(row["mean"] for row in found["floor"] if row["metric"] == metric)
    if own["mean"] is None:
        return own["images"] > 0
    return own["mean"] < floor if metrics.get(metric).leaks_when == "low" else own["mean"] > floor


def table(found: dict) -> list[str]:
    """All setups of a study and its floor."""
    shown = columns(found)
    parts = ["| " + " | ".join([*HEAD, *(column.label for column in shown)]) + " |"]
    parts.append("|" + "---|" * (len(HEAD) + len(shown)))
    for line in lines(found):
        cells = [f"{one.text} ({one.interval})" if one.interval else one.text for one in line.cells]
        parts.append("| " + " | ".join([*row_words(found, line), *cells]) + " |")
    floor = {row["metric"]: cell(row) for row in found["floor"]}
    cells = [f"{floor[c.metric].text} ({floor[c.metric].interval})" if c.metric in floor else "n/a" for c in shown]
    return [*parts, "| floor: mean colour" + " |" * len(HEAD) + " " + " | ".join(cells) + " |"]


def overview(studies: dict[str, dict]) -> list[str]:
    """Every registered attack at its best in these studies."""
    heads = ["attack", "adversary", "on", "beats the floor", "seen", "told apart"]
    heads += ["PSNR (dB), floor", "SSIM, floor", "LPIPS, floor"]
    parts = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name in attacks.names():
        tried = [
            (line, found)
            for found in studies.values()
            for line in lines(found)
            if parse_spec(line.name[1])[0] == name and line.finished
        ]
        if not tried:
            own = f"[{name}](../attacks/{name}.md) | {attacks.get(name).adversary}"
            parts.append(f"| {own} | not measured here |||||||")
            continue
        line, found = max(tried, key=lambda one: (floor_beaten(*one[::-1]) == "yes", identified(*one[::-1])["mean"]))
        where = f"{line.name[2]}, {found['settings']['dataset']}, defense {line.name[0]}, batch {line.threat['batch']}"
        floor = {row["metric"]: short(row["mean"]) for row in found["floor"]}
        cells = {column.metric: one.text for column, one in zip(columns(found), line.cells, strict=True)}
        scores = [f"{cells.get(metric, 'n/a')}, {floor.get(metric, 'n/a')}" for metric in ("psnr", "ssim", "lpips")]
        words = [f"[{name}](../attacks/{name}.md)", line.threat["adversary"], where, floor_beaten(found, line)]
        parts.append("| " + " | ".join([*words, line.seen, line.told, *scores]) + " |")
    return parts


def identified(found: dict, line) -> dict:
    """The shares of images that a setup showed, and of those that its guesses point to among others."""
    return next(one for one in found["identified"] if setup_of(one) == line.name)


def page() -> str:
    """The page from the exports alone."""
    files = sorted(FOLDER.glob("attacks-*.json"))
    studies = {file.stem: json.loads(file.read_text()) for file in files}
    parts = [
        "# Attacks on real data\n\nMade by `docs/generate_attacks.py` from the files beside this page. Small studies: "
        "they show that an attack works, not how well it works in general. An image counts as seen when its "
        f"reconstruction points to it among {OTHERS} others and clearly beats the floor, its own mean colour. A setup "
        "beats the floor when its means are better than the floor's in LPIPS, or in SSIM and PSNR, and its guesses "
        "point to their originals at least five times as often as chance would, even at the lower end of the share's "
        "interval. *Told apart* counts guesses that point to their original, whatever they look like. Intervals are "
        "95 %, over images. Attacks ran at fixed settings.\n",
        "## Every attack at its best here\n",
        *overview(studies),
        "",
        "The GAN adversary takes part in a federation and is scored by class: [its floor and figures](gan.md).\n",
    ]
    for name, found in studies.items():
        parts += [
            f"## {found['title']}\n",
            f"![{found['title']}](../pictures/{name.replace('attacks', 'attack')}.png)\n",
        ]
        parts += [f"Images: {found['settings']['dataset']}; terms: {found['settings']['terms']}.\n", *table(found), ""]
        parts += [f"- failed: {one['defense']}, {one['attack']}: {one['reason']}" for one in found["failures"]]
    return "\n".join(parts) + "\n"


def main(words: list[str]) -> None:
    """Export the studies named, then write the page."""
    for study, name, title in zip(words[::3], words[1::3], words[2::3], strict=True):
        export(Path(study), name, title)
    (FOLDER / "attacks.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
