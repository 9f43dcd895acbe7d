"""iDLG reads the label first; what follows is DLG."""

from __future__ import annotations

import dataclasses

import torch

from glasshouse.attacks import attacks
from glasshouse.metrics import create as create_metric


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_recovers_image_and_label(lenet, small_photos, observe):
    truth = small_photos[2:3]
    seen = observe(lenet, truth, torch.tensor([7]))
    result = attacks.create("idlg:steps=15,restarts=1")(lenet, seen, rng=rng(3))
    assert float(create_metric("psnr")(truth, result.images)) > 25
    assert result.labels.tolist() == [7]


def test_ignores_given_labels_because_it_recovers_them(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[:1], torch.tensor([5]))
    seen = dataclasses.replace(seen, labels=torch.tensor([2]))
    assert attacks.create("idlg:steps=1")(lenet, seen, rng=rng()).labels.tolist() == [5]


def test_stops_when_it_has_converged(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[:1], torch.tensor([5]))
    loose = attacks.create("idlg:steps=8,restarts=1,stop_below=1e6")(lenet, seen, rng=rng())
    tight = attacks.create("idlg:steps=8,restarts=1,stop_below=0")(lenet, seen, rng=rng())
    assert loose.objective > tight.objective
