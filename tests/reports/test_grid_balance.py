"""The balance of a defense joins accuracy, leaks and costs, takes the stronger attacker, and says what is missing."""

from __future__ import annotations

import re

import pytest

from glasshouse.reports.grid_advice import advice
from glasshouse.reports.grid_balance import HEADS, balances, judged, strongest, table, unfit_at
from glasshouse.reports.grid_figures import draw_matrix, draw_pareto, matrix, matrix_png, pareto, pareto_png, tradeoff


def value(mean):
    return {"mean": mean, "low": mean - 0.1, "high": mean + 0.1, "images": 8}


def network(recipe):
    return {"dataset": "d", "model": "m", "recipe": recipe, "training_seed": 0, "epoch": 3}


def setup(recipe, defense):
    told = {"told": value(0.9)}  # of "identified" alone
    threat = {"batchnorm": "none", "tuning": "tuned"}
    return {**network(recipe), "defense": defense, "attack": "a", "threat": threat, **told}


def target(recipe, state="done"):
    return {"dataset": "d", "model": "m", "recipe": recipe, "seed": 0, "checkpoints": [0, 3]} | {
        "state": state,
        "accuracy": {"0": 0.1, "3": 0.5},
    }


def query(auc, accuracy, tpr):
    return {"auc": value(auc), "test_accuracy": value(accuracy), "tpr_at_fpr_0.01": None if tpr is None else value(tpr)}


@pytest.fixture
def results():
    done = {"state": "done", "reason": None}
    shares = {"re-identified: moments": value(0.9), "re-identified: linker": value(0.4), "F linked: linker": value(0.7)}
    return {
        "settings": {
            "paired": True,
            "recipes": ["none", "csvar", "prune,at=training"],
            "defenses": ["none", "csvar", "prune"],
            "metrics": ["psnr", "semsim"],
        },
        "targets": [target("none"), target("csvar"), target("prune,at=training", "pending")],
        "rows": [
            {**setup("none", "none"), "metric": "psnr", **value(20.0)},
            {**setup("none", "none"), "metric": "semsim", **value(0.4)},
        ],
        "identified": [{**setup("none", "none"), **value(0.75)}],
        "spent": [{**setup("none", "none"), "message_bytes": value(4000.0), "seconds": value(1.5)}],
        "probes": [
            {"kind": "membership", **network("none"), **done, "queries": {"clean": query(0.6, 0.5, 0.03)}},
            {"kind": "membership", **network("csvar"), **done}
            | {"queries": {"clean": query(0.52, 0.2, None), "protected": query(0.58, 0.4, None)}},
            {"kind": "linkage", "dataset": "d", "defense": "csvar", **done, "shares": shares},
            {"kind": "cost", "dataset": "d", "model": "m", "recipe": "csvar", **done, "ratio": value(1.3)},
        ],
    }


def test_values_of_one_network_and_defense_come_together(results):
    bare, hidden = balances(results)
    assert (bare.defense, hidden.defense) == ("none", "csvar")  # what is not trained has no balance
    assert bare.metrics["semsim"]["mean"] == 0.4
    assert (bare.seen["mean"], bare.message_bytes["mean"], bare.seconds["mean"]) == (0.75, 4000.0, 1.5)
    assert hidden.step["mean"] == 1.3


def test_the_stronger_way_to_ask_and_the_best_method_count(results):
    _, hidden = balances(results)
    assert (hidden.auc["mean"], hidden.accuracy["mean"], hidden.asked) == (0.58, 0.4, "protected")
    assert (hidden.identified["mean"], hidden.linked["mean"]) == (0.9, 0.7)


def test_what_is_missing_has_its_own_word(results):
    bare, hidden = (dict(zip((*HEADS, "psnr", "semsim"), one.cells(), strict=True)) for one in balances(results))
    assert bare["re-identified"] == bare["versions linked"] == "n/a"  # there is nothing to link
    assert bare["TPR at 1 % FPR"].startswith("3%")
    assert hidden["TPR at 1 % FPR"] == "not estimable"
    assert hidden["seen"] == hidden["semsim"] == hidden["bytes of a message"] == "not yet"
    assert hidden["accuracy"] == "40% [30%, 50%] (protected)"
    assert bare["training step"] == "not yet"


def test_a_study_without_probes_still_has_its_accuracy(results):
    found = balances({**results, "probes": []})
    assert [one.cells()[0] for one in found] == ["50%", "50%"]
    assert found[0].cells()[2] == "not yet"


def test_heads_and_rows_fit(results):
    heads, rows = table(balances(results))
    assert heads == ["defense", "attack", *HEADS, "psnr", "semsim"]
    assert {len(row) for row in rows} == {len(heads)}


def test_a_panel_for_reconstruction_and_one_for_membership_for_each_data_set(results):
    figure = draw_pareto(balances(results))
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "SemSim of the reconstruction (lower leaks more)",
        "membership: AUC (0.5 is guessing)",
    ]
    assert pareto(balances(results)).startswith("<svg")
    assert pareto_png(balances(results)).startswith(b"\x89PNG")
    assert draw_pareto([]) is None


