"""The main job: prepare, attack, score, collect."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp

import torch
from torch import Tensor, nn

from glasshouse import attacks as attack_room
from glasshouse import checks, devices
from glasshouse import defenses as defense_room
from glasshouse import metrics as metric_room
from glasshouse.defenses import Defense
from glasshouse.errors import SettingError
from glasshouse.files import sole_owner
from glasshouse.store import Location
from glasshouse.studies.bench import Bench
from glasshouse.studies.calibration import named_images, public_images
from glasshouse.studies.case import Case
from glasshouse.studies.choices import Choices
from glasshouse.studies.executors import Executor, Inline, Local
from glasshouse.studies.materials import Materials, from_dataset, from_tensors
from glasshouse.studies.plan import DEFAULT_METRICS, Plan
from glasshouse.studies.ray_engine import Ray
from glasshouse.studies.results import AuditResult, collect
from glasshouse.studies.runner import RunProgress, Summary, run
from glasshouse.studies.scoring import check_pictures, measures, score
from glasshouse.studies.study import Settle, Study, as_planned, prepare, refuse_foreign
from glasshouse.studies.tuning import CALIBRATION, Untuned, tuned_cases
from glasshouse.types import BatchNorm, Stage

FEWEST_CLASSES = 10  # a model built for two labels would tell them by its shape


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a study is run; nothing here changes its results.

    ``store`` is the URL of a database and ``pictures`` a directory or a URL that fsspec knows, where those are not to
    lie in the study's own directory. The first run settles both, and the directory remembers them.
    """

    engine: str = "inline"
    workers: int = field(default_factory=devices.usual_workers)
    address: str = "local"
    minutes: float | None = None
    store: str | None = None
    pictures: str | None = None
    progress: RunProgress = lambda done, total: None
    tuning_progress: RunProgress = lambda done, total: None
    training_progress: RunProgress = lambda done, total: None
    probing_progress: RunProgress = lambda done, total: None
    scoring_progress: RunProgress = lambda done, total: None

    def __post_init__(self) -> None:
        checks.one_of("engine", self.engine, ENGINES)
        checks.at_least("workers", self.workers, 1)
        devices.chosen()  # one that is not there is refused before any work
        if self.minutes is not None:
            checks.at_least("minutes", self.minutes, 0)

    def deadline(self) -> float:
        """When to stop where the work begins now, as a reading of ``time.monotonic``."""
        return float("inf") if self.minutes is None else time.monotonic() + 60 * self.minutes

    def location(self, directory: Path) -> Location:
        """Where the study of a directory keeps its results and pictures."""
        return Location.asked(directory, self.store, self.pictures)

    def executor(self) -> Executor:
        """Where the cases are worked on."""
        return ENGINES[self.engine](self)


ENGINES: dict[str, Callable[[Running], Executor]] = {
    "inline": lambda running: Inline(),
    "local": lambda running: Local(running.workers),
    "ray": lambda running: Ray(running.workers, running.address),
}


def check_plan(plan: Plan) -> None:
    """Build everything a plan names once, so that a typing error costs no time."""
    for text in plan.attacks:
        attack_room.create(text)
    for text in plan.defenses:
        refuse_training_defense(text, defense_room.create(text))
    for text in plan.metrics:
        metric_room.create(text)
    for name in ("attacks", "defenses", "metrics"):
        if not getattr(plan, name):
            raise SettingError(f"There are no {name}: name at least one.")


def refuse_training_defense(text: str, defense: Defense) -> None:
    """Refuse a defense that acts while training: what is shared by a finished model does not show it."""
    if Stage.TRAINING in defense.stages:
        raise SettingError(
            f"Defense '{text}' acts on {defense.acts_on}, but an audit trains nothing: use at=gradient here, or "
            "train with it ('glasshouse train --defense') and audit the result with --weights."
        )


def audit_plan(
    plan: Plan, directory: Path, running: Running, *, root: Path | None = None, download: bool = False
) -> tuple[AuditResult, Summary]:
    """Run, or continue, the audit that a plan describes."""
    check_plan(plan)
    refuse_foreign(directory)
    with owned(directory, running) as location:
        materials = from_dataset(
            plan.dataset, plan.images, plan.seed, size=plan.size, root=root, download=download, public=plan.public
        )
        deadline = running.deadline()
        settle = _tuner(plan, materials, plan.dataset, running, deadline, root)
        return _carry_out(plan, location, materials, None, running, deadline, settle)


