"""What image defenses hide: export finished comparisons, then write docs/results/csvar.md from the exports.

python docs/generate_comparison.py DIRECTORY ..., directories that ``glasshouse compare`` wrote; without arguments only
the page is written. Pictures show at most 24 thumbnails of a data set.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from PIL import Image

from glasshouse.reports.comparison import COLUMNS, Worst, draw_pictures, draw_tradeoff, number, percent, worst

FOLDER = Path(__file__).parent / "results"
IMAGES = 4
FIGURE_5 = (("none", "original"), ("image_noise:sigma=50", "protected"), ("csvar", "protected"), ("csvar", "C"))
RIVALS = ("pixelate", "visual_mixer", "image_noise", "ats")
WORDS = {
    "csvar": "CSVAR as published, blocks shuffled at the images' own resolution",
    "csvar@224": "CSVAR acting on images enlarged to 224 px, averaged down again by area",
}


def main(directories: list[Path]) -> None:
    """Export each directory, then write the page."""
    for directory in directories:
        export(directory)
    (FOLDER / "csvar.md").write_text(page())


def export(directory: Path) -> None:
    """Keep the rows and pictures of every comparison in a directory, one for each data set and size."""
    found = [(json.loads(file.read_text()), file.stem) for file in sorted(directory.glob("*.json"))]
    found = [(row, stem) for row, stem in found if "accuracy" in row]  # no summary, and none that failed
    found.sort(key=lambda one: -one[0]["accuracy"]["protected"]["mean"])
    for dataset in sorted({row["plan"]["dataset"] for row, _ in found}):
        export_one(directory, short(dataset), [one for one in found if one[0]["plan"]["dataset"] == dataset])


def short(dataset: str) -> str:
    """A data set's name for files."""
    return dataset.replace(":size=", "-")


def export_one(directory: Path, name: str, found: list[tuple[dict, str]]) -> None:
    """Keep the rows of one comparison, the trade-off and a few pictures."""
    rows = [row for row, _ in found]
    (FOLDER / f"csvar-{name}.json").write_text(json.dumps(rows, indent=0) + "\n")
    (FOLDER / f"csvar-{name}.png").write_bytes(draw_tradeoff(rows))
    chosen = [(row, stem) for row, stem in found if row["variant"] in SHOWN]
    trimmed = [({**row, "pictures": [one for one in row["pictures"] if one in KEPT]}, stem) for row, stem in chosen]
    (FOLDER / f"csvar-{name}-pictures.png").write_bytes(draw_pictures(directory, trimmed, IMAGES))
    stems = {row["variant"]: stem for row, stem in found}
    if all(variant in stems for variant, _ in FIGURE_5):
        figure_5(directory, stems)


KEPT = ("original", "protected", "C", "D")
SHOWN = ("csvar", "csvar_exchange")


def figure_5(directory: Path, stems: dict[str, str]) -> None:
    """The paper's figure 5, raw images, noise and CSVAR, with what a jigsaw solver makes of the last below."""
    strips = [Image.open(directory / f"{stems[variant]}.{part}.png").convert("RGB") for variant, part in FIGURE_5]
    side = strips[0].height
    sheet = Image.new("RGB", (6 * side, len(strips) * side), "white")
    for place, strip in enumerate(strips):
        sheet.paste(strip.crop((0, 0, 6 * side, side)), (0, place * side))
    sheet.resize((sheet.width * 3, sheet.height * 3), Image.Resampling.NEAREST).save(FOLDER / "csvar-figure5.png")


