"""The page of the study behind SemSim, from docs/results/semsim-study.json and the pictures beside it."""

from __future__ import annotations

import statistics
from pathlib import Path

from page_tables import table, value
from semsim_study_pilots import section as pilots
from semsim_study_short import SHARES, short

from glasshouse import data
from glasshouse.reports.correlation import MANY, too_narrow
from glasshouse.reports.semsim import ABLATED, ablation_remarks, ablation_rows
from glasshouse.semsim.backbones import BACKBONES
from glasshouse.studies.ablation import SIZES
from glasshouse.studies.judgements import TESTERS
from glasshouse.studies.learned import LEARNED, enough_for

FOLDER = Path(__file__).parent / "results"
PICTURE = "semsim-study-{}.png"
POINTS = 56  # models that should stand behind a correlation
DATASETS = ("cifar100", "caltech101", "imagenette", "orl_faces", "stanford_dogs")
ATTACKS = ("dlg", "cafe", "gradattack")

#: |rho| and |tau| against people as the SemSim paper prints them: table 1 (CelebA where we have ORL faces) and table 2.
HEADS = ("psnr", "mse", "ssim", "lpips", "fid", "semsim")
PRINTED = {
    "cifar100": (".670/.473", ".618/.429", ".394/.290", ".513/.398", ".736/.560", ".864/.714"),
    "caltech101": (".697/.556", ".735/.553", ".722/.524", ".513/.407", ".224/.156", ".818/.689"),
    "imagenette": (".538/.435", ".640/.553", ".643/.511", ".654/.592", ".479/.425", ".826/.701"),
    "orl_faces": (".750/.560", ".735/.553", ".685/.526", ".582/.451", ".152/.099", ".826/.692"),
    "stanford_dogs": (".402/.354", ".397/.274", ".478/.305", ".503/.393", ".397/.320", ".712/.594"),
    "dlg": (".652/.486", ".637/.417", ".407/.286", ".548/.429", ".727/.524", ".875/.734"),
    "cafe": (".710/.539", ".692/.426", ".587/.332", ".679/.476", ".693/.474", ".886/.751"),
    "gradattack": (".683/.494", ".694/.498", ".575/.350", ".684/.453", ".720/.482", ".844/.726"),
}


ACCURACY = "accuracy: least, median, most"
TRAINED = ["data set", "networks", "attack", "trained", "after epochs", ACCURACY, "chance", "enough", "attacked"]
RECOGNISED = ["data set", "attack", "originals", "reconstructions", "recognised", "within", "judges"]
AREAS = ["AUC within original", "AUC within model"]
OF_SETS = ("fid", "kid")  # one value for each model; rows from before evaluations knew that have an area all the same
AHEAD = "SemSim ahead of it: tau"
AGREEMENT = ["metric", "rho", "tau", *AREAS, "resolved pairs", AHEAD, "paper: size of rho/tau"]
TABLES = {
    "data set": "Table 1: data sets left out of its lessons",
    "attack": "Table 2: attacks left out of its lessons",
}