@pytest.fixture
def attacked_twice(results):
    weak = {**setup("none", "none"), "attack": "weak"}
    results["rows"].append({**weak, "metric": "semsim", **value(1.0)})
    results["identified"].append({**weak, **value(0.0)})
    for one in results["identified"]:
        one["accuracy"] = 0.5
    return results


def test_every_attack_on_every_defense_has_its_cell(attacked_twice):
    found = balances(attacked_twice)
    (panel,) = draw_matrix(found).axes
    assert [(one.get_position(), one.get_text()) for one in panel.texts] == [((0, 0), "75%"), ((1, 0), "0%")]
    assert [one.get_text() for one in panel.get_xticklabels()] == ["a\nm", "weak\nm"]
    assert [one.get_text() for one in panel.get_yticklabels()] == ["none", "csvar"]  # not attacked yet: empty
    assert matrix(found).startswith("<svg")
    assert matrix_png(found).startswith(b"\x89PNG")


def test_a_network_that_met_one_attack_of_several_alone_is_told(attacked_twice):
    lone = {**setup("none", "none"), "model": "other", **value(0.0), "accuracy": 0.5}
    first, second = advice({**attacked_twice, "identified": [*attacked_twice["identified"], lone]})
    assert "Only" not in " ".join(first.sentences)
    assert "Only a was tried here: another attack may see what it did not." in second.sentences


def test_one_attack_alone_makes_no_table(results):
    assert matrix(balances(results)) == ""
    assert matrix_png(balances(results)) == b""


def test_a_defense_stands_where_the_strongest_attack_puts_it(attacked_twice):
    found = balances(attacked_twice)
    assert [(one.defense, one.attack) for one in found] == [("none", "a"), ("none", "weak"), ("csvar", "")]
    assert [(one.defense, one.attack) for one in strongest(found)] == [("none", "a"), ("csvar", "")]
    reconstruction = draw_pareto(found).axes[0]
    drawn = [y for line in reconstruction.get_lines() for y in line.get_ydata()]
    assert 0.4 in drawn
    assert 1.0 not in drawn


def test_a_weak_attack_earns_no_place_on_the_front(attacked_twice):
    strong = {**attacked_twice, "identified": attacked_twice["identified"][:1]}
    assert _without_ids(tradeoff(attacked_twice)) == _without_ids(tradeoff(strong))


def _without_ids(picture):
    return re.sub(r"[0-9a-f]{8,}|m[0-9a-f]+|p[0-9a-f]{6,}", "", re.sub(r"<dc:date>.*?</dc:date>", "", picture))


def test_an_attack_that_failed_earns_no_credit(attacked_twice):
    weak = {**setup("csvar", "csvar"), "attack": "weak"}
    failed = {**setup("csvar", "csvar"), "mean": None, "low": None, "high": None, "images": 0, "reason": "too hard"}
    attacked_twice["rows"] += [{**weak, "metric": "semsim", **value(1.0)}, {**failed, "metric": "semsim"}]
    attacked_twice["identified"].append({**weak, **value(0.0), "accuracy": 0.4})
    _, hidden = strongest(balances(attacked_twice))
    assert (hidden.seen, hidden.metrics["semsim"]) == (None, None)
    assert [setup[-1] for setup in judged(attacked_twice)] == ["none"]
    (part,) = advice(attacked_twice)
    assert [one for one in part.sentences if "csvar" in one] == [
        "Not judged, because no attack fits, or one failed or is still to come: csvar."
    ]


def test_what_is_linked_or_told_to_be_a_member_behind_a_credited_defense_is_said(results):
    results["rows"].append({**setup("csvar", "csvar"), "metric": "semsim", **value(1.0)})
    results["identified"].append({**setup("csvar", "csvar"), **value(0.0)})
    for one in results["identified"]:
        one.update(accuracy=0.5, threat={"batchnorm": "none", "tuning": "tuned"})
    for row in results["rows"]:
        row["threat"] = {"batchnorm": "none", "tuning": "tuned"}
    results["probes"][1]["queries"]["protected"]["auc"] = value(0.7)
    text = " ".join(advice(results)[0].sentences)
    assert "csvar leaves most accuracy" in text
    assert "protected images themselves are found in a gallery of originals behind csvar (90%)." in text
    assert "can be told from others by the loss behind csvar (AUC 0.70)." in text


def test_an_attack_that_failed_on_some_images_earns_no_credit_either(attacked_twice):
    for name, images in (("a", 7), ("weak", 8)):
        one = {**setup("csvar", "csvar"), "attack": name}
        attacked_twice["rows"].append({**one, "metric": "semsim", **value(1.0), "images": images})
        attacked_twice["identified"].append({**one, **value(0.0), "images": images, "accuracy": 0.4})
    assert strongest(balances(attacked_twice))[1].seen is None
    attacked_twice["identified"][-2]["images"] = 8
    assert strongest(balances(attacked_twice))[1].seen["mean"] == 0


