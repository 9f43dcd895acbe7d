"""What the study behind SemSim found, in one table and a few sentences."""

from __future__ import annotations

from page_tables import table, value

HEADS = ["left out", "SemSim: tau", "best other: tau", "SemSim ahead of that", "ahead of lpips"]
CONDITIONS = ["recognised", "judges' kappa", "originals", "models"]
VOTES = "classifier"  # the paper's other way: how many of the teaching classifiers are right
SHARES = (0.25, 0.75)  # between which the share that is recognised should lie
READ = (
    "*Ahead*: by how much more of tau SemSim agrees with the judges, both on the same draws, with 95 % intervals over "
    "trainings; the originals stay the same, and where they are few the intervals are narrower than they should be. "
    "**Bold**: outside of what a ranking needs, 25 to 75 % recognised, or judges whose agreement may be chance."
)


def short(found: dict) -> list[str]:
    """The answer before the tables that it comes from."""
    tests = [test for test in found["tests"] if test["correlation"] is not None and test["correlation"]["ahead"]]
    if not tests:
        return []
    shares = {test["left_out"]: share_of(test, found["recognised"]) for test in tests}
    rows = [line(test, shares[test["left_out"]]) for test in tests]
    sound = [test for test in tests if ranks(test, shares[test["left_out"]])]
    left = [test["left_out"] for test in tests if test not in sound]
    said = sentences(sound) if sound else []
    if left:
        said.append(
            f"Not counted: {names(left)}, whose judges may agree by chance, or recognised too little or too much."
        )
    return ["## In short", "", " ".join(said), "", *table([*HEADS, *CONDITIONS], rows), "", READ, ""]


def ranks(test: dict, share: float | None) -> bool:
    """Whether what judges said ranks models at all: they agree beyond chance, and recognise neither little nor all."""
    own = test["correlation"]
    agreed = own.get("kappa") is None or above(own, "kappa")
    return agreed and own["resolved_pairs"] > 0 and (share is None or SHARES[0] <= share <= SHARES[1])


def line(test: dict, share: float | None) -> list[str]:
    """One test: under what conditions, and who agrees best."""
    own, best = test["correlation"], runner_up(test)
    kappa = value(own, "kappa") if own.get("kappa") is not None else "one judge"
    seen = "n/a" if share is None else f"{share:.0%}"
    lpips = own["ahead"].get("lpips")
    return [
        test["left_out"],
        value(own["metrics"]["semsim"], "tau"),
        f"{best}: {value(own['metrics'][best], 'tau')}",
        value(own["ahead"][best], "tau"),
        "n/a" if lpips is None else value(lpips, "tau"),
        seen if share is None or SHARES[0] <= share <= SHARES[1] else f"**{seen}**",
        f"**{kappa}**" if own.get("kappa") is not None and not above(own, "kappa") else kappa,
        str(test["tested_originals"]),
        str(own["models"]),
    ]


def runner_up(test: dict, without: str = "") -> str:
    """The metric that SemSim is least ahead of."""
    ahead = test["correlation"]["ahead"]
    return min((name for name in ahead if name != without), key=lambda name: ahead[name]["tau"])


def above(found: dict, name: str) -> bool:
    """Whether a figure lies above zero with all of its interval."""
    low = found.get(f"{name}_low")
    return low is not None and low > 0


def share_of(test: dict, recognised: list[dict]) -> float | None:
    """How much of what was tested a judge recognised."""
    for one in recognised:
        attack, dataset = one["attacks"][0].partition(":")[0], one["dataset"].partition(":")[0]
        if (attack, dataset) == ("invgrad", test["left_out"]) or attack == test["left_out"]:
            return float(one["share"])
    return None


def sentences(tests: list[dict]) -> list[str]:
    """How often SemSim agrees best, how often surely so, and where it tells nothing within a model."""
    ahead = {test["left_out"]: test["correlation"]["ahead"] for test in tests}
    first, surely = _led(tests)
    first_of_metrics, surely_of_metrics = _led(tests, without=VOTES)
    better = [name for name, others in ahead.items() if above(others.get("lpips", {}), "tau")]
    within = [test["left_out"] for test in tests if tells_less_than_items(test["correlation"])]
    return [
        f"SemSim has the largest tau in {len(first)} of {len(tests)} tests ({names(first)}); its lead over the best "
        f"other metric is beyond its interval in {names(surely)}, that over LPIPS in {names(better)}.",
        f"Without the {VOTES}, the votes of those who taught it, whose make is that of the judges, it is first in "
        f"{len(first_of_metrics)} ({names(first_of_metrics)}), and beyond its interval in {names(surely_of_metrics)}.",
        "Among reconstructions of one model it tells less than how hard each original is by itself in "
        f"{names(within)}: a baseline that looks at no picture.",
    ]


def _led(tests: list[dict], without: str = "") -> tuple[list[str], list[str]]:
    """In which tests SemSim agrees best, and where beyond the interval of its lead."""
    leads = {test["left_out"]: test["correlation"]["ahead"][runner_up(test, without)] for test in tests}
    return [name for name, lead in leads.items() if lead["tau"] > 0], [
        name for name, lead in leads.items() if above(lead, "tau")
    ]


def tells_less_than_items(found: dict) -> bool:
    """Whether, within a model, SemSim's area is below that of the originals' own difficulty."""
    own, base = found["metrics"]["semsim"].get("auc_within_model"), found["difficulty_auc_within_model"]
    return own is not None and base is not None and own < base


def names(found: list[str]) -> str:
    """Names in a row, or none."""
    return ", ".join(found) or "none"
