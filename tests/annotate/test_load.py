"""Many annotators at once: no item gets more votes than it should, and nobody sees two versions of an original."""

from __future__ import annotations

from collections import Counter

from tests.annotate.people import voting, wait_for_all


def test_everything_is_answered_once_by_different_people(make_study, database, start, address):
    study = make_study(database, annotators=12, originals=5, versions=3, votes_per_item=2)
    start(study)
    with voting(study, address) as people:
        wait_for_all(people)
    votes = study.votes.votes()
    items = {item.id: item for item in study.votes.items()}
    assert Counter(vote.item for vote in votes) == dict.fromkeys(items, 2)
    shown = Counter((vote.annotator, items[vote.item].original) for vote in votes)
    assert set(shown.values()) == {1}
    assert sum(len(one.saved) for one in people) == len(votes)