def page() -> str:
    """The page from the exports alone."""
    parts = [INTRODUCTION]
    for file in sorted(FOLDER.glob("csvar-*.json")):
        rows = json.loads(file.read_text())
        plan = rows[0]["plan"]
        name = short(plan["dataset"])
        parts.append(f"## {plan['dataset']}\n")
        parts += [f"- {sentence}" for sentence in sentences(rows)]
        parts.append(f"\n![accuracy against leakage on {name}](csvar-{name}.png)\n")
        parts.append(f"![what was sent and what attackers made of it](csvar-{name}-pictures.png)\n")
        parts += filled([list(COLUMNS), *(worst(row).cells() for row in rows)])
        parts.append(f"\n{conditions(rows[0])}\n")
        parts += details(rows)
    if (FOLDER / "csvar-figure5.png").exists():
        parts.append(FIGURE_TEXT)
    return "\n".join(parts) + "\n"


def filled(rows: list[list[str]]) -> list[str]:
    """A table without the columns that have nothing but a head: what was not asked yet."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    head, *lines = ("| " + " | ".join(cells) + " |" for cells in zip(*columns, strict=True))
    return [head, "|" + "---|" * len(columns), *lines]


def conditions(row: dict) -> str:
    """Under which settings a table was made."""
    plan = row["plan"]
    scores = {part["part"]: part["scores"] for part in row["parts"]}
    judged = percent(scores["original"]["recognised"])
    terms = TERMS[plan["dataset"].partition(":")[0]]
    return (
        f"Settings: {plan['images']} test images attacked, {plan['versions']} versions of each; gallery of up to "
        f"{plan['gallery']}; {plan['model']} trained {plan['epochs']} epochs on {plan['train']} protected images; "
        f"learned inverse {plan['steps']} steps, linker {plan['steps'] // 2}; seed {plan['seed']}. The judge (a linear "
        f"probe on AlexNet, not a person) names the class of {judged} of the originals. Images: {terms}."
    )


TERMS = {
    "cifar10": "CIFAR-10 (Krizhevsky 2009), no terms stated",
    "orl_faces": "ORL faces, with credit to AT&T Laboratories Cambridge, for research",
    "imagenette": "Imagenette, ImageNet's non-commercial research terms",
}


def sentences(rows: list[dict]) -> list[str]:
    """What the table says, derived from it."""
    found = {row["variant"]: worst(row) for row in rows}
    told = []
    if "csvar" in found:
        one = found["csvar"]
        told.append(
            f"CSVAR at native resolution: {one.sharpest} reaches LPIPS {number(one.lpips)} and PSNR "
            f"{'identical' if one.psnr is None else number(one.psnr)} dB; originals are re-identified in "
            f"{percent(one.identified)} of cases and versions linked in "
            f"{percent(one.linked or one.identified)}{told_of(one)}."
        )
        rivals = [two for name, two in found.items() if name.partition(":")[0] in RIVALS]
        if rivals:
            near = min(
                rivals, key=lambda two: abs(two.accuracy["protected"]["mean"] - one.accuracy["protected"]["mean"])
            )
            told.append(
                f"Nearest rival in accuracy: {near.variant} with {percent(near.accuracy['protected'])} against "
                f"{percent(one.accuracy['protected'])}; recognised {percent(near.recognised)} against "
                f"{percent(one.recognised)}, LPIPS {number(near.lpips)} against {number(one.lpips)}."
            )
    if "csvar@224" in found:
        one = found["csvar@224"]
        told.append(
            f"CSVAR on images enlarged to 224 px and averaged down again: {one.sharpest} reaches LPIPS "
            f"{number(one.lpips)}, and {percent(one.recognised)} are recognised."
        )
    for name, one in found.items():
        if name.startswith("csvar_exchange"):
            linked = "" if one.linked is None else f", linked {percent(one.linked)}"
            told.append(
                f"{name}: accuracy {percent(one.accuracy['protected'])}, recognised {percent(one.recognised)}, "
                f"re-identified {percent(one.identified)}{linked}{told_of(one)}."
            )
    return told


def told_of(one: Worst) -> str:
    """What the set gives away, where it was asked."""
    if one.member is None or one.group is None:
        return ""
    return f"; members told with AUC {number(one.member)}, groups found in {percent(one.group)}"


def details(rows: list[dict]) -> list[str]:
    """Every part against CSVAR, each by itself."""
    lines = []
    for row in rows:
        if row["variant"] not in SHOWN:
            continue
        lines.append(f"\n<details><summary>Every part of the attack on {row['variant']}</summary>\n")
        columns = ("PSNR", "SSIM", "LPIPS", "SemSim", "blocks in place", "recognised", "share", "AUC", "group found")
        lines.append("| part | " + " | ".join(columns) + " |\n|" + "---|" * (1 + len(columns)))
        for part in row["parts"]:
            scores = part["scores"]
            cells = [part["part"]]
            for name in ("psnr", "ssim", "lpips", "semsim"):
                value = scores.get(name)
                cells.append("" if value is None else "identical" if value["mean"] is None else number(value))
            shares = ("blocks in place", "recognised", "share")
            cells += [percent(scores[name]) if name in scores else "" for name in shares]
            cells.append(number(scores["auc"]) if "auc" in scores else "")
            cells.append(percent(scores["group found"]) if "group found" in scores else "")
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("\n</details>\n")
    return lines


INTRODUCTION = """# What CSVAR hides, and what it does not

