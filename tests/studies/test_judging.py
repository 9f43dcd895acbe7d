"""Classifiers vote once on everything, name what they see, and say how good they are."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from tests.judged_study import make_study, write

from glasshouse import data
from glasshouse.errors import SettingError, StudyError
from glasshouse.files import sole_owner
from glasshouse.semsim import eyes, judges
from glasshouse.semsim.eyes import Eye
from glasshouse.store import DATABASE_FILE, Votes
from glasshouse.studies import judging, panel
from glasshouse.studies.judgements import read
from glasshouse.studies.judging import judge, skills


def thumbnails(images):
    """What a very cheap eye sees."""
    return torch.nn.functional.adaptive_avg_pool2d(images, 8).flatten(1)


@pytest.fixture(autouse=True)
def cheap_eyes(monkeypatch):
    cheap = {
        "near": Eye(thumbnails, thumbnails, 32, teaches=True),
        "far": Eye(thumbnails, thumbnails, 16, teaches=False),
    }
    for module in (eyes, judging, panel):
        monkeypatch.setattr(module, "EYES", cheap)
    monkeypatch.setattr("glasshouse.semsim.judges.EYES", cheap)
    monkeypatch.setattr(panel, "MOST_IMAGES", 200)


@pytest.fixture
def digits(tmp_path):
    """A study of digits, of which there is a training split."""
    return study_of("digits", tmp_path / "study", size=None)


def study_of(dataset, directory, size):
    """The images of a data set, themselves and hidden, as two cases."""
    from glasshouse.store import ImageRecord, ReconstructionRecord, Store

    found = data.load(dataset, size=size)
    places = found.spread(10, 0)
    images, labels = found.batch(places)
    directory.mkdir(parents=True)
    store = Store(directory / DATABASE_FILE)
    facts = {"dataset": dataset, "model": "m", "attack": "a", "round": "0", "batchnorm": "eval"}
    store.add_cases((defense, {**facts, "defense": defense}) for defense in ("none", "grey"))
    hidden = {"none": images, "grey": images.mean((2, 3), keepdim=True).expand_as(images)}
    for place, image in enumerate(images):
        file, sha256 = write(directory, f"t{place}", image)
        named = found.class_names[int(labels[place])]
        store.add_images([ImageRecord(place, str(place), int(labels[place]), named, file, sha256)])
    for defense, guesses in hidden.items():
        files = [write(directory, f"{defense}{place}", one) for place, one in enumerate(guesses)]
        store.finish(defense, {}, [ReconstructionRecord(defense, place, *one) for place, one in enumerate(files)])
    store.close()
    return directory


def cast(study):
    votes = Votes(study / DATABASE_FILE)
    names = {one.id: (one.name, one.kind) for one in votes.annotators()}
    items = {item.id: item for item in votes.items()}
    found = [(names[vote.annotator], items[vote.item], vote) for vote in votes.votes("classifier")]
    votes.close()
    return found


def test_probes_name_what_they_see_and_are_surer_of_it_than_of_nothing(digits):
    assert judge(digits, eyes=("near", "far")) == judging.Cast(120, 0)
    found = [one for one in cast(digits) if "probe" in one[0][0]]
    assert {who for who, _, _ in found} == {("near probe 4", "classifier"), ("far probe 4", "classifier")}
    clear = [(item, vote) for _, item, vote in found if item.case_key == "none"]
    assert sum(vote.answer == item.truth for item, vote in clear) > 0.6 * len(clear)
    grades = {key: [vote.grade for _, item, vote in found if item.case_key == key] for key in ("none", "grey")}
    assert all(0 <= grade <= 1 for values in grades.values() for grade in values)
    assert sum(grades["none"]) > 2 * sum(grades["grey"])
    assert all(vote.answer is None or vote.answer in item.answers for _, item, vote in found)
    probes = [skill for skill in skills(digits) if skill["way"] == "probe"]
    for skill in probes:
        assert (skill["classes"], skill["trained"]) == (10, 160)
        assert 0.5 < skill["accuracy"]["mean"] <= 1
    assert {skill["eye"]: skill["teaches"] for skill in probes} == {"near": True, "far": False}


def test_votes_that_are_there_are_not_cast_again_and_probes_are_kept(digits, monkeypatch):
    seen = []
    judge(digits, eyes=("near",), progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 30)
    assert seen[-1] == (30, 30)
    before = cast(digits)
    files = sorted(file.name for file in (digits / panel.FOLDER).iterdir())
    assert judge(digits, eyes=("near",)) == judging.Cast(0, 30)
    monkeypatch.setattr(panel, "train_probe", None)  # would fail
    half = Votes(digits / DATABASE_FILE)
    half._database.write(
        "DELETE FROM votes WHERE item IN (SELECT id FROM items WHERE case_key = :key)", [{"key": "none"}]
    )
    half.close()
    assert judge(digits, eyes=("near",)) == judging.Cast(20, 20)
    assert sorted(file.name for file in (digits / panel.FOLDER).iterdir()) == files
    said, again = ({(who, item.id): vote for who, item, vote in one} for one in (before, cast(digits)))
    assert {key: vote.answer for key, vote in said.items()} == {key: vote.answer for key, vote in again.items()}
    assert [vote.grade for vote in said.values()] == pytest.approx([again[key].grade for key in said], abs=1e-5)


def test_who_learned_from_other_things_is_somebody_else(tmp_path):
    study = study_of("photos", tmp_path / "photos", 24)
    judge(study, eyes=("near",))
    before = {(who, item.id, vote.grade) for who, item, vote in cast(study)}
    assert judge(study, eyes=("near",), seed=1) == judging.Cast(30, 0)
    assert judge(study, eyes=("near",), seed=1) == judging.Cast(0, 30)
    first, second = (skill["learned"] for skill in skills(study))
    after = {(who, item.id, vote.grade) for who, item, vote in cast(study)}
    assert first != second
    assert {name for (name, _), *_ in after - before} == {f"near lineup 4 {second}"}
    assert judges.make_of(f"near lineup 4 {second}") == "near lineup 4"
    assert judge(study, eyes=("near",)) == judging.Cast(0, 30)


def test_judges_of_one_make_have_one_vote_and_it_is_the_newest(tmp_path):
    study = study_of("photos", tmp_path / "photos", 24)
    for seed in (0, 1, 0):
        judge(study, eyes=("near", "far"), seed=seed)
    judge(study, eyes=("near",), degraded=1)  # on these the newest has no vote
    newest = {skill["eye"]: skill["learned"] for skill in skills(study)}
    grades = {(who, item.case_key, item.place): vote.grade for (who, _), item, vote in cast(study)}
    found = read([study], "classifier")
    assert found.voters == ("far lineup 4", "near lineup 4")
    for guess in found.guesses:
        own = ["near lineup 4"] if guess.case_key.startswith("degraded") else list(found.voters)
        assert sorted(guess.hits) == sorted(guess.grades) == sorted(own)
        for name in own:
            learned = f" {newest[name.split()[0]]}" if guess.attacked else ""
            assert guess.grades[name] == grades[name + learned, guess.case_key, guess.place]


@pytest.mark.parametrize("name", ["Anna Maria de Silva", "clip vit b 32", "near lineup 4"])
def test_others_have_their_own_names(name):
    assert judges.make_of(name) == name


def test_judges_from_before_this_was_written_down_go_on_under_their_names(tmp_path):
    study = study_of("photos", tmp_path / "photos", 24)
    judge(study, eyes=("near",))
    notes = study / panel.FOLDER / judging.SKILLS_FILE
    (whole,) = skills(study)
    old = {fact: value for fact, value in whole.items() if fact not in ("learned", "shape")}
    notes.write_text(json.dumps({"schema": judging.SCHEMA, "judges": [old]}))
    assert judge(study, eyes=("near",), degraded=1) == judging.Cast(10, 30)
    assert skills(study) == [whole]
    assert {name for (name, _), *_ in cast(study)} == {"near lineup 4"}


def test_judges_from_before_this_was_written_down_are_those_of_the_usual_seed(digits):
    judge(digits, eyes=("near",))
    notes = digits / panel.FOLDER / judging.SKILLS_FILE
    old = [{fact: value for fact, value in one.items() if fact not in ("learned", "shape")} for one in skills(digits)]
    notes.write_text(json.dumps({"schema": 2, "judges": old}))
    assert judge(digits, eyes=("near",), seed=1) == judging.Cast(60, 0)
    assert judge(digits, eyes=("near",)) == judging.Cast(0, 30)
    assert skills(digits)[:2] == old
    new = {f"near {one['way']} 4 {one['learned']}" for one in skills(digits)[2:]}
    assert {name for (name, _), *_ in cast(digits)} == new | {"near lineup 4", "near probe 4"}
    assert json.loads(notes.read_text())["schema"] == judging.SCHEMA > 2


def test_judges_of_two_runs_never_sit_at_once(tmp_path):
    study = study_of("photos", tmp_path / "photos", 24)
    with sole_owner(study / panel.FOLDER), pytest.raises(StudyError, match=r"Another run is working on .*judges"):
        judge(study, eyes=("near",))
    assert cast(study) == []


def test_degraded_copies_are_judged_as_well_and_the_same_each_time(digits, tmp_path):
    twin = tmp_path / "twin"
    shutil.copytree(digits, twin)
    for study in (digits, twin):
        assert judge(study, eyes=("near",), degraded=2) == judging.Cast(100, 0)
    copies = [[one for one in cast(study) if one[1].case_key == "degraded 1"] for study in (digits, twin)]
    assert [len(some) for some in copies] == [20, 20]
    pictures = [sorted(str(item.image) for _, item, _ in some) for some in copies]
    assert pictures[0] == pictures[1]
    assert len(set(pictures[0])) == 10


def test_noise_is_taken_for_nothing(digits):
    originals, _ = next(judging._groups(digits, _prepared(digits)))
    noise = torch.rand(originals.images.shape, generator=torch.Generator().manual_seed(0))
    everyone = torch.arange(len(noise))
    lessons = panel.lessons_for(originals, None, 0)
    for seat in panel.seated("near", originals, lessons, digits, 0):
        clear, lost = (
            [one.grade for one in seat.judge.look(eyes.EYES["near"](images, seat.skill.way), everyone)]
            for images in (originals.images, noise)
        )
        assert sum(clear) > 5 * sum(lost)


def test_probes_never_learn_from_what_was_attacked(digits):
    directory = study_of("digits:split=train", digits.parent / "train", None)
    groups = list(judging._groups(directory, _prepared(directory)))
    originals, items = groups[0]
    assert len(items) == 30
    lessons = panel.lessons_for(originals, None, 0)
    assert (torch.cdist(lessons.images.flatten(1), originals.images.flatten(1)) > 0.1).all()
    assert not set(lessons.taught.tolist()) & set(lessons.held.tolist())


def _prepared(directory):
    from glasshouse.votes.items import Questions, prepare

    votes = Votes(directory / DATABASE_FILE)
    prepare(directory, votes, Questions())
    items = votes.items()
    votes.close()
    return items


def test_lineups_pick_the_original_or_none(tmp_path):
    study = study_of("photos", tmp_path / "photos", 24)
    judge(study, eyes=("near",))
    (skill,) = skills(study)
    assert (skill["way"], skill["accuracy"]) == ("lineup", None)  # there is nothing a probe could learn from
    by_case = {}
    for _, item, vote in cast(study):
        by_case.setdefault(item.case_key, []).append((vote.answer == item.truth, vote.answer is None, vote.grade))
    assert all(right for right, _, _ in by_case["none"])
    assert sum(grade for *_, grade in by_case["none"]) > 2 * sum(grade for *_, grade in by_case["grey"])
    assert all(right or none for right, none, _ in by_case["grey"])


def test_no_probe_without_training_images_of_individuals_or_near_chance(tmp_path, digits, monkeypatch):
    study = make_study(tmp_path / "unknown", originals=4)
    judge(study, eyes=("near",))
    assert [skill["way"] for skill in skills(study)] == ["lineup"]
    monkeypatch.setattr(panel, "MOST_IMAGES", 30)
    monkeypatch.setattr(panel, "FEWEST_PER_CLASS", 1)
    monkeypatch.setattr(panel.Probe, "__call__", lambda self, images: torch.zeros(len(images), dtype=torch.long))
    judge(digits, eyes=("near",))
    assert [skill["way"] for skill in skills(digits)] == ["lineup"]
    monkeypatch.undo()
    monkeypatch.setattr(data.datasets.get("digits"), "individuals", True)
    other = study_of("digits", tmp_path / "other", None)
    originals, _ = next(judging._groups(other, _prepared(other)))
    assert panel.lessons_for(originals, None, 0) is None


def test_damaged_judges_are_trained_anew_and_damaged_notes_are_said(digits):
    judge(digits, eyes=("near",))
    (file,) = (digits / panel.FOLDER).glob("*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    originals, _ = next(judging._groups(digits, _prepared(digits)))
    panel.seated("near", originals, panel.lessons_for(originals, None, 0), digits, 0)
    assert file.read_bytes() == whole
    (digits / panel.FOLDER / judging.SKILLS_FILE).write_text("{")
    with pytest.raises(StudyError, match="is damaged"):
        skills(digits)


def test_refused(tmp_path):
    with pytest.raises(StudyError, match="holds no study"):
        judge(tmp_path, eyes=("near",))
    with pytest.raises(SettingError, match="eyes=owl"):
        judge(tmp_path, eyes=("owl",))


def test_an_eye_that_compares_places_tells_apart_what_its_averages_do_not():
    def averages(images):
        return images.mean((2, 3))

    halves = torch.zeros(4, 1, 8, 8)
    for place, part in enumerate((slice(0, 4), slice(4, 8))):
        halves[place, :, part] = 1
        halves[2 + place, :, :, part] = 1
    eye = Eye(averages, thumbnails, 8, teaches=False)
    assert len(eye(halves, "lineup").unique(dim=0)) == 4
    assert len(eye(halves, "probe").unique(dim=0)) == 1


def test_a_lineup_of_few_originals_practises_more_often(monkeypatch):
    practised = []
    monkeypatch.setattr(judges, "degraded", lambda images, *rest: practised.append(len(images)) or images)
    for practice, times in ((0, 2), (25, 3)):
        monkeypatch.setattr(judges, "PRACTICE", practice)
        practised.clear()
        judges.Lineup.of("near", torch.rand(10, 1, 8, 8, generator=torch.Generator().manual_seed(0)), 0)
        assert practised == [10] * times


def test_how_sharply_a_lineup_tells_is_learned_from_copies_that_made_no_lens(monkeypatch):
    rng = torch.Generator().manual_seed(0)
    monkeypatch.setattr(judges, "PRACTICE", 40)
    images = torch.rand(10, 1, 8, 8, generator=rng)

    def spoilt(images, most, seed):  # first the copies that make the lens, like their originals, then some unlike
        spoilt.times += 1
        return images if spoilt.times % 4 in (1, 2) else torch.rand(images.shape, generator=rng)

    spoilt.times = 0
    monkeypatch.setattr(judges, "degraded", spoilt)
    assert judges.Lineup.of("near", images, 0).sharpness == min(judges.SHARPNESS)
