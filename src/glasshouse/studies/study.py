"""A study is a directory: plan, database, images, models, results, report."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

from torch import Tensor, nn

from glasshouse import checks, defenses, models
from glasshouse.attacks.base import InversionAttack
from glasshouse.data.crops import CROPS
from glasshouse.errors import StudyError
from glasshouse.files import is_unused, sweep, write_atomic, write_once
from glasshouse.models import own
from glasshouse.models.batchnorm import batchnorm_layers
from glasshouse.registry import complete_spec
from glasshouse.store import Album, ImageRecord, Location, Store
from glasshouse.studies.bench import Bench
from glasshouse.studies.case import Case
from glasshouse.studies.choices import Choices
from glasshouse.studies.materials import Materials
from glasshouse.studies.memory import images_at_once, refuse_too_large
from glasshouse.studies.networks import trained_network
from glasshouse.studies.plan import Plan, from_toml, to_toml
from glasshouse.studies.public import save_public
from glasshouse.studies.subjects import Subject, refuse_other_images
from glasshouse.studies.suitable import (
    audited_networks,
    modes,
    refuse_lone_values,
    suitable_attacks,
    tell_idle_settings,
)
from glasshouse.types import Capability, ImageSpec

PLAN_FILE = "study.toml"
RESULT_FILE = "audit.json"
MEMBERSHIP_FILE = "membership.json"  # of an audit of membership
TRAINED = "trained"

#: Makes the choices that cases wait for, and puts them into the cases.
Settle = Callable[[Sequence[Case], Bench, Choices], Sequence[Case]]


def as_planned(cases: Sequence[Case], bench: Bench, choices: Choices) -> Sequence[Case]:
    """Every attack at the settings that the plan gives it."""
    return cases


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """An opened study: its store, its pictures, its cases, the bench they are worked on and what they are about.

    ``left_out`` says which default attacks cannot work here, and why.
    """

    directory: Path
    store: Store
    album: Album
    cases: tuple[Case, ...]
    bench: Bench
    subjects: tuple[Subject, ...]
    choices: Choices
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Victim:
    """A model to audit at one round of its training."""

    round: str
    model: nn.Module
    weights: str


def prepare(
    plan: Plan,
    location: Location,
    materials: Materials,
    module: nn.Module | None = None,
    *,
    settle: Settle = as_planned,
) -> Study:
    """Make or continue the study of a plan at its place; nothing is attacked yet.

    All that can be refused is refused before anything is written, and the plan is written before any image.
    ``settle`` may change the settings of attacks, which it does by practising.
    """
    directory, album = location.directory, location.album
    refuse_foreign(directory)
    if (directory / PLAN_FILE).exists() and (other := plan.hindrance(from_toml(directory / PLAN_FILE))):
        raise StudyError(
            f"{directory} belongs to another study (its {PLAN_FILE} has {other}): choose another --out, or delete it."
        )
    spec, rounds = _rounds(plan, materials.spec, module)
    checks.labels(materials.labels, spec, len(materials.labels))
    audited = audited_networks(plan, rounds.values())
    suitable = suitable_attacks(plan, spec, audited, public=materials.public_count)
    refuse_lone_values(plan, spec, audited)
    choices = Choices.of(directory)
    if plan.memory is not None and not choices.together:
        refuse_too_large(suitable.attacks, audited, spec, plan.batch, plan.memory)
        choices.together = {"gigabytes": plan.memory, "images": images_at_once(audited, spec, plan.memory)}
    tell_idle_settings(plan, audited, suitable)
    known = public_images_for(materials, suitable.attacks, plan.seed)
    subject = Subject.of(plan.dataset, spec, materials)
    refuse_other_images(location, [subject], growing=True)
    sweep(directory, directory / "models", directory / "report")
    write_atomic(directory / PLAN_FILE, to_toml(plan).encode())
    location.settle()
    subject.save(album)
    victims = [Victim(name, model, _keep_weights(directory, plan, name, model)) for name, model in rounds.items()]
    public = "" if known is None else save_public(directory, known)
    given = None if module is None else victims[0].model
    bench = Bench(directory, album, subject.records, {plan.dataset: spec}, module=given)
    if choices.together:
        choices.save()
    expanded = list(expand(plan, suitable.attacks, victims, subject.records, architecture_of(plan, module), public))
    cases = tuple({case.key(): case for case in settle(expanded, bench, choices)}.values())
    store = Store(location.database)
    store.add_images(subject.records)
    store.add_cases((case.key(), case.described()) for case in cases)
    return Study(directory, store, album, cases, bench, (subject,), choices, suitable.left_out)


def refuse_foreign(directory: Path) -> None:
    """Refuse a directory that holds something else than a study, before anything is written to it."""
    if not directory.is_dir() or (directory / PLAN_FILE).exists():
        return
    if not is_unused(directory):
        raise StudyError(f"{directory} is not empty and holds no study: choose another --out.")


def public_images_for(materials: Materials, attack_list: list[tuple[str, InversionAttack]], seed: int) -> Tensor | None:
    """The public images that were named; else, for attacks that make use of some, crops of photographs."""
    used = any(Capability.PUBLIC_IMAGES in attack.uses for _, attack in attack_list)
    return materials.unattacked_crops(CROPS, seed) if used and materials.public is None else materials.public


def _rounds(plan: Plan, image: ImageSpec, module: nn.Module | None) -> tuple[ImageSpec, dict[str, nn.Module]]:
    """The models to audit by round: the given one, or a fresh one and, beside it, the trained one."""
    if module is not None:
        rounds = {"given": copy.deepcopy(module)}
    else:
        image = dataclasses.replace(image, classes=max(image.classes, 2))  # one class alone has no gradient
        rounds = {"0": own.build(plan.model, image, seed=plan.seed)} if plan.fresh else {}
        if plan.weights is not None:
            rounds[TRAINED] = trained_network(plan.model, image, Path(plan.weights), plan.seed)
    outputs = {own.inspect(model, image) for model in rounds.values()}
    return dataclasses.replace(image, classes=outputs.pop()), rounds


def _keep_weights(directory: Path, plan: Plan, round_name: str, model: nn.Module) -> str:
    """Keep a model's weights under the hash of their content."""
    trained = round_name == TRAINED and plan.weights is not None
    content = own.to_weights(model, behind=own.trained_behind(Path(str(plan.weights))) if trained else None)
    name = hashlib.sha256(content).hexdigest()[:24]
    write_once(directory / "models" / f"{name}.safetensors", content)
    return name


