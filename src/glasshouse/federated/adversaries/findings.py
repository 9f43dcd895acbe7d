"""What an adversary keeps in a federation's directory: its state and a picture of its samples, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from glasshouse.data.images import read_image
from glasshouse.data.pixels import to_pixels, to_png, to_tensor
from glasshouse.errors import StudyError
from glasshouse.federated.records import read_tensors, write_tensors
from glasshouse.files import write_atomic

COLUMNS = 8


class Findings:
    """The ``adversary`` folder of a federation. A round that is done again writes the same files again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "adversary"

    def keep(self, number: int, state: Mapping[str, Tensor], samples: Tensor) -> None:
        """Keep what goes on to the next round, and samples (N, C, H, W) in [0, 1] as one picture, eight in a row."""
        write_tensors(self.directory / f"{number:03d}.safetensors", state)
        rows = [torch.cat(list(row), dim=2) for row in samples.split(COLUMNS)]
        write_atomic(self.picture(number), to_png(to_pixels(torch.cat(rows, dim=1))))

    def before(self, number: int) -> dict[str, Tensor] | None:
        """What the last round before this one that the adversary took part in left to go on from."""
        earlier = self.rounds(number)
        return read_tensors(self.directory / f"{earlier[-1]:03d}.safetensors") if earlier else None

    def damaged(self, count: int) -> int | None:
        """The first of so many rounds whose state is not as it was written."""
        for number in self.rounds(count):
            try:
                read_tensors(self.directory / f"{number:03d}.safetensors")
            except StudyError:
                return number
        return None

    def rounds(self, count: int) -> list[int]:
        """The rounds, of the first so many, in which the adversary took part."""
        return [number for number in range(count) if self.picture(number).is_file()]

    def picture(self, number: int) -> Path:
        """Where the samples of a round are."""
        return self.directory / f"{number:03d}.png"

    def samples(self, number: int, height: int) -> Tensor:
        """The samples of a round as they are stored, (N, C, H, W) in [0, 1], of that height."""
        whole = to_tensor(read_image(self.picture(number)))
        return torch.cat([torch.stack(row.chunk(COLUMNS, dim=2)) for row in whole.split(height, dim=1)])
