"""Draw docs/pictures/audit.png from a study: private images, and what the worst attack saw under each defense.

python docs/generate_pictures.py STUDY, after ``make audit`` for example.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

TARGET = Path(__file__).parent / "pictures" / "audit.png"
WORDS = {"none": "seen by the server", "gaussian": "behind noise", "prune": "behind pruning"}


def main(study: Path) -> None:
    """One row per image, one column per defense; the attack with the lowest LPIPS there is shown."""
    found = json.loads((study / "audit.json").read_text())
    scores = [one for one in found["per_image"] if one["metric"] == "lpips"]
    defenses = list(dict.fromkeys(one["defense"] for one in scores))
    images = found["images"]
    figure = Figure(figsize=(2.1 * (1 + len(defenses)), 2.15 * len(images)), layout="constrained")
    axes = figure.subplots(len(images), 1 + len(defenses), squeeze=False)
    for line, image in zip(axes, images, strict=True):
        show(line[0], study / image["file"], "private" if image["place"] == 0 else "")
        for place, defense in zip(line[1:], defenses, strict=True):
            tried = [one for one in scores if one["image"] == image["place"] and one["defense"] == defense]
            worst = min(tried, key=lambda one: one["value"])
            name = defense.partition(":")[0]
            show(place, study / worst["guess"], f"{WORDS.get(name, name)}\n({defense})" if image["place"] == 0 else "")
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, dpi=100, facecolor="white")


def show(axes, file: Path, title: str) -> None:
    """Draw one picture without smoothing."""
    axes.imshow(Image.open(file), interpolation="nearest", cmap="gray", vmin=0, vmax=255)
    axes.set_title(title, fontsize=10)
    axes.axis("off")


main(Path(sys.argv[1] if len(sys.argv) > 1 else "audit"))
