"""Metrics against people: every figure against scipy, scikit-learn or a slow loop; bad tables are refused."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from glasshouse.errors import DataError
from glasshouse.studies.correlation import correlate, correlation
from glasshouse.studies.people import recognition
from glasshouse.votes.judged import Judged, judged
from glasshouse.votes.table import read_votes

SIGN = {"psnr": 1, "lpips": -1, "other": 1}
REAL = "semsim_human/semsim_cifar100_human_labels.csv"


@pytest.fixture(scope="module")
def found(voted):
    return correlate(voted, metrics=("psnr", "lpips", "other"))


def images(path) -> list[dict]:
    """The images that have votes, read and judged without our code."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    kept = []
    for row in rows:
        votes = [int(row[name]) for name in row if name.startswith("annot") and row[name]]
        if votes:
            right = sum(vote == int(row["gt_fine"]) for vote in votes)
            kept.append({**row, "seen": right > len(votes) / 2, "original": row[next(n for n in row if "_index" in n)]})
    return kept


def per_model(rows: list[dict], name: str) -> list[float]:
    values = defaultdict(list)
    for row in rows:
        values[row["config"]].append(float(row[name]))
    return [np.mean(one) for one in values.values()]


def within(rows: list[dict], group: str, name: str) -> float:
    """Pairs of one group, one by one."""
    right = total = 0.0
    for i, j in itertools.permutations(rows, 2):
        if i[group] == j[group] and i["seen"] and not j["seen"]:
            gap = SIGN[name] * (float(i[name]) - float(j[name]))
            right, total = right + (1.0 if gap > 0 else 0.5 if gap == 0 else 0.0), total + 1
    return right / total


def test_coefficients_equal_scipy_on_the_majority(voted, found):
    rows = images(voted)
    shares = per_model(rows, "seen")
    assert list(found.recognition.shares) == pytest.approx(shares)
    for one in found.metrics:
        means = per_model(rows, one.name)
        assert one.means == pytest.approx(means)
        assert one.rho.mean == pytest.approx(stats.spearmanr(means, shares).statistic)
        assert one.tau.mean == pytest.approx(stats.kendalltau(means, shares).statistic)
        assert one.tau.low <= one.tau.mean <= one.tau.high
        assert one.p_tau == pytest.approx(stats.kendalltau(means, shares, method="exact").pvalue, abs=0.02)


def test_areas_equal_scikit_learn_and_slow_loops(voted, found):
    rows = images(voted)
    seen = [row["seen"] for row in rows]
    for one in found.metrics:
        scores = [SIGN[one.name] * float(row[one.name]) for row in rows]
        assert one.auc.mean == pytest.approx(roc_auc_score(seen, scores))
        assert one.auc_within_original.mean == pytest.approx(within(rows, "original", one.name))
        assert one.auc_within_model.mean == pytest.approx(within(rows, "config", one.name))


def test_meaning(found):
    psnr, lpips, other = found.metrics
    assert psnr.tau.mean > 0.5 > -0.5 > lpips.tau.mean
    assert lpips.auc_within_original.mean > 0.6
    assert (psnr.known, other.known, other.leaks_when) == (True, False, "high")
    assert psnr.resolved > 0.9
    assert found.images == 119
    assert found.without_votes == 1


def test_copies_of_one_training_say_no_more_than_the_training(voted):
    """Every model four times over, as checkpoints that are alike: the same intervals and p, not narrower ones."""
    table = read_votes(voted)
    people = judged(table, "mean")
    values = {"psnr": table.numbers("psnr")[people.rows]}
    count = len(people.models)
    copies = dataclasses.replace(
        people,
        rows=np.arange(4 * len(people.rows)),
        models=tuple(f"{name}, copy {copy}" for copy in range(4) for name in people.models),
        model=np.concatenate([people.model + copy * count for copy in range(4)]),
        original=np.tile(people.original, 4),
        hits=np.tile(people.hits, (4, 1)),
        chances=np.tile(people.chances, 4),
        runs=np.tile(np.arange(count), 4),
    )
    known = {"source": "votes", "judge": "mean", "images": len(people.rows)}
    (once,) = correlation(people, values, **known).metrics
    (often,) = correlation(copies, {"psnr": np.tile(values["psnr"], 4)}, **known).metrics
    ends = [(one.rho.low, one.rho.high, one.p_rho, one.p_tau) for one in (once, often)]
    assert ends[0] == pytest.approx(ends[1])


