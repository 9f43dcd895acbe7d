"""A vote that was answered as saved survives kill -9 of the server, at any moment, once and as it was given.

``make soak`` makes 200 kills.
"""

from __future__ import annotations

import random
import signal
import time

import pytest
from tests.annotate.people import voting
from tests.soak import count, piece

KILLS = count(5, 200)
ANNOTATORS = 3


def check_that_nothing_is_lost_or_doubled(study, people) -> int:
    given = {
        (person.id, item): answer
        for person, one in zip(study.people, people, strict=True)
        for item, answer in one.saved.items()
    }
    votes = study.votes.votes()
    assert len(votes) == len(given)
    assert {(vote.annotator, vote.item): vote.answer for vote in votes} == given
    return len(votes)


def wait_for_more(people, votes: int) -> None:
    """Wait until so many more votes are saved, so that every kill hits a server at work, however slow the machine."""
    before = sum(one.sent for one in people)
    while sum(one.sent for one in people) < before + votes:
        assert all(one.is_alive() for one in people)
        time.sleep(0.002)


@pytest.mark.soak
def test_votes_survive_kills_at_random_moments(make_study, database, start, address, record_property):
    study = make_study(database, annotators=ANNOTATORS, originals=20 * KILLS)
    dice = random.Random(5 + piece())
    with voting(study, address) as people:
        for _ in range(KILLS):
            server = start(study)
            wait_for_more(people, dice.randint(1, 6))
            time.sleep(dice.uniform(0, 0.02))
            server.kill()
            server.join()
        start(study)
    kept = check_that_nothing_is_lost_or_doubled(study, people)
    assert kept > KILLS
    record_property("kills", KILLS)
    record_property("votes kept", kept)


@pytest.mark.parametrize("place", ["store.before_commit", "store.after_commit"])
def test_votes_survive_a_kill_around_the_commit(make_study, database, start, address, place):
    study = make_study(database, annotators=2, originals=30)
    with voting(study, address) as people:
        killed = start(study, GLASSHOUSE_FAILPOINT=f"{place}:12")
        killed.join(60)
        assert killed.exitcode == -signal.SIGKILL
        start(study)
        wait_for_more(people, 4)
    assert check_that_nothing_is_lost_or_doubled(study, people) > 4
