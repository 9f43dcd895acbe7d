"""Votes keep their promises on both databases: limits, one version each, nothing lost, nothing twice."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from glasshouse.errors import SettingError, VoteError
from glasshouse.store import Item, Rules, Vote, Votes

ANSWERS = ("cat", "dog")


def make_items(originals, versions, *, with_originals=True):
    def item(place, role, case_key):
        return Item(
            id=f"{place}-{case_key or 'original'}",
            task="classification",
            role=role,
            original=f"o{place}",
            condition=case_key or "original",
            case_key=case_key,
            place=place,
            answers=ANSWERS,
            truth="cat",
            image=f"images/{place}{case_key}.png",
        )

    made = [item(p, "reconstruction", f"c{v}") for p in range(originals) for v in range(versions)]
    return made + [item(place, "original", "") for place in range(originals) if with_originals]


@pytest.fixture
def where(database, tmp_path):
    return database or tmp_path / "glasshouse.db"


@pytest.fixture
def votes(where):
    votes = Votes(where)
    yield votes
    votes.close()


def answer_all(votes, annotator, now=0.0):
    """Answer until there is nothing left; the items in order."""
    seen = []
    while items := votes.claim(annotator, now, 2):
        assert votes.vote(Vote(items[0].id, annotator, "cat", when=now + len(seen)))
        seen.append(items[0])
    return seen


def test_items_and_annotators_come_back_and_adding_twice_changes_nothing(votes):
    items = make_items(2, 2)
    votes.add_items(items)
    votes.add_items(make_items(3, 2))
    assert {item.id: item for item in votes.items()}["0-c1"] == {item.id: item for item in items}["0-c1"]
    assert len(votes.items()) == 9
    assert votes.item("nothing") is None
    first = votes.invite("Ada", "hash")
    judge = votes.invite("Ada", kind="classifier")
    assert votes.annotators() == [judge, first]
    assert votes.annotator_by_hash("hash") == first
    assert votes.annotator_by_hash("other") is None
    with pytest.raises(VoteError, match="called 'Ada' already"):
        votes.invite("Ada")


def test_rules_and_the_owner_are_kept(votes):
    assert votes.rules() == Rules(votes_per_item=5)
    votes.set_rules(Rules(votes_per_item=3, hold_seconds=60, seed=7))
    assert votes.rules() == Rules(3, 60, 7)
    with pytest.raises(SettingError, match="votes_per_item=0"):
        votes.set_rules(Rules(votes_per_item=0))
    assert votes.owner_hash() is None
    votes.set_owner_hash("abc")
    assert votes.owner_hash() == "abc"


def test_a_claim_is_kept_over_reloads_and_a_vote_frees_it(votes):
    votes.add_items(make_items(3, 1))
    ada = votes.invite("Ada").id
    first = votes.claim(ada, 0, 2)
    assert votes.claim(ada, 1, 2) == first
    assert votes.vote(Vote(first[0].id, ada, "dog", confidence="likely", seconds=1.5, when=2))
    after = votes.claim(ada, 3, 2)
    assert after[0] == first[1]
    assert votes.votes() == [Vote(first[0].id, ada, "dog", None, "likely", 1.5, 2)]
    assert votes.vote_and_claim(Vote(after[0].id, ada, None, forced="cat", when=4), 4)[0] == after[1]


def test_the_same_vote_again_changes_nothing_and_another_is_refused(votes):
    votes.add_items(make_items(1, 1))
    ada, bob = votes.invite("Ada").id, votes.invite("Bob").id
    (item,) = votes.claim(ada, 0)
    vote = Vote(item.id, ada, None, "cat", "guess", 2.0, 5.0)
    assert votes.vote(vote)
    assert not votes.vote(Vote(item.id, ada, None, "cat", "guess", 9.0, 6.0))
    with pytest.raises(VoteError, match="undo that answer first"):
        votes.vote(Vote(item.id, ada, "cat"))
    with pytest.raises(VoteError, match="not held for you"):
        votes.vote(Vote(item.id, bob, "cat"))
    assert votes.votes() == [vote]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"answer": "horse"}, "not among the answers"),
        ({"answer": None, "forced": "horse"}, "not among the answers"),
        ({"answer": "cat", "forced": "dog"}, "beside 'none' only"),
        ({"answer": "cat", "confidence": "sure"}, "confidence 'sure'"),
        ({"answer": "cat", "seconds": -1.0}, "no time"),
        ({"answer": "cat", "seconds": float("nan")}, "no time"),
        ({"answer": "cat", "grade": 1.5}, "no soft vote"),
        ({"answer": "cat", "item": "nothing"}, "no item 'nothing'"),
        ({"answer": "cat", "annotator": "nobody"}, "no annotator 'nobody'"),
    ],
)
def test_what_is_no_answer_is_refused_and_the_item_stays_held(tmp_path, wrong, says):
    votes = Votes(tmp_path / "glasshouse.db")
    votes.add_items(make_items(1, 1))
    ada = votes.invite("Ada").id
    (item,) = votes.claim(ada, 0)
    with pytest.raises(VoteError, match=says):
        votes.vote(Vote(**{"item": item.id, "annotator": ada, **wrong}))
    assert votes.claim(ada, 0) == (item,)
    assert votes.votes() == []
    votes.close()


def test_undo_asks_the_last_item_again_but_not_after_its_original_was_shown(votes):
    votes.add_items(make_items(2, 1))
    ada = votes.invite("Ada").id
    assert votes.undo(ada, 0) is None
    first, second = votes.claim(ada, 0, 2)
    votes.vote(Vote(first.id, ada, "cat", when=1))
    assert votes.undo(ada, 2) == first
    assert votes.votes() == []
    assert votes.claim(ada, 3, 2) == (first, second)
    votes.vote(Vote(first.id, ada, "dog", when=4))
    (_, original) = votes.claim(ada, 5, 2)
    assert (original.role, original.original) == ("original", first.original)
    assert votes.undo(ada, 6) == first  # the original was fetched ahead, not shown
    assert votes.claim(ada, 7, 2) == (first, second)
    votes.vote(Vote(first.id, ada, "dog", when=8))
    votes.claim(ada, 9, 2)
    votes.vote(Vote(second.id, ada, "cat", when=10))
    assert votes.claim(ada, 11, 2)[0] == original
    assert votes.undo(ada, 12) == second
    assert votes.undo(ada, 13) is None  # it was on the screen, though it is not now
    assert [vote.answer for vote in votes.votes()] == ["dog"]


def test_undo_is_for_the_last_of_so_many_votes(votes):
    votes.add_items(make_items(2, 1, with_originals=False))
    ada = votes.invite("Ada").id
    for item in votes.claim(ada, 0, 2):
        votes.vote(Vote(item.id, ada, "cat", when=1))
    assert votes.undo(ada, 2, done=1) is None
    with ThreadPoolExecutor(2) as pool:
        taken = list(pool.map(lambda now: votes.undo(ada, now, done=2), (3, 3)))
    assert taken.count(None) == 1
    assert len(votes.votes()) == 1


def test_held_items_are_free_again_when_time_is_up_or_the_link_revoked(votes):
    votes.set_rules(Rules(votes_per_item=1, hold_seconds=10))
    votes.add_items(make_items(1, 1, with_originals=False))
    ada, bob = votes.invite("Ada"), votes.invite("Bob")
    (item,) = votes.claim(ada.id, 0)
    assert votes.claim(bob.id, 9) == ()
    assert votes.claim(bob.id, 11) == (item,)
    with pytest.raises(VoteError, match="not held for you"):
        votes.vote(Vote(item.id, ada.id, "cat"))
    votes.revoke(bob.id)
    assert votes.claim(ada.id, 12) == (item,)
    assert votes.annotators()[1].revoked
    for refused in (lambda: votes.claim(bob.id, 13), lambda: votes.undo(bob.id, 13)):
        with pytest.raises(VoteError, match="revoked"):
            refused()


def test_items_without_a_picture_are_never_asked(votes):
    votes.add_items(replace(item, image=None) for item in make_items(2, 2))
    assert votes.claim(votes.invite("Ada").id, 0) == ()


def test_many_at_once_never_break_the_limits(votes):
    votes.set_rules(Rules(votes_per_item=2))
    votes.add_items(make_items(4, 3))
    people = [votes.invite(f"annotator {number}").id for number in range(9)]  # three more than needed
    with ThreadPoolExecutor(len(people)) as pool:
        orders = dict(zip(people, pool.map(lambda person: answer_all(votes, person), people), strict=True))
    counts = Counter(vote.item for vote in votes.votes())
    assert set(counts.values()) == {2}
    assert len(counts) == len(votes.items()) == 16
    for person, order in orders.items():
        versions = [item.original for item in order if item.role != "original"]
        assert len(versions) == len(set(versions)), person
        answered = set()
        for item in order:
            if item.role == "original":
                assert item.original in answered or item.original not in versions
            answered.add(item.original)
    overview = votes.overview(0)
    assert (overview.items, overview.complete, overview.votes, overview.annotators) == (16, 16, 32, 9)


def test_originals_of_two_tasks_are_both_asked(tmp_path):
    votes = Votes(tmp_path / "glasshouse.db")
    items = make_items(4, 1)
    votes.add_items(items + [replace(item, id=f"{item.id} counted", task="counting") for item in items])
    order = [item for number in range(20) for item in answer_all(votes, votes.invite(f"annotator {number}").id)]
    assert set(Counter(item.id for item in order).values()) == {5}
    assert len({item.id for item in order}) == 16
    votes.close()


def test_two_processes_share_the_places(where, votes):
    """A second server on the same database keeps to the same limits."""
    votes.set_rules(Rules(votes_per_item=1))
    votes.add_items(make_items(6, 1, with_originals=False))
    second = Votes(where)
    people = [votes.invite(f"annotator {number}").id for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda pair: answer_all(*pair), zip((votes, second) * 2, people, strict=True)))
    assert set(Counter(vote.item for vote in second.votes()).values()) == {1}
    assert len(second.votes()) == 6
    second.close()


def test_kinds_are_never_mixed_unasked_and_judges_take_no_place(votes):
    votes.set_rules(Rules(votes_per_item=1))
    votes.add_items(make_items(1, 1, with_originals=False))
    judge, ada = votes.invite("probe", kind="classifier").id, votes.invite("Ada").id
    votes.record([Vote("0-c0", judge, "dog", grade=0.75), Vote("0-c0", judge, "cat")])  # the second is there already
    (item,) = votes.claim(ada, 0)
    votes.vote(Vote(item.id, ada, "cat", when=1))
    assert [vote.annotator for vote in votes.votes()] == [ada]
    assert votes.votes("classifier") == [Vote("0-c0", judge, "dog", grade=0.75)]
    assert votes.votes()[0].grade is None
    assert len(votes.votes(None)) == 2
    assert votes.overview(0).votes == 1


def test_progress_counts_to_what_one_of_so_many_is_asked(votes):
    votes.set_rules(Rules(votes_per_item=2))
    votes.add_items(make_items(4, 2))
    people = [votes.invite(f"annotator {number}").id for number in range(4)]
    assert votes.progress(people[0]).total == 6  # a version of each of four originals, and two originals
    done = {person: len(answer_all(votes, person)) for person in people}
    assert sum(done.values()) == 24
    assert all(votes.progress(person).done == count for person, count in done.items())


def answer_until_killed(where, annotator, place, shown):
    os.environ["GLASSHOUSE_FAILPOINT"] = place
    votes = Votes(where)
    while items := votes.claim(annotator, 0.0):
        votes.vote(Vote(items[0].id, annotator, "cat", when=float(len(votes.votes()))))
        with shown.open("a") as file:
            file.write(f"{items[0].id}\n")


def test_a_vote_shown_as_saved_survives_a_kill_at_any_commit(where, tmp_path):
    """Killed before and after commits again and again, nothing that was shown is lost and nothing is twice."""
    votes = Votes(where)
    votes.add_items(make_items(8, 1))
    ada = votes.invite("Ada").id
    votes.close()  # a child must not inherit an open connection
    shown = tmp_path / "shown"
    shown.touch()
    for place in [f"store.{when}_commit:{count}" for count in (1, 2, 3, 4, 5) for when in ("before", "after")] + [""]:
        arguments = (where, ada, place, shown)
        child = multiprocessing.get_context("fork").Process(target=answer_until_killed, args=arguments)
        child.start()
        child.join()
        assert child.exitcode == (-signal.SIGKILL if place else 0)
        votes = Votes(where)
        kept = [vote.item for vote in votes.votes()]
        votes.close()
        assert set(shown.read_text().split()) <= set(kept)
        assert len(kept) == len(set(kept))
    assert len(kept) == 16


def test_each_version_is_asked_of_as_many_in_every_group(votes):
    """With half the people, half the versions are done, evenly over conditions: the Latin square."""
    votes.set_rules(Rules(votes_per_item=2))
    votes.add_items(make_items(4, 4, with_originals=False))
    for number in range(4):
        answer_all(votes, votes.invite(f"annotator {number}").id)
    by_condition = defaultdict(list)
    for item, count in Counter(vote.item for vote in votes.votes()).items():
        by_condition[votes.item(item).condition].append(count)
    assert dict(by_condition) == {f"c{number}": [2, 2] for number in range(4)}
