"""What a study of federations is to do: a frozen plan, kept as ``study.toml``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.federated.plan import Federation
from glasshouse.registry import setting

SEPARATOR = "|"


@dataclass(frozen=True, kw_only=True)
class Federations:
    """The settings of a study; every combination of the lists is a federation of its own."""

    title: str = setting("federations", "what tables and the report call the study")
    datasets: tuple[str, ...] = setting(("digits",), "data set SPECs")
    models: tuple[str, ...] = setting(("mlp",), "model SPECs")
    defenses: tuple[str, ...] = setting(("none", "csvar"), "defense SPECs of every client; the first is the reference")
    extra: tuple[str, ...] = setting((), "further federations: 'DATASET | MODEL | DEFENSE'")
    single: tuple[str, ...] = setting((), "model SPECs that are trained with the first seed alone")
    seeds: tuple[int, ...] = setting((0,), "seeds; each is a federation of its own")
    clients: int = setting(4, "how many clients")
    rounds: int = setting(10, "how many rounds")
    local_epochs: int = setting(1, "passes of a client over its images in each round")
    batch: int = setting(16, "images per step of a client")
    lr: float = setting(0.05, "learning rate of the clients")
    momentum: float = setting(0.0, "Nesterov momentum of the clients, which begins anew in every round")
    split: str = setting("iid", "how images are dealt out to clients")
    images: int | None = setting(None, "train on so many images in all; none: on all")
    membership: tuple[str, ...] = setting(("loss",), "membership attack SPECs, of those that need no shadow models")
    watched: tuple[int, ...] = setting((), "rounds after which membership is asked as well as after the last")

    def __post_init__(self) -> None:
        for name in ("datasets", "models", "defenses", "seeds"):
            if not getattr(self, name):
                raise SettingError(f"There are no {name}: name at least one.")
        for number in self.watched:
            checks.between("watched", number, 1, self.rounds)
        for row in self.extra:
            if row.count(SEPARATOR) != 2:
                raise SettingError(f"extra has '{row}': write 'DATASET | MODEL | DEFENSE'.")
        _ = list(self.federations())

    def federations(self) -> Iterator[Federation]:
        """Every federation of the plan, those of one data set together."""
        product = [(d, m, g) for d in self.datasets for m in self.models for g in self.defenses]
        written = [tuple(part.strip() for part in row.split(SEPARATOR)) for row in self.extra]
        for dataset, model, defense in dict.fromkeys([*product, *((a, b, c) for a, b, c in written)]):
            for seed in self.seeds[:1] if model in self.single else self.seeds:
                yield Federation(
                    dataset=dataset,
                    model=model,
                    defense=defense,
                    clients=self.clients,
                    rounds=self.rounds,
                    local_epochs=self.local_epochs,
                    batch=self.batch,
                    lr=self.lr,
                    momentum=self.momentum,
                    split=self.split,
                    images=self.images,
                    seed=seed,
                )