def audit(
    model: nn.Module | str,
    images: Tensor,
    labels: Tensor | Sequence[int],
    *,
    attacks: Sequence[str] = ("invgrad",),
    defenses: Sequence[str] = ("none",),
    metrics: Sequence[str] = DEFAULT_METRICS,
    steps: int | None = None,
    batch: int = 1,
    batchnorm: Sequence[BatchNorm] = ("eval", "train"),
    label_knowledge: str = "recovered",
    local_lr: float | None = None,
    local_epochs: int = 1,
    local_batch: int | None = None,
    observations: int = 1,
    layers: Sequence[str] = (),
    statistics: str = "running",
    tune: bool = False,
    memory: float | None = None,
    classes: int | None = None,
    others: Tensor | None = None,
    public: Tensor | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    engine: str = "inline",
    workers: int | None = None,
    progress: RunProgress = lambda done, total: None,
) -> AuditResult:
    """Attack the gradients a model would share of these images and score what can be seen.

    ``model`` is a module that takes images in [0, 1] and returns logits, or a SPEC; ``images`` are (N, C, H, W)
    in [0, 1]. ``others`` are more images of the same kind: an image counts as seen only if its reconstruction
    points to it among them; without them crops of photographs stand in, which are too easy to tell from images
    that look alike. ``public`` are images that an attacker may learn from. With ``local_lr`` what is attacked is the
    update after ``local_epochs`` passes over the images of a batch, ``local_batch`` at a time; ``observations`` counts
    messages about the same images, ``layers`` are patterns of the parameters that are shared, ``statistics`` (running,
    batch or none) says what is known of batch norm. ``tune`` searches the attacks' settings on public images first,
    ``memory`` bounds the gigabytes a worker uses. ``classes`` is how many outputs a model built from a SPEC gets.
    Without ``out`` the study is kept in a temporary directory, named by ``result.directory``.
    """
    if not isinstance(model, (str, nn.Module)):
        raise SettingError(f"model is {type(model).__name__}: give a torch.nn.Module (an instance), or a SPEC.")
    images, truth = torch.as_tensor(images), torch.as_tensor(labels)
    if classes is None and isinstance(model, str) and truth.numel():
        classes = max(FEWEST_CLASSES, int(truth.max()) + 1)
    materials = from_tensors(images, truth, seed, others=others, classes=classes, public=public)
    plan = Plan(
        dataset="given images",
        images=len(images),
        model=model if isinstance(model, str) else type(model).__name__,
        attacks=_texts("attacks", attacks),
        defenses=_texts("defenses", defenses),
        metrics=_texts("metrics", metrics),
        steps=steps,
        batch=batch,
        batchnorm=tuple(batchnorm),
        public=None if public is None else "given images",
        labels=label_knowledge,
        seed=seed,
        local_lr=local_lr,
        local_epochs=local_epochs,
        local_batch=local_batch,
        observations=observations,
        layers=_texts("layers", layers),
        statistics=statistics,
        tune=tune,
        memory=memory,
    )
    check_plan(plan)
    directory = Path(mkdtemp(prefix="glasshouse-") if out is None else out)
    running = Running(engine=engine, workers=workers or devices.usual_workers(), progress=progress)
    refuse_foreign(directory)
    with owned(directory, running) as location:
        module = None if isinstance(model, str) else model
        deadline = running.deadline()
        settle = _tuner(plan, materials, None, running, deadline)
        return _carry_out(plan, location, materials, module, running, deadline, settle)[0]


@contextmanager
def owned(directory: Path, running: Running) -> Iterator[Location]:
    """Hold a study for this run alone, its directory and its database, and say where it keeps things."""
    with sole_owner(directory, "directory"):
        location = running.location(directory)
        with location.held():
            yield location


def _texts(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """SPECs as a caller writes them: one text or several."""
    found = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(one, str) for one in found):
        raise SettingError(f"{name} are written as SPECs, for example {name}=['{DEFAULT_METRICS[0]}'], not as objects.")
    return found


def _tuner(
    plan: Plan,
    materials: Materials,
    source: str | None,
    running: Running,
    deadline: float,
    root: Path | None = None,
) -> Settle:
    """What settles the attacks' settings: tuning on public images, or nothing."""
    if not plan.tune:
        return as_planned
    count = max(CALIBRATION, plan.batch)
    seed = plan.seed + 1
    public = named_images(materials, count, seed) or public_images(
        source, materials, count, seed, size=plan.size, root=root
    )

    def settle(cases: Sequence[Case], bench: Bench, choices: Choices) -> Sequence[Case]:
        return tuned_cases(
            [Untuned(cases, public, fixed_steps=plan.steps is not None)],
            bench,
            choices,
            progress=running.tuning_progress,
            executor=running.executor(),
            deadline=deadline,
        )

    return settle


def _carry_out(
    plan: Plan,
    location: Location,
    materials: Materials,
    module: nn.Module | None,
    running: Running,
    deadline: float,
    settle: Settle,
) -> tuple[AuditResult, Summary]:
    study = prepare(plan, location, materials, module, settle=settle)
    try:
        try:
            summary = attack(study, running, deadline)
        except KeyboardInterrupt:
            _write_down(plan, study)
            raise
        return _write_down(plan, study), summary
    finally:
        study.store.close()


def attack(study: Study, running: Running, deadline: float) -> Summary:
    """Work on every case that is not finished, or whose pictures are lost; what could not be tuned has failed."""
    study.store.reset(check_pictures(study))
    untuned = study.choices.untuned
    for key, reason in untuned.items():
        study.store.fail(key, reason)
    summary = run(
        [case for case in study.cases if case.key() not in untuned],
        study.store,
        study.album,
        study.bench,
        executor=running.executor(),
        deadline=deadline,
        most_images=study.choices.together.get("images"),
        progress=running.progress,
    )
    return replace(summary, planned=summary.planned + len(untuned), failed=summary.failed + len(untuned))


def _write_down(plan: Plan, study: Study) -> AuditResult:
    """Score what is finished and write ``audit.json``."""
    (subject,) = study.subjects
    known = measures(subject, plan.metrics)
    score(study, subject, known)
    result = collect(plan, study, known)
    result.save()
    return result
