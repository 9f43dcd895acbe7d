"""A study is a directory: plan, database, images, models, results, report."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

from torch import Tensor, nn

from glasshouse import attacks, checks, defenses, models
from glasshouse.attacks.base import InversionAttack, with_steps
from glasshouse.data.crops import CROPS
from glasshouse.errors import GlasshouseError, StudyError
from glasshouse.files import LOCK, is_unfinished, sweep, write_atomic, write_once
from glasshouse.models import own
from glasshouse.models.batchnorm import batchnorm_layers
from glasshouse.registry import complete_spec, to_spec
from glasshouse.store import Album, ImageRecord, Location, Store
from glasshouse.studies.bench import Bench, blank_observation
from glasshouse.studies.case import Case
from glasshouse.studies.choices import Choices
from glasshouse.studies.materials import Materials
from glasshouse.studies.memory import images_at_once
from glasshouse.studies.networks import trained_network
from glasshouse.studies.plan import DEFAULT_ATTACKS, Plan, from_toml, to_toml
from glasshouse.studies.public import save_public
from glasshouse.studies.subjects import Subject, refuse_other_images
from glasshouse.types import BatchNorm, Capability, ImageSpec

log = logging.getLogger(__name__)

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
    """An opened study: its store, its pictures, its cases, the bench they are worked on and what they are about."""

    directory: Path
    store: Store
    album: Album
    cases: tuple[Case, ...]
    bench: Bench
    subjects: tuple[Subject, ...]
    choices: Choices


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
    if (directory / PLAN_FILE).exists() and not plan.continues(from_toml(directory / PLAN_FILE)):
        raise StudyError(
            f"{directory} belongs to another study (its {PLAN_FILE} differs): choose another --out, or delete it."
        )
    spec, rounds = _rounds(plan, materials.spec, module)
    checks.labels(materials.labels, spec, len(materials.labels))
    audited = audited_networks(plan, rounds.values())
    attack_list = usable_attacks(plan, spec, audited)
    known = public_images_for(materials, attack_list, plan.seed)
    subject = Subject.of(plan.dataset, spec, materials)
    refuse_other_images(location, [subject])
    sweep(directory, directory / "models", directory / "report")
    write_atomic(directory / PLAN_FILE, to_toml(plan).encode())
    location.settle()
    subject.save(album)
    victims = [Victim(name, model, _keep_weights(directory, plan, name, model)) for name, model in rounds.items()]
    public = "" if known is None else save_public(directory, known)
    given = None if module is None else victims[0].model
    bench = Bench(directory, album, subject.records, {plan.dataset: spec}, module=given)
    choices = Choices.of(directory)
    if plan.memory is not None and not choices.together:
        fitting = images_at_once(audited, spec, plan.memory)
        choices.together = {"gigabytes": plan.memory, "images": fitting}
        choices.save()
    expanded = list(expand(plan, attack_list, victims, subject.records, architecture_of(plan, module), public))
    cases = tuple({case.key(): case for case in settle(expanded, bench, choices)}.values())
    store = Store(location.database)
    store.add_images(subject.records)
    store.add_cases((case.key(), case.described()) for case in cases)
    return Study(directory, store, album, cases, bench, (subject,), choices)


def refuse_foreign(directory: Path) -> None:
    """Refuse a directory that holds something else than a study, before anything is written to it."""
    if not directory.is_dir() or (directory / PLAN_FILE).exists():
        return
    if any(path.name != LOCK and not is_unfinished(path) for path in directory.iterdir()):
        raise StudyError(f"{directory} is not empty and holds no study: choose another --out.")


def usable_attacks(
    plan: Plan, image: ImageSpec, audited: Sequence[tuple[nn.Module, BatchNorm]]
) -> list[tuple[str, InversionAttack]]:
    """The plan's attacks; one that cannot attack these models is refused, or left out if nobody asked for it."""
    found, why = [], None
    for text in plan.attacks:
        name, attack = _attack(text, plan.steps)
        try:
            for model, mode in audited:
                seen = blank_observation(
                    model,
                    image,
                    plan.batch,
                    mode,
                    plan.labels,
                    plan.conditions,
                    batches=attack.batches(plan.batch),
                    public=plan.public is not None,
                )
                attack.refuse(model, seen)
        except GlasshouseError as error:
            if plan.attacks != DEFAULT_ATTACKS:
                raise
            log.warning("%s is left out: %s", text, error)
            why = error
            continue
        found.append((name, attack))
    if not found and why is not None:
        raise why
    return found


def audited_networks(plan: Plan, networks: Iterable[nn.Module]) -> list[tuple[nn.Module, BatchNorm]]:
    """The networks as they are and as the plan's defenses change them, each in every mode in which it is audited."""
    changing = [one for one in map(defenses.create, plan.defenses) if one.changes_model]
    found = [one for model in networks for one in (model, *(defense.on_model(model) for defense in changing))]
    return [(model, mode) for model in found for mode in _modes(plan, model)]


def public_images_for(materials: Materials, attack_list: list[tuple[str, InversionAttack]], seed: int) -> Tensor | None:
    """The public images that were named; else, for attacks that make use of some, crops of photographs."""
    used = any(Capability.PUBLIC_IMAGES in attack.uses for _, attack in attack_list)
    return materials.unattacked_crops(CROPS, seed) if used and materials.public is None else materials.public


def _modes(plan: Plan, model: nn.Module) -> tuple[BatchNorm, ...]:
    """The batch-norm modes in which a network is audited; one without batch norm has no two."""
    return plan.batchnorm if batchnorm_layers(model) else ("eval",)


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


def _attack(text: str, steps: int | None) -> tuple[str, InversionAttack]:
    """An attack and how tables call it: as written, unless its steps were set from outside."""
    attack = attacks.create(text)
    changed = with_steps(attack, steps)
    return (text if changed == attack else to_spec(changed)), changed


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
        modes = dict.fromkeys((*plan.batchnorm, "eval"))  # the last for networks without batch norm
        for victim, mode, (defense_text, defense) in itertools.product(victims, modes, defense_list):
            network = networks[victim.round, defense_text]
            if mode not in _modes(plan, network):
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