def test_one_value_for_each_model_tells_nothing_within_models(voted):
    people = judged(read_votes(voted), "majority")
    third = np.full(len(people.model), 1 / 3) * (1 + people.model)  # means of equal values may differ by rounding
    (of_sets,) = correlation(people, {"fid": third}, source="sets", judge="majority", images=len(third)).metrics
    assert of_sets.auc_within_model is None
    assert of_sets.auc_within_original is not None


def test_differences_are_paired(found):
    first = found.differences[1]
    assert (first.first, first.second) == ("psnr", "other")
    psnr, _, other = found.metrics
    assert first.tau.mean == pytest.approx(psnr.tau.mean - other.tau.mean)
    same = found.differences[0]  # psnr and lpips go by the same picture, one turned round
    assert same.tau.mean == pytest.approx(abs(psnr.tau.mean) - abs(found.metrics[1].tau.mean))
    assert same.tau.high - same.tau.low < first.tau.high - first.tau.low


def test_resolved_pairs_equal_a_slow_bootstrap(voted, found):
    rows = images(voted)
    table = defaultdict(dict)
    for row in rows:
        table[row["config"]][row["original"]] = row["seen"]
    originals = sorted({row["original"] for row in rows})
    random = np.random.default_rng(3)
    draws = [random.choice(originals, len(originals)) for _ in range(500)]
    sure = doubtful = 0
    for i, j in itertools.combinations(range(6), 2):
        one, two = (table[found.recognition.models[k]] for k in (i, j))
        gaps = [np.mean([one[o] for o in d if o in one]) - np.mean([two[o] for o in d if o in two]) for d in draws]
        low, high = np.percentile(gaps, (2.5, 97.5))
        if abs(low) > 0.04 and abs(high) > 0.04:  # not on the edge
            assert found.recognition.resolved[i, j] == (low > 0 or high < 0)
            sure, doubtful = sure + (low > 0 or high < 0), doubtful + (low <= 0 <= high)
    assert sure
    assert doubtful
    resolved, pairs = found.recognition.pairs
    assert (resolved, pairs) == (np.triu(found.recognition.resolved, 1).sum(), 15)


def test_a_few_originals_that_agree_resolve_nothing():
    def told_apart(differing: int, originals: int) -> bool:
        original, model = (one.ravel() for one in np.indices((originals, 2)))
        chances = ((original < differing) & (model == 0)).astype(float)
        hits = chances[:, None].astype(int)
        return bool(
            recognition(Judged(np.arange(len(model)), ("a", "b"), model, original, hits, chances)).resolved[0, 1]
        )

    assert [told_apart(differing, 10) for differing in (2, 5, 8)] == [False, False, True]
    assert [told_apart(differing, 40) for differing in (2, 5, 8)] == [False, False, True]
    assert not told_apart(2, 2)


def test_the_human_ceiling_and_item_difficulty_equal_slow_loops(voted, found):
    rows = images(voted)
    names = [f"annot{number}" for number in range(1, 5)]
    taus = []
    for some in itertools.combinations(names, 2):
        sides = []
        for side in (some, [name for name in names if name not in some]):
            votes = defaultdict(list)
            for row in rows:
                votes[row["config"]] += [row[name] == row["gt_fine"] for name in side if row[name]]
            sides.append([np.mean(one) for one in votes.values()])
        taus.append(stats.kendalltau(*sides).statistic)
    assert found.ceiling.tau == pytest.approx(np.mean(taus))
    assert found.ceiling.splits == 6
    scores = [
        np.mean([two["seen"] for two in rows if two["original"] == one["original"] and two is not one]) for one in rows
    ]
    assert found.difficulty.auc.mean == pytest.approx(roc_auc_score([row["seen"] for row in rows], scores))
    assert found.ceiling.auc > 0.7
    assert 0.5 < found.ceiling.auc_within_original < 1