def test_each_metric_takes_the_attack_that_does_best_by_it(attacked_twice):
    attacked_twice["rows"].append({**setup("none", "none"), "attack": "weak", "metric": "psnr", **value(30.0)})
    bare, _ = strongest(balances(attacked_twice))
    assert (bare.attack, bare.metrics["psnr"]["mean"], bare.metrics["semsim"]["mean"]) == ("a", 30.0, 0.4)


def test_advice_counts_the_accuracy_that_the_table_shows(results):
    """Asked about images protected as it learned from them, a network is right twice as often as about clean ones."""
    of = {"mean": 0.0, "low": 0.0, "high": 0.1, "images": 8, "accuracy": 0.2}
    bare = {"mean": 0.75, "low": 0.6, "high": 0.9, "images": 8, "accuracy": 0.5}
    results["identified"] = [{**setup("none", "none"), **bare}, {**setup("csvar", "csvar"), **of}]
    (told,) = advice(results)
    assert "csvar leaves most accuracy (40%)" in told.sentences[1]


def unfit(recipe, defense, attack):
    return {"dataset": "d", "model": "m", "recipe": recipe, "defense": defense, "attack": attack, "reason": "no"}


def saw(recipe, defense, attack, share, epoch=3):
    about = {**setup(recipe, defense), "attack": attack, "epoch": epoch, "accuracy": 0.5}
    return {**about, "mean": share, "low": max(share - 0.05, 0.0), "high": min(share + 0.05, 1.0), "images": 8}


def attacked(paired, seen, left_out=(), **settings):
    """A study of two defenses, the second of which takes away what the attack "sharp" uses."""
    both = ["none", "dp"]
    known = {"paired": paired, "recipes": both, "defenses": both, "metrics": ["psnr"], **settings}
    return {"settings": known, "targets": [], "rows": [], "identified": seen, "unfit": list(left_out)}


def test_an_attack_that_does_not_fit_one_network_takes_no_other_out():
    seen = [saw("none", "none", "sharp", 0.9), saw("none", "none", "blunt", 0.0), saw("dp", "none", "blunt", 0.0)]
    found = attacked(False, seen, [unfit("dp", "none", "sharp")])
    assert [(setup[2], setup[-1]) for setup in judged(found)] == [("none", "none"), ("dp", "none")]
    (told,) = advice(found)
    assert told.sentences[0].startswith("Do not share undefended: 90%")


@pytest.mark.parametrize(("paired", "recipe"), [(True, "dp"), (False, "none")])
def test_fresh_networks_are_judged_by_the_attacks_that_fit_them(paired, recipe):
    seen = [
        saw("none", "none", "sharp", 0.9, 0),
        saw("none", "none", "blunt", 0.8, 0),
        saw(recipe, "dp", "blunt", 0.1, 0),
    ]
    found = attacked(paired, seen, [unfit(recipe, "dp", "sharp")])
    assert [setup[-1] for setup in judged(found)] == ["none", "dp"]


def test_a_fresh_network_stands_for_the_first_recipe_that_is_trained():
    seen = [saw("dp", "none", "blunt", 0.8, 0), saw("dp", "dp", "blunt", 0.1, 0)]
    found = attacked(False, seen, [unfit("dp", "dp", "sharp")], without=["m | none"])
    assert unfit_at(found, seen[1], "dp") == ["sharp"]


def test_a_defense_is_not_credited_where_the_attack_that_sees_does_not_fit():
    seen = [saw("none", "none", "sharp", 0.9), saw("none", "none", "blunt", 0.0), saw("dp", "dp", "blunt", 0.0)]
    (told,) = advice(attacked(True, seen, [unfit("dp", "dp", "sharp")]))
    assert told.sentences[1:] == (
        "Nothing can be said of these, behind which no attack fits that sees undefended: dp.",
    )
    seen[1].update(mean=0.5, low=0.4, high=0.6)  # what it sees undefended is hidden: that much can be credited
    (told,) = advice(attacked(True, seen, [unfit("dp", "dp", "sharp")]))
    assert "hid more than chance explains (dp)" in told.sentences[1]


def test_a_defense_behind_which_no_attack_fits_is_named():
    (told,) = advice(attacked(True, [saw("none", "none", "sharp", 0.9)], [unfit("dp", "dp", "sharp")]))
    assert told.sentences[-1] == "Not judged, because no attack fits, or one failed or is still to come: dp."


def test_columns_of_another_adversary_are_marked(attacked_twice):
    for one in (*attacked_twice["rows"], *attacked_twice["identified"]):
        if one["attack"] == "weak":
            one["threat"] = {**one["threat"], "adversary": "malicious server"}
    (panel,) = draw_matrix(balances(attacked_twice)).axes
    assert [one.get_text() for one in panel.get_xticklabels()] == ["a\nm", "weak*\nm"]
    assert panel.get_xlabel() == "* weak: malicious server"