ASKED = (
    "Do metrics rank models as judges do? Fourteen models of each data set, two networks by seven training recipes, "
    "each at several checkpoints, are attacked; judges say what they recognise; each metric's ranking of the models is "
    "held against theirs. Made by `docs/generate_semsim_study.py` from studies that began as the presets `semsim`, "
    "`semsim_gradattack`, `semsim_dlg` and `semsim_cafe` at laptop scale ([how](../semsim.md#the-study-behind-it)), "
    "trimmed in images, seeds and checkpoints, and in part before the presets were changed: the tables name what was "
    "run. What teaches in table 2 is the lessons alone."
)
NOBODY = (
    "**No person judged here**: classifiers stand in for people, and those that test never teach. What the paper "
    "prints is about people."
)
TARGETS = (
    "Accuracy on test images, over all networks and checkpoints. A network has learned enough for a target where it is "
    f"right {LEARNED} times as often as chance; the column *enough* counts those checkpoints."
)
DEVIATIONS = (
    "Deviations from the paper: 32 px, small networks, few images and steps; ORL faces for CelebA; DLG needs a smooth"
    " network and CAFE one that is cut over workers, so that each attacks fourteen variants of its own. The attack "
    "with steps that shrink, and the settings of GradAttack, come from a pilot on three test portraits of the ORL "
    "faces, by how much of them could be seen; some of the three may be among the attacked. Half as many steps as "
    "there showed nearly as much of five images of Caltech-101 that nobody attacked later; pilots (below) say why "
    "CIFAR-100 has half of these again. Epochs were chosen by accuracies alone, but those of the ORL faces by the "
    "pilot; what is not attacked is behind networks that had not learned. Of Stanford Dogs all 120 breeds are told "
    "apart, since of ten it would take more than half of the test images to count as learned; epochs and rate were "
    "chosen by accuracies alone, and the attack is that on Caltech-101."
)
SEEN = (
    "How often a testing judge recognises a reconstruction through a network that has learned enough: what metrics are "
    "held against. 95 % intervals over originals. A ranking means little unless "
    f"{SHARES[0]:.0%} to {SHARES[1]:.0%} are recognised: the column *within*. Lineups tell an original from twenty "
    "others: from all those attacked with it, and where these are fewer, from crops of photographs, which is easier; "
    "shares of different numbers of originals do not compare. Probes name a class, which they seldom can where a "
    "lineup still picks the original: the two ask different things, and their kappa is low."
)
SIGNED = (
    "Signed; 95 % intervals of rho and tau over trainings, with all their checkpoints, of areas over originals. FID "
    "and KID of so few images have no meaning by themselves: every model has as many, so that they can be ranked. How "
    "far SemSim is ahead is paired: both metrics on the same draws, each in the direction in which it leaks. "
    "Imagenette and Stanford Dogs are pictures of ImageNet, which the frozen trunks of SemSim and of every judge were "
    "trained on. And CIFAR-100 was left out of the lessons, not of the design: SemSim's haze, where its weights begin "
    "and its epochs were chosen by eye, in part on reconstructions through ResNet20 and ConvNet8 of CIFAR-100 "
    "([which](../metrics/semsim.md#how-good)), after a first run of that row; figure 7 shows that the design ranks "
    "there and not the lessons. That flatters SemSim on CIFAR-100, in both tables."
)
ABLATION = (
    "One thing is changed at a time in the recipe of the shipped network; more than 400 originals are those of "
    "further lessons from CIFAR-10 and Imagenette; each is tested on {}, which teaches none of them, by {}: compare "
    "these figures with one another and with those of no other judges. Backbones other than AlexNet are trained as a "
    "whole from fresh weights."
)
BEFORE = (
    "The first votes of this study were given by {}, who compare averages over the whole picture. They recognised "
    "next to none of the faces, though those through ConvNet8 can be told at a glance, and were given eyes for places"
    " ([how](../semsim.md#judges)). MSE, PSNR, SSIM and SemSim agree better with such judges, who are rather too "
    "easily satisfied where colours tell originals apart, and LPIPS worse: on CIFAR-100 it came first before. The "
    "figures of all metrics had been seen by then; what led to the change was what judges missed. Later a fault was "
    "found in lineups of both makes (up to `3` of those that test, `2` of those that teach): how sharply they tell "
    "was fitted to copies that they knew by heart. Rows that name older judges have not been judged anew. CIFAR-100 "
    "was attacked anew since. This is what the first judges said about the pictures of then:"
)
CAPTIONS = {
    "contradictions-*": "Figure 1: metrics say that the first reconstruction shows more, judges the second",
    "metrics": f"Figure 3A: metric against metric, {DATASETS[0]}",
    "judges": f"Figure 3B: metric against judges, {DATASETS[0]}",
    "judged-*": "Figure 5: reconstructions by PSNR, and whether judges recognised them",
    "order-*": "Figure 6: the same reconstructions in the order of PSNR and of SemSim, which never saw the data set",
    "ablation": "Figures 7 and 9: training originals, backbone, loss and margin",
}


def learned(found: list[dict]) -> list[list[str]]:
    """A row for each data set of each study: how right its networks are, against chance."""
    rows = []
    for one in found:
        chance, right = 1 / one["classes"], one["right"]
        enough = sum(share >= enough_for(one["classes"]) for share in right)
        spread = f"{right[0]:.1%}, {statistics.median(right):.1%}, {right[-1]:.1%}" if right else "none trained yet"
        cases = f"{one['done']} of {one['done'] + one['left'] + one['failed']}"
        named = [", ".join(f"`{name}`" for name in one[names]) for names in ("models", "attacks")]
        epochs = ", ".join(map(str, one["checkpoints"]))
        row = [f"`{one['dataset']}`", *named, str(one["networks"]), epochs, spread, f"{chance:.1%}"]
        rows.append([*row, f"{enough} of {len(right)}", cases + (f", {one['failed']} failed" if one["failed"] else "")])
    return rows


def shown(found: list[dict]) -> list[list[str]]:
    """A row for each data set of each study: what judges recognised."""
    rows = []
    for one in found:
        named = f"`{one['dataset']}`", ", ".join(f"`{name}`" for name in one["attacks"])
        share = f"{one['share']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"
        between = "yes" if SHARES[0] <= one["share"] <= SHARES[1] else "**no**"
        rows.append([*named, str(one["originals"]), str(one["images"]), share, between, one["judges"]])
    return rows


