"""Parts of a network that its server sends anew in every round: whatever clients learn, it begins with them again."""

from __future__ import annotations

from torch import Tensor, nn


class Held(nn.Module):
    """A part that clients train and share as any other, and that is the same again in the next round."""


def learning(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that change from round to round."""
    same = held(model)
    return [one for name, one in model.named_parameters() if name not in same]


def held(model: nn.Module) -> dict[str, Tensor]:
    """The state of the parts that every round begins with, by name in the whole model."""
    return {
        f"{name}.{own}" if name else own: value
        for name, part in model.named_modules()
        if isinstance(part, Held)
        for own, value in part.state_dict().items()
    }