def test_json_is_complete_and_plain(found):
    written = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert {"metrics", "recognised", "kappa", "ceiling", "differences", "between_metrics"} <= set(written)
    wanted = "rho rho_low rho_high tau tau_low tau_high p auc auc_within_original auc_within_model resolved_accuracy"
    assert set(wanted.split()) <= set(written["metrics"]["psnr"])
    assert written["recognised"]["model 5"] > written["recognised"]["model 0"]
    assert 0 < written["kappa_low"] < written["kappa"] < written["kappa_high"] < 1
    assert written["between_metrics"]["psnr"]["lpips"]["tau"] == written["between_metrics"]["lpips"]["psnr"]["tau"] < 0
    assert written["between_metrics"]["psnr"]["psnr"] == pytest.approx({"rho": 1, "tau": 1})


@pytest.mark.parametrize("judge", ["mean", "dawid-skene"])
def test_other_judges_say_much_the_same(voted, found, judge):
    other = correlate(voted, metrics=("psnr", "other"), judge=judge)
    assert list(other.recognition.shares) != list(found.recognition.shares)
    assert list(other.recognition.shares) == pytest.approx(list(found.recognition.shares), abs=0.25)
    assert other.metrics[0].tau.mean > 0.5
    assert other.metrics[0].auc.mean == pytest.approx(found.metrics[0].auc.mean, abs=0.1)


def test_without_names_of_originals_or_a_second_annotator_less_is_said(tmp_path):
    path = tmp_path / "votes.csv"
    rows = [f"{model},1,{seen},{model + seen}" for model in range(3) for seen in (0, 1, model // 2)]
    path.write_text("\n".join(["config,gt_fine,annot1,psnr", *rows]))
    written = correlate(path).to_json()
    for name in ("kappa", "ceiling", "ceiling_auc", "difficulty_auc"):
        assert written[name] is None
    assert written["metrics"]["psnr"]["auc_within_original"] is None
    assert written["metrics"]["psnr"]["auc"] > 0.5


HEADER = "config,set_index,gt_fine,annot1,annot2,psnr"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["a,1,1,1,1,3", "a,2,1,0,1,4"], "votes on 1 model:"),
        (["a,1,1,1,1,3", "b,1,1,0,1,4"], "votes on 2 models:"),
        (["a,1,1,1,1,3", "b,1,1,0,1,3", "c,1,1,0,1,3"], "is 3 for every model"),
        (["a,1,1,1,1,0.1", "a,2,1,1,1,0.1", "a,3,1,1,1,0.1", "b,1,1,0,1,0.1", "c,1,1,0,1,0.1"], "is 0.1 for every"),
        (["a,1,1,1,1,3", "b,1,1,1,1,2", "c,1,1,1,1,4"], "recognised equally often"),
        (["a,1,1,1,1,1", "b,1,1,0,1,0.5", "c,1,1,0,0,0"], "the share of votes itself"),
        (["a,1,1,1,1,nan", "b,1,1,0,1,3", "c,1,1,0,0,3"], "row 1: psnr is 'nan'"),
        (["a,1,1,1,1,1", "b,1,1,0,1,x", "c,1,1,0,0,3"], "row 2: psnr is 'x'"),
    ],
)
def test_tables_that_cannot_rank_are_refused(tmp_path, rows, said):
    path = tmp_path / "votes.csv"
    path.write_text("\n".join([HEADER, *rows]))
    with pytest.raises(DataError, match=said):
        correlate(path)


def test_the_public_votes(real_data):
    """The signed coefficients on the public file are scipy's; the areas are those measured before this was written."""
    path = real_data / REAL
    if not path.is_file():
        pytest.skip(f"the public votes are not here: {REAL}")
    result = correlate(path)
    rows = images(path)
    shares = per_model(rows, "seen")
    for one in result.metrics:
        means = per_model(rows, one.name)
        assert one.rho.mean == pytest.approx(stats.spearmanr(means, shares).statistic)
        assert one.tau.mean == pytest.approx(stats.kendalltau(means, shares).statistic)
    areas = {one.name: round(one.auc_within_original.mean, 3) for one in result.metrics}
    expected = {"lpips": 0.781, "dreamsim": 0.777, "semsim": 0.762, "psnr": 0.744, "mse": 0.744, "ssim": 0.593}
    assert areas == expected
    assert result.difficulty.auc.mean == pytest.approx(0.733, abs=0.001)
    assert result.ceiling.tau == pytest.approx(0.67, abs=0.01)
