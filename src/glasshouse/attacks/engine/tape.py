"""Gradient matching for many problems at once: a network as a list of nodes, and two sweeps through it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from glasshouse.attacks.engine.convolution import ConvLayer
from glasshouse.attacks.engine.folded import FoldedLayer
from glasshouse.attacks.engine.functions import FUNCTIONS, LINEAR, MODULES, LinearMap, Rectifier, Sum
from glasshouse.attacks.engine.layers import BatchNormLayer, Layer, LinearLayer, ModuleLayer
from glasshouse.attacks.engine.matcher import Matcher, Stacked, parameter_bytes
from glasshouse.attacks.engine.nodes import Node, Operation, Unsupported
from glasshouse.attacks.engine.objectives import Objective
from glasshouse.attacks.engine.packed import Packed

LAYERS: tuple[type[Layer], ...] = (LinearLayer, ConvLayer, BatchNormLayer, ModuleLayer)
PASSES = 4  # forward and back, twice


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A node, and which values it takes: 0 are the images, n is what the n-th entry made."""

    node: Node
    sources: tuple[int, ...]


class Tape(Matcher):
    """A network prepared for two sweeps, with weights that stay as they are; ``whole`` takes all of it as one node."""

    def __init__(self, model: nn.Module, group: int, *, whole: bool = False) -> None:
        self.model = model
        self.group = group
        self.entries = (
            [_Entry(_start(ModuleLayer(model, "", group)), (0,))] if whole else _Builder(model, group).entries
        )
        self.layers = [entry.node for entry in self.entries if isinstance(entry.node, Layer)]
        self.buffer: Tensor | None = None

    def pack(self, target: Stacked) -> Packed:
        """Gradients (problems, *parameter.shape) in the layout of the layers, side by side."""
        own = dict(self.model.named_parameters())
        packed: dict[str, Tensor] = {}
        for layer in self.layers:
            given = [target.get(name, own[name].detach()[None]) for name in layer.parameters]
            packed |= dict(zip(layer.parameters, layer.pack(given), strict=True))
        return Packed.of({name: packed[name] for name in target})

    @torch.no_grad()
    def step(self, images: Tensor, labels: Tensor, target: Stacked, objective: Objective) -> tuple[Tensor, Tensor]:
        """Objectives and derivatives."""
        if not isinstance(target, Packed):
            raise TypeError("The engine takes what its pack() returned: pack the gradients first.")
        logits = self._forward(images)
        chances = logits.softmax(1)
        truth = labels if labels.is_floating_point() else F.one_hot(labels, logits.shape[1]).to(logits.dtype)
        weight = truth.sum(1, keepdim=True) / self.group
        found = self._back(chances * weight - truth / self.group, target)
        values, (direction,) = objective([found.whole], [target.whole])
        moved = self._tangent(found.holding(direction))
        # how the cross-entropy's gradient moves with the logits
        bent = chances * (moved - (chances * moved).sum(1, keepdim=True)) * weight
        return values, self._tangent_back(bent)

    @torch.no_grad()
    def bytes_per_problem(self, image: tuple[int, int, int]) -> int:
        """Target and gradient, all that layers return in four passes, and what they keep beside it."""
        graphs = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal graphs
            graphs += tensor.nbytes
            return tensor

        with saved_tensors_hooks(count, lambda tensor: tensor):
            values = self._values(next(self.model.parameters()).new_zeros((self.group, *image)))
        made = sum(value.nbytes for value in values if isinstance(value, Tensor))
        kept = [layer.kept for layer in self.layers]
        on_the_way = 2 * max(kept)  # what a layer unfolds on its way back
        return 2 * parameter_bytes(self.model) + PASSES * (made + graphs) + sum(kept) + on_the_way

    def _values(self, images: Tensor) -> list[Any]:
        """The images, and what every entry makes of them."""
        values: list[Any] = [images.detach().contiguous(memory_format=torch.channels_last)]
        for entry in self.entries:
            values.append(entry.node.forward(*(values[source] for source in entry.sources)))
        return values

    def _forward(self, images: Tensor) -> Tensor:
        logits = self._values(images)[-1]
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            raise Unsupported("a model that returns no logits (N, classes)")
        return logits

    def _back(self, d: Tensor, target: Packed) -> Packed:
        """The gradients of every problem's loss by the parameters of the target, in memory that is used again."""
        problems, values = target.whole.shape
        if self.buffer is None or self.buffer.shape[1] != values or len(self.buffer) < problems:
            self.buffer = torch.empty_like(target.whole)
        found, written = target.holding(self.buffer[:problems]), set[str]()
        self._sweep_back(d, lambda node, own: self._back_through(node, own, found, written))
        for name in found.keys() - written:
            found[name].zero_()
        return found

    def _back_through(self, node: Node, d: Tensor, found: Packed, written: set[str]) -> Any:
        if not isinstance(node, Layer):
            return node.back(d) if node.moves else ()
        again = written & set(node.parameters)
        node.gradients = tuple(
            torch.empty_like(found[name]) if name in again else found.get(name) for name in node.parameters
        )
        into = node.back(d)
        for name, gradient in zip(node.parameters, node.gradients, strict=True):
            if name in again and gradient is not None:
                found[name].add_(gradient)
        written.update(node.parameters)
        return into

    def _tangent(self, direction: Mapping[str, Tensor]) -> Tensor:
        tangents: list[Tensor | None] = [None]
        for entry in self.entries:
            if isinstance(entry.node, Layer):
                entry.node.direction = tuple(direction.get(name) for name in entry.node.parameters)
            own = (tangents[source] for source in entry.sources)
            tangents.append(entry.node.tangent(*own) if entry.node.moves or isinstance(entry.node, Layer) else None)
        if tangents[-1] is None:
            raise Unsupported("a model whose logits do not move with its parameters")
        return tangents[-1]

    def _tangent_back(self, d: Tensor) -> Tensor:
        derivative = self._sweep_back(d, lambda node, own: node.tangent_back(own))[0]
        if derivative is None:
            raise Unsupported("a model whose logits do not depend on the images")
        return derivative.contiguous()

    def _sweep_back(self, d: Tensor, through: Callable[[Node, Tensor], Any]) -> list[Tensor | None]:
        """Carry a derivative by the logits back to the images, adding up where ways meet."""
        adjoints: list[Tensor | None] = [None] * len(self.entries) + [d]
        for number in range(len(self.entries), 0, -1):
            own, adjoints[number] = adjoints[number], None
            if own is None:
                continue
            entry = self.entries[number - 1]
            for source, part in zip(entry.sources, through(entry.node, own), strict=False):
                if part is not None:
                    before = adjoints[source]
                    adjoints[source] = part if before is None else before + part
        return adjoints


