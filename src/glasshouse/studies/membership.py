"""The audit of a trained model: who can tell that an image was among those it was trained on."""

from __future__ import annotations

import dataclasses
import json
import logging
from dataclasses import dataclass
from pathlib import Path

from glasshouse import checks, defenses
from glasshouse import membership as room
from glasshouse.errors import SettingError, StudyError
from glasshouse.files import is_unused, sole_owner, sweep, write_atomic
from glasshouse.functional.roc import LOW_RATES, METRICS
from glasshouse.membership import Trainer
from glasshouse.models import own
from glasshouse.registry import setting
from glasshouse.studies.candidates import Dealt, deal
from glasshouse.studies.runner import RunProgress
from glasshouse.studies.study import MEMBERSHIP_FILE
from glasshouse.studies.trained import Row, Target, Trained, identity, train
from glasshouse.training import Recipe
from glasshouse.types import JSON, Interval, finite_or_none

log = logging.getLogger(__name__)

SCHEMA = 1
SETTINGS_FILE = "membership.plan.json"
MODELS = "models"


@dataclass(frozen=True, kw_only=True)
class MembershipAudit:
    """The settings of a membership audit."""

    attacks: tuple[str, ...] = setting(("loss", "shokri", "lira", "rmia"), "membership attack SPECs")
    dataset: str = setting("digits", "data set SPEC, FILE.npz or DIRECTORY")
    size: int | None = setting(None, "resize images to this many pixels")
    images: int | None = setting(None, "candidates, half of them members; none: as many as there are")
    model: str = setting("resnet20", "SPEC or FILE.py:FACTORY")
    weights: str | None = setting(None, "weights of the target; none: it is trained here")
    members: str | None = setting(None, "with weights: which training images they were made with")
    defenses: tuple[str, ...] = setting(("none",), "defense SPECs that the target is trained behind")
    epochs: int = setting(15, "passes over the images")
    lr: float = setting(0.1, "first learning rate")
    batch: int = setting(128, "images per step")
    augment: bool | None = setting(None, "shift and mirror images while training; none: only where weights are given")
    seed: int = setting(0, "seed of everything random")

    def __post_init__(self) -> None:
        _ = self.recipe
        for name in ("attacks", "defenses"):
            if not getattr(self, name):
                raise SettingError(f"There are no {name}: name at least one.")
        if self.images is not None:
            checks.at_least("images", self.images, 2)
        if (self.weights is None) != (self.members is None):
            raise SettingError(
                "--weights and --members go together: give a trained model, and say which training images it was "
                "trained on (their number as in 'glasshouse train --images', or a file that names them)."
            )
        if self.weights is not None and len(self.defenses) > 1:
            raise SettingError("The given weights were trained in one way: name one --defense, or none.")

    @property
    def recipe(self) -> Recipe:
        """How target and shadows are trained: a given model as ``glasshouse train`` does, else for the worst case."""
        augment = self.weights is not None if self.augment is None else self.augment
        return Recipe(epochs=self.epochs, lr=self.lr, batch=self.batch, augment=augment)


@dataclass(frozen=True, slots=True, eq=False)
class MembershipResult:
    """What was found, and where it is kept. ``pending`` models are left to train; their defenses have no rows yet."""

    directory: Path
    facts: JSON
    targets: tuple[Target, ...]
    rows: tuple[Row, ...]
    pending: int

    def target(self, row: Row) -> Target:
        """The target that a row is about."""
        return next(one for one in self.targets if (one.defense, one.query) == (row.defense, row.query))

    def reason(self, metric: str) -> str:
        """Why a metric has no value."""
        needed = round(1 / LOW_RATES[metric])
        return f"not estimable with {self.facts['others']} non-members, {needed} are needed"

    def to_json(self) -> JSON:
        """The result as plain JSON."""
        same = {name: self.facts[name] for name in ("dataset", "model", "seed")}
        return {
            "schema": SCHEMA,
            **self.facts,
            "pending": self.pending,
            "targets": [dataclasses.asdict(one) for one in self.targets],
            "rows": [
                {
                    **same,
                    "defense": row.defense,
                    "query": row.query,
                    "attack": row.attack,
                    "attack_spec": row.attack_spec,
                    "metric": metric,
                    **self._value(metric, row.values[metric]),
                }
                for row in self.rows
                for metric in METRICS
            ],
            "curves": [
                {
                    "defense": row.defense,
                    "query": row.query,
                    "attack": row.attack,
                    "fpr": row.curve.thinned().fpr.tolist(),
                    "tpr": row.curve.thinned().tpr.tolist(),
                }
                for row in self.rows
            ],
        }

    def _value(self, metric: str, value: Interval | None) -> JSON:
        if value is None:
            return {"mean": None, "low": None, "high": None, "images": 0, "reason": self.reason(metric)}
        ends = {name: finite_or_none(getattr(value, name)) for name in ("mean", "low", "high")}
        return {**ends, "images": value.images, "reason": ""}


