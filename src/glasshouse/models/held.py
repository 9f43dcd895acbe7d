"""Parts of a network that its server sends anew in every round: whatever clients learn, they stay as they are."""

from __future__ import annotations

from torch import nn


class Held(nn.Module):
    """A part that training does not change, though its gradient is shared as all gradients are."""


def learning(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that training changes."""
    held = {id(one) for part in model.modules() if isinstance(part, Held) for one in part.parameters()}
    return [one for one in model.parameters() if id(one) not in held]