def agreement(test: dict) -> list[str]:
    """Every metric against the judges on what was left out of training, beside what the paper prints."""
    head = f"### {test['left_out']}"
    if test["correlation"] is None:
        return [head, "", f"No test: {test['failed']}", ""]
    found = test["correlation"]
    printed = dict(zip(HEADS, PRINTED.get(test["left_out"], ()), strict=False))
    rows = []
    for name, one in found["metrics"].items():
        areas = ("auc_within_original", *([] if name in OF_SETS else ["auc_within_model"]))
        figures = [value(one, part) for part in ("rho", "tau", *areas)] + ["n/a"] * (name in OF_SETS)
        resolved = one["resolved_accuracy"]
        told = "n/a" if resolved is None else f"{resolved:.3f}"
        ahead = value(found["ahead"][name], "tau") if name in found["ahead"] else ""
        rows.append([name, *figures, told, ahead, printed.get(name, "")])
    rows.append(["item difficulty", "n/a", "n/a", "n/a", value(found, "difficulty_auc_within_model"), "n/a", "", ""])
    few = "" if found["models"] >= POINTS else f" (**fewer than {POINTS}**)"
    learned = test.get("unlearned_models", 0)
    facts = [
        f"{found['models']} model points{few}, {found['images']} reconstructions.",
        f"They are of {test['tested_originals']} originals.",
        *([f"{learned} more model points are left out: those networks had not learned."] if learned else []),
        f"SemSim learned from {test['trained_guesses']} guesses of {test['trained_originals']} originals.",
        *trained(found),
        f"Votes resolve {found['resolved_pairs']} of {found['pairs']} pairs of models.",
        *agreed(found),
        *([] if found["ceiling"] is None else [f"Half of the judges against the others: tau {found['ceiling']:.3f}."]),
        *(f"Without {name}: {why}." for name, why in test["missing"].items()),
    ]
    return [head, "", " ".join(facts), "", *table(AGREEMENT, rows), ""]


def trained(found: dict) -> list[str]:
    """How many trainings stand behind the points, where that was counted."""
    if "trainings" not in found:
        return []
    few = f" {too_narrow()}" if found["trainings"] < MANY else ""
    return [f"{found['trainings']} trainings stand behind the points.{few}"]


def agreed(found: dict) -> list[str]:
    """How far the judges agree, where several voted, and whether they tell any models apart."""
    lines = []
    if found.get("kappa") is not None:
        lines.append(f"Fleiss' kappa of the judges {value(found, 'kappa')}.")
        if found["kappa_low"] is None or found["kappa_low"] <= 0:
            lines.append("**They do not agree beyond chance: what they say on average has little meaning.**")
    return lines if found["resolved_pairs"] else [*lines, "**They tell no two models apart.**"]


def before(found: dict | None) -> list[str]:
    """What judges of an older make said, who were changed after a look at what they recognised."""
    if not found:
        return []
    rows = []
    for test in found["tests"]:
        seen = next(one for one in found["recognised"] if one["dataset"].partition(":")[0] == test["left_out"])
        for name, one in test["correlation"]["metrics"].items():
            row = [test["left_out"], f"{seen['share']:.1%}", name, value(one, "tau"), value(one, "auc_within_original")]
            rows.append(row)
    testers = sorted({test["testers"] for test in found["tests"]})
    heads = ["data set", "recognised", "metric", "tau", "AUC within original"]
    said = BEFORE.format(" and ".join(testers))
    return ["## The judges were changed", "", said, "", *table(heads, rows), ""]


def missing(found: dict) -> list[str]:
    """What the study was to show and does not yet."""
    tests = {(test["axis"], test["left_out"]) for test in found["tests"] if test["correlation"] is not None}
    lines = [f"table 1: {name}" for name in DATASETS if ("data set", name) not in tests]
    lines += [f"table 2: {name}" for name in ATTACKS if ("attack", name) not in tests]
    for one in found["targets"]:
        if one["failed"] or not one["done"]:
            lines.append(
                f"{', '.join(one['attacks'])} on {one['dataset']}: {one['failed'] or 'all'} cases have no result"
            )
    few = [test["left_out"] for test in found["tests"] if (test["correlation"] or {}).get("models", POINTS) < POINTS]
    lines += [f"{POINTS} model points: fewer stand behind {', '.join(few)}"] if few else []
    old = [test["left_out"] for test in found["tests"] if not set(TESTERS) & set(makes(test["testers"]))]
    lines += [f"judges as they are now: {', '.join(old)} were judged by older ones"] if old else []
    without = [test["left_out"] for test in found["tests"] if not set(OF_SETS) & set(measured(test))]
    lines += [f"FID and KID, of too few images: {', '.join(without)}"] if without else []
    if not any(test["testers"].startswith("human") for test in found["tests"]):
        lines.append("votes of people")
    return [*lines, *untried(found["ablation"])]


