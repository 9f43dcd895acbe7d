"""Which device work runs on: a GPU where there is one, unless GLASSHOUSE_DEVICE says otherwise.

Few places know of devices: ``attack_all`` of attacks, ``fit`` and ``accuracy`` of training, metrics that look through
networks, and ``logits`` of membership attacks. Each puts a network on the device for the length of its work, shows it
what it needs there, and brings the results back, so that stores, scores and reports never see but the CPU. On the way,
whatever code makes by itself lies where its inputs lie.

Random numbers are drawn on the CPU, from the generator that was passed, and moved then: so a seed gives the same
start, the same noise and the same batches on every device. (Dropout alone draws where its network is.)
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain

import torch
from torch import nn

from glasshouse.errors import DeviceError

CPU = torch.device("cpu")
VARIABLE = "GLASSHOUSE_DEVICE"
KNOWN = re.compile(r"cpu|cuda(:\d+)?")


def wish() -> torch.device | None:
    """What GLASSHOUSE_DEVICE asks for: cpu, cuda (any GPU) or cuda:N; None where it says nothing."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    if not KNOWN.fullmatch(text):
        raise DeviceError(f"{VARIABLE}={text} names no device: use cpu, cuda, or cuda:N for the GPU of that number.")
    return torch.device(text)


def chosen() -> torch.device:
    """The device of this process."""
    there, wanted = _present(), wish()
    if wanted == CPU or (wanted is None and not there):
        return CPU
    number = 0 if wanted is None or wanted.index is None else wanted.index
    if number >= there:
        raise DeviceError(
            f"{VARIABLE}={os.environ[VARIABLE]}, but PyTorch sees {there or 'no'} GPU{'' if there == 1 else 's'} here: "
            f"use {VARIABLE}=cpu, or install a build of PyTorch that knows your GPU."
        )
    return torch.device("cuda", number)


def gpus() -> int:
    """Over how many GPUs work may be spread: all of them, or the one that was asked for."""
    wanted = wish()
    if chosen() == CPU:
        return 0
    return _present() if wanted is None or wanted.index is None else 1


def usual_workers() -> int:
    """How many processes work at once unless somebody says: one for each GPU, without any one for each core."""
    return gpus() or os.cpu_count() or 1


def share_of_gpu(workers: int) -> float:
    """Which part of a GPU each of so many processes may take, so that all of them find room."""
    return 1 / math.ceil(workers / gpus()) if gpus() else 0.0


def settle(worker: int) -> None:
    """Give the worker process of this number a GPU: the next one for each, from the first again after the last."""
    if gpus() > 1:
        os.environ[VARIABLE] = f"cuda:{worker % gpus()}"


def granted(gpu: bool) -> None:
    """Go by what a scheduler gave this process, the one GPU that it shows it or none, whatever was asked for."""
    os.environ[VARIABLE] = "" if gpu else CPU.type


def home_of(model: nn.Module) -> torch.device:
    """Where a model lies; one without parameters and buffers lies on the CPU."""
    first = next(chain(model.parameters(), model.buffers()), None)
    return CPU if first is None else first.device


@contextmanager
def placed(model: nn.Module, *, follows: bool = True) -> Iterator[torch.device]:
    """A model on the chosen device for the length of a block, then back where it was; gives the device.

    What does not follow a device, because it makes tensors on the CPU, has the model on the CPU instead.
    """
    device, home = chosen() if follows else CPU, home_of(model)
    try:
        with nullcontext() if device == CPU else _exact():
            _move(model, device)
            yield device
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            f"The memory of {device} does not hold this ({str(error).splitlines()[0]}): work on fewer images at once, "
            f"or set {VARIABLE}=cpu."
        ) from error
    finally:
        _move(model, home)


def _present() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _move(model: nn.Module, device: torch.device) -> None:
    if home_of(model) != device:
        model.to(device)


def _exact() -> AbstractContextManager[None]:
    """Convolutions in full single precision, and as repeatable as a GPU's can be: attacks blow roundings up."""
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