def architecture_of(plan: Plan, module: nn.Module | None) -> str:
    """What the model is, beyond its weights."""
    if module is not None:
        return f"{type(module).__qualname__} {_short_hash(repr(module).encode())} {_code_hash(module)}"
    if own.is_own(plan.model):
        file, _, factory = plan.model.rpartition(":")
        return f"{factory} {_short_hash(Path(file).read_bytes())}"
    return complete_spec(models.models.create(plan.model))


def _code_hash(module: nn.Module) -> str:
    """A hash of the forward code of every class in a model, so that another forward is another model."""
    codes = [type(one).forward.__code__ for one in module.modules() if isinstance(type(one).forward, FunctionType)]
    facts = sorted({(code.co_code.hex(), code.co_names, repr([str(c) for c in code.co_consts])) for code in codes})
    return _short_hash(repr(facts).encode())


def _short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def expand(
    plan: Plan,
    attack_list: list[tuple[str, InversionAttack]],
    victims: list[Victim],
    records: Sequence[ImageRecord],
    architecture: str,
    public: str,
) -> Iterator[Case]:
    """Every combination of the plan as a case, the images outermost so that a first picture comes soon."""
    defense_list = [(text, defenses.create(text)) for text in plan.defenses]
    pictures = hashlib.sha256("".join(f"{one.sha256}{one.label}" for one in records).encode()).hexdigest()
    networks = {(victim.round, text): one.on_model(victim.model) for victim in victims for text, one in defense_list}
    for start in range(0, len(records), plan.batch):
        every = dict.fromkeys((*plan.batchnorm, "eval"))  # the last for networks without batch norm
        for victim, mode, (defense_text, defense) in itertools.product(victims, every, defense_list):
            network = networks[victim.round, defense_text]
            if mode not in modes(plan, network):
                continue
            for attack_text, attack in attack_list:
                yield Case(
                    dataset=plan.dataset,
                    model=plan.model,
                    defense=defense_text,
                    attack=attack_text,
                    architecture=architecture,
                    defense_spec=defense.complete_spec,
                    attack_spec=complete_spec(attack),
                    weights=victim.weights,
                    round=victim.round,
                    batchnorm=mode,
                    has_batchnorm=bool(batchnorm_layers(network)),
                    labels=plan.labels,
                    images=tuple(one.place for one in records[start : start + plan.batch]),
                    pictures=pictures,
                    seed=plan.seed,
                    versions=(attack.version, *defense.versions),
                    public=public if Capability.PUBLIC_IMAGES in attack.uses else "",
                    conditions=plan.conditions,
                )
