"""Parts of a network that its server sends anew in every round: whatever clients learn, it begins with them again."""

from __future__ import annotations

from torch import nn


class Held(nn.Module):
    """A part that clients train and share as any other, and that is the same again in the next round."""


def learning(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that change from round to round."""
    held = {id(one) for part in model.modules() if isinstance(part, Held) for one in part.parameters()}
    return [one for one in model.parameters() if id(one) not in held]
