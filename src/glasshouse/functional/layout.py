"""How images and networks lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

NARROW = 16  # input channels below which a 1x1 convolution with a stride is safe plane by plane only

#: Puts images (N, C, H, W) as a network wants them.
Lay = Callable[[Tensor], Tensor]


def planar(images: Tensor) -> Tensor:
    """Images (N, C, H, W) that lie plane by plane, copied only if they do not.

    ``contiguous`` is not enough: with one channel, channels-last memory counts as contiguous too, networks then
    compute channels last, and there oneDNN writes past its buffer in the weight gradient of a 1x1 convolution with
    stride 2 and fewer than 16 input channels (torch 2.13), which kills the process.
    """
    _, channels, height, width = images.shape
    if images.stride() == (channels * height * width, height * width, width, 1):
        return images
    return images.clone(memory_format=torch.contiguous_format)


def laid_as(values: Tensor, like: Tensor) -> Tensor:
    """Values that lie in memory as others of their shape do, copied only if they do not.

    Fused optimizers go through parameter and gradient in the order of memory and do not look whether both have the
    same (torch 2.13).
    """
    return values if values.stride() == like.stride() else torch.empty_like(like).copy_(values)


@contextmanager
def swiftest(model: nn.Module, image: Tensor) -> Iterator[Lay]:
    """A network on the CPU that lies as it computes fastest for the length of a block, then plane by plane again.

    With channels innermost convolutions take less time to train. Networks that have none, those that oneDNN would crash
    on (see :func:`planar`), and those that do not take an image (1, C, H, W) in this way, because they ``view`` what
    ``reshape`` would take, stay as they are. Gives what puts images in the same way.
    """
    if not _computes_channels_last(model):
        yield planar
        return
    nn.utils.convert_conv2d_weight_memory_format(model, torch.channels_last)
    swift = _takes(model, _innermost(image))
    if not swift:
        nn.utils.convert_conv2d_weight_memory_format(model, torch.contiguous_format)
    try:
        yield _innermost if swift else planar
    finally:
        nn.utils.convert_conv2d_weight_memory_format(model, torch.contiguous_format)


def _innermost(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def _takes(model: nn.Module, image: Tensor) -> bool:
    """Whether a network in eval mode can compute an image that lies like this."""
    model.eval()
    try:
        with torch.no_grad():
            model(image)
    except RuntimeError:
        return False
    return True


def _computes_channels_last(model: nn.Module) -> bool:
    convolutions = [part for part in model.modules() if isinstance(part, nn.Conv2d)]
    unsafe = (
        part.kernel_size == (1, 1) and max(part.stride) > 1 and part.in_channels < NARROW for part in convolutions
    )
    on_cpu = all(part.weight.device.type == "cpu" for part in convolutions)
    return bool(convolutions) and on_cpu and not any(unsafe)
