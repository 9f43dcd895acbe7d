"""Labels read off the last layer's gradient."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from glasshouse.functional.labels import label_counts, row_sum_label, single_label


def last_layer(features: torch.Tensor, labels: torch.Tensor, classes: int = 7):
    torch.manual_seed(1)
    weight, bias = torch.randn(classes, features.shape[1], requires_grad=True), torch.randn(classes, requires_grad=True)
    logits = features @ weight.T + bias
    gradients = torch.autograd.grad(F.cross_entropy(logits, labels), (bias, weight))
    return *gradients, logits.softmax(1).mean(0).detach()


def test_one_image_is_exact_with_a_bias_whatever_the_features():
    for label in range(7):
        bias, weight, _ = last_layer(torch.randn(1, 5), torch.tensor([label]))
        assert single_label(bias, weight) == label


def test_one_image_is_exact_without_a_bias_for_non_negative_features():
    for label in range(7):
        _, weight, _ = last_layer(torch.rand(1, 5), torch.tensor([label]))
        assert single_label(None, weight) == label


def test_counts_are_exact_when_the_mean_softmax_is_known():
    labels = torch.tensor([0, 0, 3, 3, 3, 5, 6, 6])
    bias, _, probabilities = last_layer(torch.randn(8, 5), labels)
    assert torch.equal(label_counts(bias, probabilities, 8), labels.bincount(minlength=7))


def test_counts_always_add_up():
    for seed in range(20):
        rng = torch.Generator().manual_seed(seed)
        evidence = torch.randn(7, generator=rng)
        assert int(label_counts(evidence, torch.rand(7, generator=rng).softmax(0), 16).sum()) == 16


def test_idlg_reads_row_sums_which_is_exact_for_non_negative_features():
    for label in range(7):
        _, weight, _ = last_layer(torch.rand(1, 5), torch.tensor([label]))
        assert row_sum_label(weight) == label


def test_two_classes_are_told_by_the_bias():
    for label in range(2):
        bias, weight, _ = last_layer(torch.randn(1, 5), torch.tensor([label]), classes=2)
        assert single_label(bias, weight) == label