def makes(judges: str) -> list[str]:
    """The judges of a line of the study, one by one."""
    return judges.partition(": ")[2].split(", ")


def measured(test: dict) -> dict:
    """The metrics of a test that was made; one that was not lacks none of them."""
    return test["correlation"]["metrics"] if test["correlation"] is not None else dict.fromkeys(OF_SETS)


def untried(rows: list[dict]) -> list[str]:
    """Variants of figures 7 and 9 that were not tried."""
    if not rows:
        return ["figures 7 and 9: nothing was ablated"]
    tried = {row["value"] for row in rows}
    left = [str(one) for one in (0, *SIZES, *BACKBONES) if str(one) not in tried]
    return [f"figures 7 and 9: {', '.join(left)}"] if left else []


def ablated(rows: list[dict]) -> list[str]:
    """What SemSim owes to its data, its backbone, its loss and its margin; nothing where nothing was tried."""
    if not rows:
        return []
    head = ["## What it owes to its data, backbone, loss and margin (figures 7 and 9)", ""]
    said = (" and ".join(sorted({row[part] for row in rows})) for part in ("left_out", "testers"))
    remarks = [f"- {line}" for line in [*hurried(rows), *ablation_remarks(rows)]]
    return [
        *head,
        ABLATION.format(*said),
        "",
        *table(ABLATED, ablation_rows(rows)),
        "",
        *([*remarks, ""] if remarks else []),
    ]


def hurried(rows: list[dict]) -> list[str]:
    """Which panels learned for fewer passes than the recipe has, so that large networks end in the time there is."""
    short = {(row["panel"], row["passes"], row["originals"]) for row in rows if row.get("passes") is not None}
    return [
        f"{panel}: at most {passes} passes over {originals} originals, for large networks take minutes for each. So "
        "few teach a fresh network little: which would be the best after many is not told."
        for panel, passes, originals in sorted(short)
    ]


def pictures(found: dict) -> list[str]:
    """The figures of the paper that there are, each with what it shows, and whose images they are."""
    lines = []
    for pattern, caption in CAPTIONS.items():
        for file in sorted(FOLDER.glob(PICTURE.format(pattern))):
            subject = f" ({file.stem.removeprefix(PICTURE.format(pattern)[: -len('*.png')])})" if "*" in pattern else ""
            lines += [f"![{caption}{subject}]({file.name})", "", f"{caption}{subject}", ""]
    names = sorted({one["dataset"].partition(":")[0] for one in found["targets"]})
    terms = (f"{name}: {data.datasets.get(name).terms}" for name in names if name in data.datasets.names())
    return ["## Pictures", "", *lines, f"Images: {'; '.join(terms)}.", ""] if lines else []


def introduction(found: dict) -> list[str]:
    """What is asked, who judged, and what is not there yet."""
    panels: dict[tuple[str, str], list[str]] = {}
    for test in found["tests"]:
        panels.setdefault((test["teachers"], test["testers"]), []).append(test["left_out"])
    people = any(testers.startswith("human") for _, testers in panels)
    lines = ["# The study behind SemSim", "", ASKED, "", *([] if people else [NOBODY, ""]), *short(found)]
    absent = missing(found)
    lines += ["## Not there yet", "", *(f"- {one}" for one in absent), ""] if absent else []
    lines += ["## Who judged", ""] if panels else []
    for (teachers, testers), subjects in panels.items():
        lines += [f"- {', '.join(subjects)}: taught by {teachers}; tested by {testers}."]
    return [*lines, ""] if panels else lines


def page(found: dict) -> str:
    """The page of results."""
    lines = [
        *introduction(found),
        *("## What was attacked", "", TARGETS, "", *table(TRAINED, learned(found["targets"])), "", DEVIATIONS, ""),
        *pilots(found.get("pilots", [])),
        *("## What judges recognised", "", SEEN, "", *table(RECOGNISED, shown(found["recognised"])), ""),
    ]
    lines += before(found.get("before"))
    for axis, title in TABLES.items():
        some = [test for test in found["tests"] if test["axis"] == axis]
        lines += [f"## {title}", "", *([SIGNED, ""] if axis == next(iter(TABLES)) else [])] if some else []
        lines += [line for test in some for line in agreement(test)]
    return "\n".join([*lines, *ablated(found["ablation"]), *pictures(found)]).rstrip() + "\n"
