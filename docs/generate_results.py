"""Results of real audits: export a finished study's scores, then write docs/results/audit.md from the exports.

python docs/generate_results.py STUDY NAME "What this study is" ...; without arguments only the page is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from glasshouse.reports.view import cell, columns, condition, lines, verdict

FOLDER = Path(__file__).parent / "results"
MOST = 24  # thumbnails of one data set in one picture


def export(study: Path, name: str, title: str) -> None:
    """Keep the scores, not the images, and one picture."""
    found = json.loads((study / "audit.json").read_text())
    draw(study, found, FOLDER / f"audit-{name}.png")
    for private in ("per_image", "images"):
        found.pop(private)
    found["settings"]["weights"] = found["settings"]["weights"] and "trained by `glasshouse train`, see above"
    (FOLDER / f"audit-{name}.json").write_text(json.dumps({"title": title, **found}, indent=1) + "\n")


def draw(study: Path, found: dict, target: Path) -> None:
    """A row for each image: the private one, then what setups made of it, undefended ones first."""
    guesses: dict[tuple[str, ...], dict[int, str]] = {}
    for one in found["per_image"]:
        where = condition(one["threat"]["round"], one["threat"]["batchnorm"]).replace(" (", "\n(")
        guesses.setdefault((one["defense"], one["attack"], where), {})[one["image"]] = one["guess"]
    images = found["images"][: MOST // 4]
    chosen = sorted(guesses, key=lambda key: key[0] != "none")[: MOST // len(images) - 1]
    columns = [("private", {image["place"]: image["file"] for image in images})]
    columns += [("\n".join(key).replace(", batch norm", ",\nbatch norm"), guesses[key]) for key in chosen]
    figure = Figure(figsize=(1.9 * len(columns), 0.9 + 1.75 * len(images)), layout="constrained")
    axes = figure.subplots(len(images), len(columns), squeeze=False)
    for line, image in zip(axes, images, strict=True):
        for place, (title, files) in zip(line, columns, strict=True):
            place.axis("off")
            if image["place"] in files:
                place.imshow(
                    Image.open(study / files[image["place"]]), interpolation="nearest", cmap="gray", vmin=0, vmax=255
                )
            if image is images[0]:
                place.set_title(title, fontsize=7)
    figure.savefig(target, dpi=90, facecolor="white")


def page() -> str:
    """The page from the exports alone."""
    parts = ["# Audits of real data\n\nMade by `docs/generate_results.py` from the files beside this page.\n"]
    for file in sorted(FOLDER.glob("audit-*.json")):
        found = json.loads(file.read_text())
        head, sentences = verdict(found)
        shown = columns(found)
        settings = found["settings"]
        parts.append(f"## {found['title']}\n\n**{head}**\n")
        parts += [f"- {sentence}" for sentence in sentences]
        parts.append(f"\n![{found['title']}]({file.stem}.png)\n")
        parts.append(f"Images: {settings['dataset']}; terms: {settings['terms']}.\n")
        head_row = ["defense", "attack", "round", "batch norm", "labels right", "signal to noise", "seen", "told apart"]
        parts.append("| " + " | ".join([*head_row, *(column.label for column in shown)]) + " |")
        parts.append("|" + "---|" * (len(head_row) + len(shown)))
        for line in lines(found):
            threat = line.threat
            right = "" if threat["labels_right"] is None else f"{threat['labels_right']:.0%}"
            noise = "untouched" if threat["snr_db"] is None else f"{threat['snr_db']:.1f} dB"
            cells = [f"{one.text} ({one.interval})" if one.interval else one.text for one in line.cells]
            words = [line.name[0], line.name[1], threat["round"], threat["batchnorm"], right, noise]
            words += [line.seen, line.told]
            parts.append("| " + " | ".join([*words, *cells]) + " |")
        floor = {row["metric"]: cell(row) for row in found["floor"]}
        cells = [f"{floor[c.metric].text} ({floor[c.metric].interval})" if c.metric in floor else "n/a" for c in shown]
        parts.append("| floor | mean colour | | | | | | | " + " | ".join(cells) + " |\n")
        parts += [f"- failed: {one['defense']}, {one['attack']}: {one['reason']}" for one in found["failures"]]
    return "\n".join(parts) + "\n"


def main(words: list[str]) -> None:
    """Export the studies named, then write the page."""
    FOLDER.mkdir(exist_ok=True)
    for study, name, title in zip(words[::3], words[1::3], words[2::3], strict=True):
        export(Path(study), name, title)
    (FOLDER / "audit.md").write_text(page(), encoding="utf-8")


main(sys.argv[1:])
