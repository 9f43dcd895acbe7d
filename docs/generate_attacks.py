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
from glasshouse.registry import parse_spec
from glasshouse.reports.view import cell, columns, lines, short

FOLDER = Path(__file__).parent / "results"
PICTURES = Path(__file__).parent / "pictures"
MOST = 24  # thumbnails of one data set in one picture
SHOWN = 6  # images in one picture
HEAD = ["attack", "adversary", "model", "data", "defense", "round", "batch", "labels", "seen"]


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
    axes = figure.subplots(1 + len(rows), len(shown), squeeze=False)
    titles = ["private", *(f"{key[0]}, {key[1]}" + f", {key[2]}" * (key[2] != "0") for key in rows)]
    files = [{image["place"]: image["file"] for image in shown}, *(setups[key] for key in rows)]
    for line, title, row in zip(axes, titles, files, strict=True):
        for place, image in zip(line, shown, strict=True):
            place.axis("off")
            if image["place"] in row:
                picture = Image.open(study / row[image["place"]])
                place.imshow(picture, interpolation="nearest", cmap="gray", vmin=0, vmax=255)
        line[0].set_title(title, fontsize=8, loc="left")
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(target, dpi=100, facecolor="white")


def row_words(found: dict, line) -> list[str]:
    """The cells of a line before its metrics."""
    threat, settings = line.threat, found["settings"]
    right = "" if threat["labels_right"] is None else f", {threat['labels_right']:.0%} right"
    words = [line.name[1], threat["adversary"], line.name[2], settings["dataset"], line.name[0], threat["round"]]
    return [*words, str(threat["batch"]), threat["labels"] + right, line.seen]


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
    parts = ["| attack | adversary | on | seen | PSNR (dB), floor | SSIM, floor | LPIPS, floor |", "|" + "---|" * 7]
    for name in attacks.names():
        tried = [
            (line, found)
            for found in studies.values()
            for line in lines(found)
            if parse_spec(line.name[1])[0] == name and line.finished
        ]
        if not tried:
            parts.append(f"| [{name}](../attacks/{name}.md) | {attacks.get(name).adversary} | not measured here |||||")
            continue
        line, found = max(tried, key=lambda pair: seen_share(*pair))
        where = f"{line.name[2]}, {found['settings']['dataset']}, defense {line.name[0]}, batch {line.threat['batch']}"
        floor = {row["metric"]: short(row["mean"]) for row in found["floor"]}
        cells = {column.metric: one.text for column, one in zip(columns(found), line.cells, strict=True)}
        scores = [f"{cells.get(metric, 'n/a')}, {floor.get(metric, 'n/a')}" for metric in ("psnr", "ssim", "lpips")]
        words = [f"[{name}](../attacks/{name}.md)", line.threat["adversary"], where, line.seen, *scores]
        parts.append("| " + " | ".join(words) + " |")
    return parts


def seen_share(line, found: dict) -> float:
    """The share of images that a setup showed."""
    names = ("defense", "attack", "model")
    return max(
        one["mean"]
        for one in found["identified"]
        if tuple(one[name] for name in names) == line.name[:3] and one["threat"]["round"] == line.threat["round"]
    )


def page() -> str:
    """The page from the exports alone."""
    files = sorted(FOLDER.glob("attacks-*.json"))
    studies = {file.stem: json.loads(file.read_text()) for file in files}
    parts = [
        "# Attacks on real data\n\nMade by `docs/generate_attacks.py` from the files beside this page. Small studies: "
        "they show that an attack works, not how well it works in general. An image counts as seen when its "
        "reconstruction points to it among 100 others and clearly beats the floor, its own mean colour. Intervals are "
        "95 %, over images. Attacks ran at fixed settings.\n",
        "## Every attack at its best here\n",
        *overview(studies),
        "",
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


main(sys.argv[1:])
