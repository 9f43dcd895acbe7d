"""A GPU that this machine has not: tensors that say they lie on it, and do not meet those that lie on the CPU.

All values are computed on the CPU; pretended is only where each tensor lies, and kept is what a real GPU keeps to. So
whole attacks run, look at their values and give what they give without a GPU, unless code makes a tensor of its own
in the wrong place, which is an error here as there. (PyTorch's FakeTensorMode knows no values, and without CUDA in the
build it cannot index what claims to lie on a GPU.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ATEN = torch.ops.aten
COPIES = {ATEN.copy_.default, ATEN.copy.default}  # go from one device to another
INDEXED = {ATEN.index.Tensor, ATEN.index_put.default, ATEN.index_put_.default, ATEN._index_put_impl_.default}


class Memory:
    """The memory of the pretended GPU: storages, which views and changes in place share, and what was done where."""

    def __init__(self) -> None:
        self.storages: dict[int, torch.UntypedStorage] = {}  # held, so that no address is given out twice
        self.inside: torch.device | None = None  # where the arguments of the call lie that PyTorch is at
        self.work: dict[torch.device, Counter[str]] = {CPU: Counter(), GPU: Counter()}

    def device_of(self, tensor: Tensor) -> torch.device:
        """Where a tensor is pretended to lie."""
        return GPU if _storage(tensor)._cdata in self.storages else CPU

    def put(self, tensor: Tensor, device: torch.device) -> Tensor:
        """Say where a tensor lies."""
        storage = _storage(tensor)
        if device == GPU:
            self.storages[storage._cdata] = storage
        else:
            self.storages.pop(storage._cdata, None)
        return tensor


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    with torch._C.DisableTorchFunction():
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
        return tensor.untyped_storage()


class Kernels(TorchDispatchMode):
    """What every operation keeps to: one device for all its tensors, on which its results lie."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        device = self._common(function, tensors) if tensors else self.memory.inside or CPU
        if device == GPU and torch.Tag.nondeterministic_seeded in function.tags:
            raise RuntimeError(f"{function} draws random numbers on {GPU}: draw them on the CPU, by the generator")
        self.memory.work[device][function.overloadpacket.__name__] += 1
        found = function(*args, **kwargs)
        if device == GPU:
            for one in tree_leaves(found):
                if isinstance(one, Tensor):
                    self.memory.put(one, GPU)
        return found

    def _common(self, function: Any, tensors: list[Tensor]) -> torch.device:
        places = [self.memory.device_of(one) for one in tensors]
        if function in COPIES or (function in INDEXED and places[0] == GPU):  # indices of a GPU's may lie on the CPU
            return places[0]
        if torch.Tag.pointwise in function.tags:  # single numbers of the CPU go along
            places = [place for place, one in zip(places, tensors, strict=True) if one.ndim or place == GPU] or [CPU]
        if len(set(places)) > 1:
            raise RuntimeError(f"Expected all tensors to be on the same device, but {function} got {places}")
        return places[0]


class Calls(TorchFunctionMode):
    """What Python sees of the pretence: the attribute ``device``, moves, and factories that are told a device."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        own = args[0] if args and isinstance(args[0], Tensor) else None
        if own is not None and function == Tensor.device.__get__:
            return self.memory.device_of(own)
        if own is not None and name in ("to", "cpu"):
            return self._moved(own, function, args[1:], kwargs)
        if own is not None and name in ("numpy", "__array__") and self.memory.device_of(own) == GPU:
            raise TypeError(f"can't convert {GPU} device type tensor to numpy: use Tensor.cpu() first")
        asked = _as_device(kwargs.get("device"))
        if asked is not None:
            kwargs["device"] = CPU
        found = self._called(function, args, kwargs)
        if asked is not None or name == "__deepcopy__":  # which copies memory without an operation
            self.memory.put(found, asked or self.memory.device_of(args[0]))
        return found

    def _called(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call; what PyTorch makes by itself on the way lies where the arguments do."""
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        before = self.memory.inside
        self.memory.inside = GPU if any(self.memory.device_of(one) == GPU for one in tensors) else CPU
        try:
            return function(*args, **kwargs)
        finally:
            self.memory.inside = before

    def _moved(self, own: Tensor, function: Any, args: Any, kwargs: Any) -> Any:
        home = self.memory.device_of(own)
        wanted = CPU if function is Tensor.cpu else None
        for one in (*args, *kwargs.values()):
            wanted = self.memory.device_of(one) if isinstance(one, Tensor) else _as_device(one) or wanted
        args = [CPU if _as_device(one) else one for one in args]
        kwargs = {key: CPU if _as_device(one) else one for key, one in kwargs.items()}
        found = self._called(function, (own, *args), kwargs)
        return found if wanted in (None, home) else self.memory.put(found.clone(), wanted)


def _as_device(value: object) -> torch.device | None:
    """The CPU or the GPU, where a value names one of them."""
    if not isinstance(value, str | torch.device):
        return None
    named = torch.device(value)
    return {"cpu": CPU, "cuda": GPU}.get(named.type)


@contextmanager
def pretended_gpu() -> Iterator[Memory]:
    """A GPU for the length of a block."""
    memory = Memory()
    with Calls(memory), Kernels(memory):
        yield memory
