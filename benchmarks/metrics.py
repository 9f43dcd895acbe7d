"""SSIM against torchmetrics and scikit-image; LPIPS against its backbone's own forward pass; SemSim by the clock."""

from __future__ import annotations

import torch
from clock import best, row
from skimage.metrics import structural_similarity

from glasshouse.metrics import create
from glasshouse.metrics.lpips import CHUNK, TRUNKS, _prepare
from glasshouse.torchvision_cpu import allow_cpu_torchvision

allow_cpu_torchvision()
from torchmetrics.functional.image import structural_similarity_index_measure  # noqa: E402

PAIRS = 1000


def run() -> list[dict[str, object]]:
    """Measure the metrics on pairs of 32 px, every side on one thread, the least of several times."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)
    truth, guess = (torch.rand(PAIRS, 3, 32, 32, generator=rng) for _ in range(2))
    return [*ssim(truth, guess), *lpips(truth[:256], guess[:256]), *semsim(truth[:128], guess[:128])]


def ssim(truth: torch.Tensor, guess: torch.Tensor) -> list[dict[str, object]]:
    metric = create("ssim")
    mine = best(lambda: metric(truth, guess), repeats=15) / PAIRS
    other = structural_similarity_index_measure
    theirs = best(lambda: other(guess, truth, data_range=1.0, reduction="none"), repeats=5) / PAIRS
    few = [(a.numpy(), b.numpy()) for a, b in zip(truth[:100], guess[:100], strict=True)]

    def slow() -> list[float]:
        options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
        return [structural_similarity(a, b, data_range=1, channel_axis=0, **options) for a, b in few]

    reference = best(slow, repeats=5) / len(few)
    error = (metric(truth[:100], guess[:100]) - torch.tensor(slow())).abs().max()
    return [
        row("SSIM, microseconds per pair of 32 px", f"{mine * 1e6:.0f}", "", True),
        row("SSIM against torchmetrics", f"{theirs / mine:.1f}x faster", "5x", theirs / mine >= 5),
        row("SSIM against scikit-image", f"{reference / mine:.0f}x faster", "20x", reference / mine >= 20),
        row("SSIM, largest difference from scikit-image", f"{error:.1e}", "1e-5", bool(error < 1e-5)),
    ]


def lpips(truth: torch.Tensor, guess: torch.Tensor) -> list[dict[str, object]]:
    rows = []
    for net in ("alex", "vgg"):
        metric, trunk = create(f"lpips:net={net}"), TRUNKS[net]()
        count = len(truth) if net == "alex" else 64
        pairs = zip(truth[:count].split(CHUNK), guess[:count].split(CHUNK), strict=True)
        inputs = [_prepare(torch.cat(pair)) for pair in pairs]

        def forward(trunk=trunk, inputs=inputs) -> None:
            with torch.no_grad():
                for chunk in inputs:
                    trunk(chunk)

        whole = best(lambda metric=metric, count=count: metric(truth[:count], guess[:count]), repeats=9)
        ratio = whole / best(forward, repeats=9)
        rows.append(row(f"LPIPS {net} against its backbone's forward pass", f"{ratio:.2f}x", "1.2x", ratio <= 1.2))
    return rows


def semsim(truth: torch.Tensor, guess: torch.Tensor) -> list[dict[str, object]]:
    metric = create("semsim")
    speed = len(truth) / best(lambda: metric(truth, guess), repeats=9)
    return [row("SemSim, pairs per second on one core", f"{speed:.0f}", "150", speed >= 150)]
