"""Votes given elsewhere: each format is known by its look, read in full, and hostile files are refused."""

from __future__ import annotations

import csv
import json
import math
import os
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.small_study import write_picture

from glasshouse.data.images import read_image
from glasshouse.errors import DataError, GlasshouseError
from glasshouse.store import DATABASE_FILE, Rules, Vote, Votes
from glasshouse.store.ballots import IDENTITY
from glasshouse.votes.bundle import load
from glasshouse.votes.exporters import export
from glasshouse.votes.importers import IMPORTERS, own_csv, read_bundle
from glasshouse.votes.items import Questions, prepare
from glasshouse.votes.judgement import judge
from glasshouse.votes.lines import lines

HUMAN = """config,cifar100_test_index,gt_fine,gt_name,annot1,annot2,annot3,frac_recognized,mse
model a,7,1,cat,1,1,-1,0.67,10
model a,9,2,dog,-1,3,,0.0,20
model b,7,1,cat,-1,-1,-1,0.0,30
"""


def things(values):
    """Lists, and objects with the names that Label Studio uses."""
    names = st.sampled_from(["result", "value", "choices", "completed_by", "lead_time", "created_at", "email"])
    return st.lists(values, max_size=2) | st.dictionaries(names, values, max_size=3)


@pytest.fixture
def target(tmp_path):
    """The directory that votes are imported into, and its votes."""
    directory = tmp_path / "imported"
    directory.mkdir()
    votes = Votes(directory / DATABASE_FILE)
    yield directory, votes
    votes.close()


def take_in(path, target):
    directory, votes = target
    load(read_bundle(path, directory), votes)
    return votes


def test_the_human_csv_becomes_items_without_pictures(tmp_path, target):
    (tmp_path / "votes.csv").write_text(HUMAN)
    votes = take_in(tmp_path / "votes.csv", target)
    items = {(item.condition, item.truth): item for item in votes.items()}
    assert items["model a", "cat"].original == items["model b", "cat"].original != items["model a", "dog"].original
    assert items["model a", "dog"].answers == ("3", "dog")  # class 3 is nobody's truth, so it has no name
    assert all(item.image is None for item in items.values())
    given = Counter((vote.item, vote.answer) for vote in votes.votes())
    assert given[items["model a", "cat"].id, "cat"] == 2
    assert given[items["model a", "cat"].id, None] == 1
    assert sum(count for (item, _), count in given.items() if item == items["model a", "dog"].id) == 2
    judged = judge(votes.items(), votes.votes())
    assert judged[items["model a", "cat"].id].recognised
    assert not judged[items["model b", "cat"].id].recognised


def test_the_real_human_votes_say_what_the_file_says(real_data, target):
    import csv

    path = real_data / "semsim_human" / "semsim_cifar100_human_labels.csv"
    if not path.is_file():
        pytest.skip("the human votes are not here")
    votes = take_in(path, target)
    assert len(votes.items()) == 8400
    assert len(votes.votes()) == 42000
    judged = judge(votes.items(), votes.votes())
    found = Counter((one.item.condition, round(one.matching / one.votes, 3)) for one in judged.values())
    with path.open() as file:  # the file's own share of right votes, counted by others
        said = Counter((row["config"], round(float(row["frac_recognized"]), 3)) for row in csv.DictReader(file))
    assert found == said


def test_importing_again_changes_nothing(tmp_path, target):
    (tmp_path / "votes.csv").write_text(HUMAN)
    votes = take_in(tmp_path / "votes.csv", target)
    before = votes.items(), votes.votes(), votes.annotators()
    take_in(tmp_path / "votes.csv", target)
    assert (votes.items(), votes.votes(), votes.annotators()) == before


def test_more_rows_of_one_file_know_their_originals(tmp_path, target):
    head, first = HUMAN.splitlines()[:2]
    (tmp_path / "votes.csv").write_text(f"{head}\n{first}\n")
    take_in(tmp_path / "votes.csv", target)
    (tmp_path / "votes.csv").write_text(HUMAN)
    votes = take_in(tmp_path / "votes.csv", target)
    assert len(votes.items()) == 3
    assert len({item.original for item in votes.items()}) == 2


def test_what_was_exported_comes_back(study, votes, target):
    votes.set_rules(Rules(votes_per_item=2))
    prepare(study, votes, Questions())
    people = [votes.invite(name).id for name in ("Ada", "Bob, junior")]
    judge_id = votes.invite("probe", kind="classifier").id
    for number, person in enumerate(people):
        for item in votes.claim(person, 0, 4):
            votes.vote(Vote(item.id, person, None, item.answers[number], "guess", 0.25, when=1.5))
    votes.record([Vote(votes.items()[0].id, judge_id, "cat", when=2.0, grade=0.375)])
    export(lines(votes, None), study / "votes.csv")
    copied = take_in(study / "votes.csv", target)
    names = {one.id: (one.name, one.kind) for store in (votes, copied) for one in store.annotators()}

    def told(store):
        return {
            (vote.item, names[vote.annotator], vote.choice, vote.seconds, vote.when, vote.grade)
            for vote in store.votes(None)
        }

    assert told(copied) == told(votes)
    for ours, theirs in zip(votes.items(), copied.items(), strict=True):
        assert replace(ours, image=theirs.image) == theirs
        assert (read_image(study / ours.image) == read_image(target[0] / theirs.image)).all()
    assert {item.image for item in votes.items()}.isdisjoint(item.image for item in copied.items())