Made by `docs/generate_comparison.py` from the files beside this page, which `glasshouse compare` measured. What
training behind CSVAR costs in accuracy (table I of the paper) and hides of who was in the training data (figures 1 and
7) is [another page](federations.md), and so is [the GAN attack](gan.md) of figure 6.

An eavesdropper between the collection node and the compute node sees the shuffled images and knows everything but the
key. Each row gives, column by column, the **best that any of the attacks did**: the sharpest reconstruction (parts A to
E of the [unshuffle](../attacks/unshuffle.md) attack), how often a classifier still names the class in any of its
pictures, how often the original is found in a gallery, how often two epochs' versions of an image are linked, how well
members of the set are told from other images of their class (part H; 0.5 is guessing), and how often a protected image
is found that may hold the member's values. The learned attacks are trained anew for every defense with equal compute,
on public images, each time under one key of their own for all epochs, as a client does. Accuracy is that of a
classifier trained on protected images only, on protected and on clean test images.

What to take from it:

- A shuffle inside regions keeps every region's values. So it keeps an S-fold thumbnail, the palette, and a fingerprint
  that finds the original in any gallery and links all versions of an image, **whatever the key**.
- With blocks of several pixels the shuffle is a jigsaw puzzle with few pieces per region. A solver that needs seconds
  puts most of it back; faces become recognisable to the eye.
- Regions that merely trade places among images of a class (`csvar_exchange:k=4,blend=1`, what `csvar_exchange` was at
  first) hide single images from these attacks and **no member of the set**: all values of a region stay in the set, and
  comparing sorted values region by region with *all* protected images of a class finds every member and its group.
- `csvar_exchange` therefore averages regions of three images of a class before they trade places among six. That costs
  accuracy, also because a test image has no others of its class to be mixed with, so the classifier meets images unlike
  those it learned from.
- **Do not take its columns for a promise.** An attacker who holds the originals may try averages of three candidates,
  which no attack here does. Averages of two and of whole groups [are found out](members.md), so those may be too.
  Labels are in the open. Where a class has few images, as faces do here, even the attacks at hand find most members.
- No person has judged these pictures yet.
- Tables and rows without the last two columns are of an earlier version, which did not ask for members. A column of
  [SemSim](../metrics/semsim.md), where there is one, has the nearest picture of any part: 0 is the original itself.
"""
FIGURE_TEXT = """## Figure 5 of the paper, and one line more

![raw images, noise with sigma 50, CSVAR, and CSVAR after the jigsaw](csvar-figure5.png)

From the top: raw CIFAR-10 images, Gaussian noise with sigma 50, CSVAR, and what the jigsaw solver makes of the third
line without the key.
"""

main([Path(one) for one in sys.argv[1:]])
