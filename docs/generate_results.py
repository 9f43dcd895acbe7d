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
    """Truths in the first column, then what each setup made of them, as many rows as the thumbnails allow."""
    metric = found["settings"]["metrics"][0]
    guesses: dict[tuple[str, ...], dict[int, str]] = {}
    for one in found["per_image"]:
        if one["metric"] == metric:
            key = (condition(one["threat"]["round"], one["threat"]["batchnorm"]), one["defense"], one["attack"])
            guesses.setdefault(key, {})[one["image"]] = one["guess"]
    images = found["images"][: max(1, MOST // (1 + len(guesses)))] or found["images"][:1]
    figure = Figure(figsize=(1.3 * (1 + len(images)), 1.35 * (1 + len(guesses))), layout="constrained")
    axes = figure.subplots(1 + len(guesses), 1 + len(images), squeeze=False)
    for place in axes.flat:
        place.axis("off")
    rows = [("private", {image["place"]: image["file"] for image in images})]
    rows += [("\n".join(key), files) for key, files in guesses.items()]
    for line, (title, files) in zip(axes, rows, strict=True):
        line[0].text(1, 0.5, title.replace(", batch norm", ",\nbatch norm"), ha="right", va="center", fontsize=6)
        for place, image in zip(line[1:], images, strict=True):
            if image["place"] in files:
                place.imshow(Image.open(study / files[image["place"]]), interpolation="nearest", cmap="gray")
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
        head_row = ["defense", "attack", "round", "batch norm", "labels right", "signal to noise", "seen"]
        parts.append("| " + " | ".join([*head_row, *(column.label for column in shown)]) + " |")
        parts.append("|" + "---|" * (len(head_row) + len(shown)))
        for line in lines(found):
            threat = line.threat
            right = "" if threat["labels_right"] is None else f"{threat['labels_right']:.0%}"
            noise = "untouched" if threat["snr_db"] is None else f"{threat['snr_db']:.1f} dB"
            cells = [f"{one.text} ({one.interval})" if one.interval else one.text for one in line.cells]
            words = [line.name[0], line.name[1], threat["round"], threat["batchnorm"], right, noise, line.seen]
            parts.append("| " + " | ".join([*words, *cells]) + " |")
        floor = {row["metric"]: cell(row) for row in found["floor"]}
        cells = [f"{floor[c.metric].text} ({floor[c.metric].interval})" if c.metric in floor else "n/a" for c in shown]
        parts.append("| floor | mean colour | | | | | | " + " | ".join(cells) + " |\n")
        parts += [f"- failed: {one['defense']}, {one['attack']}: {one['reason']}" for one in found["failures"]]
    return "\n".join(parts) + "\n"


def main(words: list[str]) -> None:
    """Export the studies named, then write the page."""
    FOLDER.mkdir(exist_ok=True)
    for study, name, title in zip(words[::3], words[1::3], words[2::3], strict=True):
        export(Path(study), name, title)
    (FOLDER / "audit.md").write_text(page(), encoding="utf-8")


main(sys.argv[1:])
