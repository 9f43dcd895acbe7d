"""What a study of federations is to do: a frozen plan, kept as ``study.toml``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glasshouse import checks
from glasshouse import membership as membership_room
from glasshouse.errors import SettingError
from glasshouse.federated.plan import Federation
from glasshouse.registry import setting

SEPARATOR = "|"
NAMED = 3  # data set, model and defense come first in a row of ``extra``
AUGMENT = "augment"
SHADOWS = "shadows"
ROW = f"'DATASET | MODEL | DEFENSE', with '| {AUGMENT}' or '| {SHADOWS}' behind it or not"


@dataclass(frozen=True, slots=True)
class Setup:
    """What federations of several seeds have in common; ``augment``: clients shift and mirror images."""

    dataset: str
    model: str
    defense: str
    augment: bool = False


@dataclass(frozen=True, kw_only=True)
class Federations:
    """The settings of a study; every combination of the lists is a federation of its own."""

    title: str = setting("federations", "what tables and the report call the study")
    datasets: tuple[str, ...] = setting(("digits",), "data set SPECs")
    models: tuple[str, ...] = setting(("mlp",), "model SPECs")
    defenses: tuple[str, ...] = setting(("none", "csvar"), "defense SPECs of every client; the first is the reference")
    extra: tuple[str, ...] = setting(
        (),
        f"further federations: 'DATASET | MODEL | DEFENSE'; '| {AUGMENT}' behind it: clients shift and mirror images; "
        f"'| {SHADOWS}': asked by shadow_membership as well",
    )
    single: tuple[str, ...] = setting((), "model SPECs that are trained with the first seed alone")
    brief: tuple[str, ...] = setting((), "data set SPECs of so many images that half the rounds will do")
    seeds: tuple[int, ...] = setting((0,), "seeds; each is a federation of its own")
    clients: int = setting(4, "how many clients")
    rounds: int = setting(10, "how many rounds")
    local_epochs: int = setting(1, "passes of a client over its images in each round")
    batch: int = setting(16, "images per step of a client")
    lr: float = setting(0.05, "learning rate of the clients")
    momentum: float = setting(0.0, "Nesterov momentum of the clients, which begins anew in every round")
    split: str = setting("iid", "how images are dealt out to clients")
    images: int | None = setting(None, "train on so many images in all; none: on all")
    test_images: int | None = setting(None, "test on so many images; none: on all")
    membership: tuple[str, ...] = setting(("loss",), "membership attack SPECs, of those that need no shadow models")
    shadow_membership: tuple[str, ...] = setting(
        (), "membership attack SPECs that train shadow federations; each costs as much as the federation asked"
    )
    watched: tuple[int, ...] = setting((), "rounds after which membership is asked as well as after the last")

    def __post_init__(self) -> None:
        for name in ("datasets", "models", "defenses", "seeds"):
            if not getattr(self, name):
                raise SettingError(f"There are no {name}: name at least one.")
        for number in self.watched:
            checks.between("watched", number, 1, self.rounds)
        if unknown := [name for name in self.brief if name not in {setup.dataset for setup in self.setups()}]:
            raise SettingError(f"brief has '{unknown[0]}', which is no data set of the plan.")
        self._refuse_attacks()
        _ = list(self.federations())

    def _refuse_attacks(self) -> None:
        """Shadow models are many trainings, which nobody should ask of every federation by mistake."""
        for name, wanted in (("membership", False), ("shadow_membership", True)):
            for text in getattr(self, name):
                if bool(_shadows(name, text)) != wanted:
                    other = "membership" if wanted else "shadow_membership"
                    raise SettingError(f"{name} has '{text}': attacks of its kind belong into {other}.")
        if any(self.setups().values()) != bool(self.shadow_membership):
            raise SettingError(
                f"shadow_membership and rows of extra that end in '| {SHADOWS}' go together: give both or none."
            )

    def setups(self) -> dict[Setup, bool]:
        """Every setup in the order of the plan, and whether it is asked with shadow models as well."""
        found = {Setup(d, m, g): False for d in self.datasets for m in self.models for g in self.defenses}
        for row in self.extra:
            setup, shadows = _parsed(row)
            found[setup] = shadows or found.get(setup, False)
        return found

    def federations(self) -> Iterator[Federation]:
        """Every federation of the plan, those of one data set together."""
        return (federation for federation, _ in self.asked())

    def asked(self) -> Iterator[tuple[Federation, tuple[str, ...]]]:
        """Every federation of the plan with the shadow attacks that it is asked by, if any."""
        for setup, shadows in self.setups().items():
            for seed in self.seeds[:1] if setup.model in self.single else self.seeds:
                yield self._federation(setup, seed), self.shadow_membership if shadows else ()

    def _federation(self, setup: Setup, seed: int) -> Federation:
        return Federation(
            dataset=setup.dataset,
            model=setup.model,
            defense=setup.defense,
            augment=setup.augment,
            clients=self.clients,
            rounds=max(1, self.rounds // 2) if setup.dataset in self.brief else self.rounds,
            local_epochs=self.local_epochs,
            batch=self.batch,
            lr=self.lr,
            momentum=self.momentum,
            split=self.split,
            images=self.images,
            test_images=self.test_images,
            seed=seed,
        )


def _shadows(name: str, text: str) -> int:
    """How many shadow models an attack wants; what is wrong with it is said with the setting that has it."""
    try:
        return membership_room.create(text).shadow_count
    except SettingError as error:
        raise SettingError(f"{name} has '{text}': {error}") from error


def _parsed(row: str) -> tuple[Setup, bool]:
    """A row of ``extra``: its setup, and whether it is asked with shadow models."""
    parts = [part.strip() for part in row.split(SEPARATOR)]
    if len(parts) < NAMED or not set(parts[NAMED:]) <= {AUGMENT, SHADOWS}:
        raise SettingError(f"extra has '{row}': write {ROW}.")
    dataset, model, defense, *marks = parts
    return Setup(dataset, model, defense, AUGMENT in marks), SHADOWS in marks
