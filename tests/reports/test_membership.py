"""The page of a membership audit: alone, complete, escaped, and the worst attack counts."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from glasshouse.functional.roc import measure, roc
from glasshouse.reports.membership import cells, curves, missing, number, verdict, worst, write_membership_report
from glasshouse.studies.membership import MembershipResult
from glasshouse.studies.trained import Row, Target
from glasshouse.types import Interval

HOSTILE = "<script>alert('1')</script>"
FACTS = {
    "dataset": "digits",
    "model": "lenet",
    "seed": 0,
    "terms": "CC BY 4.0",
    "shape": [1, 8, 8],
    "classes": 10,
    "members": 200,
    "others": 200,
    "public": 300,
    "trained_on": 200,
    "shadows": 8,
    "shadow_size": 200,
    "target": "trained here",
    "training": {"epochs": 5, "lr": 0.1, "batch": 32, "augment": False},
}


def row(attack: str, defense: str, query: str, shift: float) -> Row:
    random = np.random.default_rng(0)
    scores = random.normal(shift, 1, 200), random.normal(0, 1, 200)
    return Row(defense, query, attack, f"{attack}:all=1", measure(*scores), roc(*scores))


def target(defense: str, query: str, promise: str = "") -> Target:
    return Target(defense, defense, promise, query, Interval(0.9, 0.8, 1.0, 200), Interval(0.7, 0.6, 0.8, 200))


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> MembershipResult:
    rows = (
        row("loss", "none", "clean", 0.3),
        row("lira", "none", "clean", 1.5),
        row("lira", "csvar", "clean", 0.0),
        row("lira", "csvar", "protected", 0.8),
        row("lira", "dp_sgd", "clean", 0.0),
    )
    targets = (
        target("none", "clean"),
        target("csvar", "clean"),
        target("csvar", "protected"),
        target("dp_sgd", "clean", "(epsilon, delta) = (8, 1e-05)"),
    )
    return MembershipResult(tmp_path_factory.mktemp("page"), FACTS, targets, rows, 0)


class Reader(HTMLParser):
    """Collects text and tags, and checks that every tag is closed."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not {"src"} & {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(path: Path) -> tuple[Reader, str]:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert reader.open == []
    return reader, " ".join(" ".join(reader.words).split())


def test_it_stands_alone_and_says_what_counts(result):
    path = write_membership_report(result)
    assert path == result.directory / "report" / "index.html"
    reader, text = read(path)
    assert "svg" in reader.tags
    for part in (
        "lenet on digits (1x8x8, 10 classes), trained here on 200 images: 5 epochs, learning rate 0.1",
        "8 shadow models per defense, trained on 200 images each",
        "Without a defense: AUC 0.8",
        "Behind csvar: AUC 0.7",
        "by lira, asked with protected images",
        "Promised by dp_sgd: (epsilon, delta) = (8, 1e-05)",
        "TPR at 0.1 % FPR is not estimable with 200 non-members, 1000 are needed.",
        "Balanced accuracy is at the threshold that is best in hindsight",
        "under keys that the attacker draws",
        "csvar, asked with protected images",
        "lira:all=1",
    ):
        assert part in text, part
    assert "are left to train" not in text


def test_the_worst_attack_and_query_count(result):
    assert [(one.defense, one.attack, one.query) for one in worst(result)] == [
        ("none", "lira", "clean"),
        ("csvar", "lira", "protected"),
        ("dp_sgd", "lira", "clean"),
    ]
    assert "cannot be told from a coin" in verdict(result.rows[4])
    assert "cannot be told from a coin" not in verdict(result.rows[1])
    assert "of members are found at 1 % false alarms" in verdict(result.rows[1])
    few = dataclasses.replace(result.rows[0], values={**result.rows[0].values, "tpr_at_fpr_0.01": None})
    assert "false alarms" not in verdict(few)


def test_cells_follow_the_columns(result):
    found = cells(result.rows[0], result)
    assert found[2] == "not estimable"
    assert found[4:] == ["0.900 [0.800, 1.000]", "0.700 [0.600, 0.800]"]
    assert cells(result.rows[0], result, intervals=False)[2:3] == ["n/a"]
    assert number(Interval(0.5, 0.4, 0.6, 3), intervals=False) == "0.500"
    assert missing(result) == ["TPR at 0.1 % FPR is not estimable with 200 non-members, 1000 are needed."]


def test_names_are_escaped_and_no_dollar_is_mathematics(result):
    hostile = dataclasses.replace(result.rows[0], attack=f"{HOSTILE} $x^$", query=HOSTILE, defense=HOSTILE)
    facts = {**FACTS, "dataset": HOSTILE, "model": HOSTILE, "terms": HOSTILE}
    one = MembershipResult(result.directory, facts, (target(HOSTILE, HOSTILE, HOSTILE),), (hostile,), 2)
    path = write_membership_report(one)
    _, text = read(path)
    assert HOSTILE not in path.read_text(encoding="utf-8")
    assert HOSTILE in text
    assert "2 models are left to train" in text


def test_nothing_finished_is_a_page_without_curves(result):
    assert curves(()) == ""
    _, text = read(write_membership_report(dataclasses.replace(result, rows=(), targets=(), pending=9)))
    assert "9 models are left to train" in text