def audit_membership(
    plan: MembershipAudit,
    out: Path,
    *,
    root: Path | None = None,
    download: bool = False,
    minutes: float | None = None,
    progress: RunProgress = lambda done, total: None,
) -> MembershipResult:
    """Train targets and shadow models, or find them finished, and attack every target in every way it can be asked.

    Every model is kept in ``out`` as soon as it is trained, under a name that says what decided it, so the same call
    goes on where it stopped, and other attacks find the shadows of the first. ``minutes`` bounds the training; what
    is left is counted in the result's ``pending``.
    """
    attacks = [(text, room.create(text)) for text in plan.attacks]
    guards = {text: defenses.create(text) for text in plan.defenses}
    _refuse_foreign(out)
    dealt = deal(
        plan.dataset,
        images=plan.images,
        members=plan.members,
        seed=plan.seed,
        size=plan.size,
        root=root,
        download=download,
    )
    shadows = max(attack.shadow_count for _, attack in attacks)
    targets = [_prepared(plan, text, guard, dealt, out / MODELS, shadows) for text, guard in guards.items()]
    with sole_owner(out):
        sweep(out, out / MODELS, out / "report")
        write_atomic(out / SETTINGS_FILE, json.dumps(dataclasses.asdict(plan), indent=1).encode())
        pending = train(targets, minutes, progress)
        finished = [one for one in targets if not one.missing()]
        result = MembershipResult(
            out,
            _facts(plan, dealt, shadows),
            tuple(target for one in finished for target in one.targets()),
            tuple(row for one in finished for row in one.attacked(attacks)),
            pending,
        )
        write_atomic(out / MEMBERSHIP_FILE, json.dumps(result.to_json(), indent=1, allow_nan=False).encode())
    return result


def _prepared(
    plan: MembershipAudit, text: str, guard: defenses.Defense, dealt: Dealt, folder: Path, shadows: int
) -> Trained:
    """A target and its shadows as the plan has them."""
    if shadows and dealt.shadow_size < dealt.trained:
        log.warning(
            "Shadow models see %d images, half of all there are, and the target saw %d: attacks are weaker for it.",
            dealt.shadow_size,
            dealt.trained,
        )
    trainer = Trainer(
        build=lambda seed: own.build(plan.model, dealt.spec, seed=seed),
        identity=identity(plan.model, dealt.spec),
        recipe=plan.recipe,
        defense=guard,
    )
    given = None if plan.weights is None else Path(plan.weights)
    return Trained.prepare(text, trainer, dealt, folder, shadows=shadows, given=given, seed=plan.seed)


def _facts(plan: MembershipAudit, dealt: Dealt, shadows: int) -> JSON:
    return {
        "dataset": plan.dataset,
        "model": plan.model,
        "seed": plan.seed,
        "terms": dealt.terms,
        "shape": list(dealt.spec.shape),
        "classes": dealt.spec.classes,
        "members": len(dealt.members.images),
        "others": len(dealt.others.images),
        "public": len(dealt.public.images),
        "trained_on": dealt.trained,
        "shadows": shadows,
        "shadow_size": dealt.shadow_size,
        "target": "given weights" if plan.weights else "trained here",
        "training": {name: getattr(plan.recipe, name) for name in ("epochs", "lr", "batch", "augment")},
    }


def _refuse_foreign(out: Path) -> None:
    """Refuse a directory that holds something else, before anything is written to it."""
    if not out.is_dir() or (out / SETTINGS_FILE).exists():
        return
    if not is_unused(out):
        raise StudyError(f"{out} is not empty and holds no membership audit: choose another --out.")