class _Tracer(fx.Tracer):
    """Looks into containers, not into what owns parameters or has none."""

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        """Modules that the engine takes as one."""
        return _owns(module) or not any(True for _ in module.parameters())


class _Builder:
    """Turns a traced model into entries."""

    def __init__(self, model: nn.Module, group: int) -> None:
        self.model, self.group = model, group
        self.entries: list[_Entry] = []
        self.places: dict[fx.Node, int] = {}  # of values that are made from the images
        self.constants: dict[fx.Node, Any] = {}
        self.moving: set[int] = set()  # values behind parameters
        try:
            graph = _Tracer().trace(model)
        except Exception as error:  # a model's own code may raise anything on stand-ins for its values
            raise Unsupported("code that looks at values") from error
        for node in reversed(list(graph.nodes)):
            if not node.users and node.op not in ("placeholder", "output"):
                graph.erase_node(node)  # the model's code makes it and never looks at it
        for node in graph.nodes:
            self._add(node)
        self._share_memory()

    def _add(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            if self.places:
                raise Unsupported("a model with several inputs")
            self.places[node] = 0
        elif node.op == "get_attr":
            self.constants[node] = self._constant(str(node.target))
        elif node.op != "output":
            self._call(node)

    def _share_memory(self) -> None:
        """Let rectifiers and sums write over what nobody else looks at."""
        uses = Counter(source for entry in self.entries for source in entry.sources)
        for entry in self.entries:
            source = entry.sources[0] if entry.sources else 0
            if isinstance(entry.node, Rectifier | Sum) and source and uses[source] == 1:
                entry.node.overwrites = self.entries[source - 1].node.fresh

    def _constant(self, path: str) -> Any:
        owner, _, name = path.rpartition(".")
        value = getattr(self.model.get_submodule(owner), name)
        if isinstance(value, nn.Parameter):
            raise Unsupported("a parameter that the model's own code computes with")
        return value

    def _call(self, node: fx.Node) -> None:
        if node.op == "call_module" and _passes(self.model.get_submodule(str(node.target))):
            self.places[node] = self.places[node.all_input_nodes[0]]
            return
        made, sources = self._node(node)
        places = tuple(self.places[source] for source in sources)
        if isinstance(made, BatchNormLayer) and self._folds(made, sources[0]):
            self.places[node] = places[0]
            return
        made.moves = any(place in self.moving for place in places)
        self.entries.append(_Entry(made, places))
        self.places[node] = len(self.entries)
        if made.moves or isinstance(made, Layer):
            self.moving.add(len(self.entries))

    def _folds(self, norm: BatchNormLayer, source: fx.Node) -> bool:
        """Whether batch norm goes into the convolution right before it, whose output nobody else looks at."""
        known = source.op == "call_module" and isinstance(self.model.get_submodule(str(source.target)), nn.Conv2d)
        if not known or len(source.users) > 1:
            return False
        place = self.places[source] - 1
        entry = self.entries[place]
        if not isinstance(entry.node, ConvLayer):
            return False
        self.entries[place] = _Entry(FoldedLayer(entry.node, norm), entry.sources)
        return True

    def _node(self, node: fx.Node) -> tuple[Node, list[fx.Node]]:
        """The node for a call, and the values that it takes."""
        sources = [one for one in node.all_input_nodes if one in self.places]
        plain = {key: value for key, value in node.kwargs.items() if key != "inplace"}
        target: Any = node.target
        if node.op == "call_module":
            module = self.model.get_submodule(target)
            if len(sources) != 1 or len(node.args) != 1 or plain:
                raise Unsupported("a module with several inputs")
            return self._module(module, target), sources
        if target in FUNCTIONS and not plain and all(one in self.places for one in node.args):
            return FUNCTIONS[target](), list(node.args)  # type: ignore[arg-type]
        function = self._function(node, sources)
        if target in LINEAR and len(sources) == 1 and node.args[:1] == (sources[0],):
            return LinearMap(function), sources
        return Operation(function), sources

    def _module(self, module: nn.Module, path: str) -> Node:
        if any(True for _ in module.parameters()):
            kind = next(kind for kind in LAYERS if kind.fits(module))
            return kind(module, path, self.group)
        return MODULES.get(type(module), Operation)(module)

    def _function(self, node: fx.Node, sources: list[fx.Node]) -> Callable[..., Any]:
        """A call as a function of the values that it takes."""
        target: Any = node.target

        def call(*values: Any) -> Any:
            known = dict(zip(sources, values, strict=True))
            arguments, keywords = fx.node.map_arg(
                (node.args, node.kwargs), lambda one: known[one] if one in known else self.constants[one]
            )
            if node.op == "call_method":
                return getattr(arguments[0], target)(*arguments[1:], **keywords)
            return target(*arguments, **keywords)

        return call


def _owns(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


def _passes(module: nn.Module) -> bool:
    """Whether a module returns what it gets: an empty shortcut, dropout in eval mode."""
    idle = isinstance(module, nn.Dropout | nn.Dropout2d) and not module.training
    return idle or type(module) is nn.Identity or (type(module) is nn.Sequential and not len(module))


def _start(node: Node) -> Node:
    """A node that comes first: no parameters lie before it."""
    node.moves = False
    return node