def test_the_folder_of_the_authors(tmp_path, target):
    home = tmp_path / "human_anno_id" / "train_with_ori"
    for seed, name in enumerate(
        ("3/3_17_ori.png", "3/3_17_rec_0_1.png", "3/3_17_rec_1_4.png", "-3/3_17_rec_3_9.png", "others/spare.png")
    ):
        write_picture(home / name, seed)
    votes = take_in(tmp_path / "human_anno_id", target)
    judged = {one.item.condition: one for one in judge(votes.items(), votes.votes()).values()}
    assert {name: (one.matching, one.recognised) for name, one in judged.items()} == {
        "model 1": (3, True),
        "model 4": (2, True),
        "model 9": (0, False),
    }
    assert Counter(item.role for item in votes.items()) == {"original": 1, "reconstruction": 3}
    assert all((target[0] / item.image).is_file() for item in votes.items())
    assert len({item.original for item in votes.items()}) == 1


def studio_task(image, choice, **more):
    result = [{"type": "choices", "value": {"choices": [choice]}}]
    annotation = {"completed_by": {"email": "a@b.c"}, "result": result, "lead_time": 2.5}
    return {
        "data": {"image": image, "model": "resnet", **more},
        "annotations": [{**annotation, "created_at": "2024-02-29T12:00:00Z"}, {"was_cancelled": True, "result": []}],
    }


def test_label_studio(tmp_path, target):
    write_picture(tmp_path / "a.png", 0)
    tasks = [
        studio_task("a.png", "cat", original="7", truth="cat"),
        studio_task("https://example.org/b.png", "None of these", original="7", truth="cat", condition="pruned"),
        studio_task("../../etc/passwd", "same", original="9", truth="different"),
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    votes = take_in(tmp_path / "export.json", target)
    items = {item.condition + item.task: item for item in votes.items()}
    first, second = items["resnetclassification"], items["prunedclassification"]
    assert first.original == second.original
    assert (target[0] / first.image).is_file()
    assert second.image is None
    assert items["resnetpair"].role == "decoy"
    given = {vote.item: vote for vote in votes.votes()}
    assert (given[first.id].answer, given[first.id].seconds) == ("cat", 2.5)
    assert given[first.id].when == 1709208000.0
    assert given[second.id].answer is None


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("votes.csv", "a,b\n1,2\n", "looks like no votes"),
        ("votes.bin", "\x00\x01", "looks like no votes"),
        ("votes.json", "{}", "looks like no votes"),
        ("votes.json", "[1, ", "not JSON"),
        ("votes.csv", HUMAN.replace("1,1,-1", "1,x,-1"), "annot2 is 'x'"),
        ("pairs.json", json.dumps([{"data": {}, "annotations": [{"result": []}]}]), "not one choice"),
    ],
)
def test_what_is_no_file_of_votes_is_refused(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=says):
        read_bundle(tmp_path / name, tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("human", "robot", "kind is 'robot'"),
        ("reconstruction", "guess", "role is 'guess'"),
        ("classification", "seeing", "Unknown task 'seeing'"),
        ('"[""bird"", ""cat"", ""dog""]"', '"""cat"""', "answers are"),
        (",certain,", ",sure,", "confidence is 'sure'"),
        (",0.5,", ",nan,", "no time|finite number"),
        (",dog,,", ",horse,,", "not among the answers"),
        (",1.0,", ",yesterday,", "when is 'yesterday': give a finite number"),
        (",0.5,", ",fast,", "seconds is 'fast': give a finite number"),
        (",0,images", ",first,images", "place is 'first': give a whole number"),
    ],
)
def test_a_damaged_table_of_ours_is_refused_with_its_row(study, votes, before, after, says):
    prepare(study, votes, Questions())
    ada = votes.invite("Ada").id
    (item,) = votes.claim(ada, 0)
    votes.vote(Vote(item.id, ada, "dog", None, "certain", 0.5, when=1.0))
    export(lines(votes), study / "votes.csv")
    text = (study / "votes.csv").read_text()
    assert before in text
    (study / "votes.csv").write_text(text.replace(before, after))
    with pytest.raises(DataError, match=says) as caught:
        read_bundle(study / "votes.csv", study)
    assert "row" in str(caught.value)


def own_table(study, votes, task="classification"):
    """Our table of a study, as text that a test may change."""
    prepare(study, votes, Questions(task=task))
    ada = votes.invite("Ada").id
    (item,) = votes.claim(ada, 0)
    votes.vote(Vote(item.id, ada, item.answers[0], when=1.0))
    export(lines(votes), study / "votes.csv")
    return item, (study / "votes.csv").read_text()


def test_a_table_filled_in_by_hand_needs_nothing_but_who_and_what(study, votes):
    prepare(study, votes, Questions())
    export(lines(votes), study / "votes.csv")
    with (study / "votes.csv").open(newline="") as file:
        asked = list(csv.DictReader(file))
    kept = [name for name in asked[0] if name in own_csv.ASKED]
    with (study / "votes.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, kept, extrasaction="ignore")
        table.writeheader()
        table.writerow(asked[0] | {"annotator": "Ada", "answer": "dog"})
        table.writerow(asked[0] | {"annotator": "Bob"})
        table.writerows(asked[1:])
    os.utime(study / "votes.csv", (7.0, 7.0))
    load(read_bundle(study / "votes.csv", study), votes)
    names = {one.id: one.name for one in votes.annotators()}
    assert {(names[one.annotator], one.answer, one.when) for one in votes.votes()} == {
        ("Ada", "dog", 7),
        ("Bob", None, 7),
    }
    assert len(votes.items()) == len(asked)


@pytest.mark.parametrize("name", ["item 0", "x" * 65, "é", "../a"])
def test_an_id_that_the_page_could_not_send_is_replaced(study, votes, target, name):
    item, text = own_table(study, votes)
    (study / "votes.csv").write_text(text.replace(item.id, name))
    copied = take_in(study / "votes.csv", target)
    take_in(study / "votes.csv", target)
    assert len(copied.items()) == len(votes.items())
    assert all(IDENTITY.fullmatch(one.id) for one in copied.items())
    (vote,) = copied.votes()
    assert copied.item(vote.item).place == item.place


def test_answers_that_the_page_could_not_send_are_refused(study, votes):
    _, text = own_table(study, votes)
    (study / "votes.csv").write_text(text.replace("bird", "b" * 201))
    with pytest.raises(DataError, match=r"row 1: Answer 'b+' has 201 characters"):
        read_bundle(study / "votes.csv", study)


def test_answers_that_are_nested_without_end_are_refused(study, votes):
    _, text = own_table(study, votes)
    (study / "votes.csv").write_text(text.replace('"[""bird"", ""cat"", ""dog""]"', "[" * 60_000))
    with pytest.raises(DataError, match=r"row 1: answers are '\[+': give a JSON list"):
        read_bundle(study / "votes.csv", study)


def test_a_pair_has_no_none_and_is_asked_whole_or_not_at_all(study, votes, target):
    item, text = own_table(study, votes, "pair")
    (study / "votes.csv").write_text(text.replace("human,same,", "human,,"))
    with pytest.raises(DataError, match=r"row 1: .*has no 'none'"):
        read_bundle(study / "votes.csv", study)
    (study / "votes.csv").write_text(text.replace(item.beside, "images/nowhere.png"))
    copied = take_in(study / "votes.csv", target)
    halves = [one for one in copied.items() if one.original == item.original]
    assert halves
    assert all((one.image, one.beside) == (None, None) for one in halves)


def test_label_studio_times_are_numbers(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([studio_task("a.png", "cat")]).replace("2.5", "1" + "0" * 400))
    with pytest.raises(DataError, match="task 1: an annotation is not one choice"):
        read_bundle(tmp_path / "a.json", tmp_path)


def test_an_id_that_another_item_has_is_refused(study, votes, target):
    prepare(study, votes, Questions())
    export(lines(votes), study / "votes.csv")
    take_in(study / "votes.csv", target)
    text = (study / "votes.csv").read_text()
    (study / "votes.csv").write_text(text.replace("reconstruction", "shuffled"))
    with pytest.raises(DataError, match="id of another item"):
        take_in(study / "votes.csv", target)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["a.csv", "a.json"]),
    head=st.sampled_from(["", HUMAN, HUMAN[:90], '[{"data": {}, "annotations": [', "item,task,role,"]),
    tail=st.text(st.sampled_from('a1,-"[]{}:\n\x00é'), max_size=40),
)
def test_whatever_a_file_holds_it_is_read_or_refused_in_words(tmp_path, name, head, tail):
    (tmp_path / name).write_text(head + tail)
    with suppress(GlasshouseError):
        assert read_bundle(tmp_path / name, tmp_path).items


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tasks=st.lists(st.recursive(st.sampled_from([None, "cat", 1.5, math.nan]), things, max_leaves=5), max_size=3))
def test_whatever_label_studio_exports_is_read_or_refused_in_words(tmp_path, tasks):
    wrapped = [{"data": {"image": "a.png", "truth": task}, "annotations": [task]} for task in tasks]
    (tmp_path / "a.json").write_text(json.dumps(wrapped))
    with suppress(GlasshouseError):
        assert len(read_bundle(tmp_path / "a.json", tmp_path).items) == len(tasks)


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="There is no"):
        read_bundle(tmp_path / "nothing.csv", tmp_path)
    assert len({importer.format for importer in IMPORTERS}) == 4
