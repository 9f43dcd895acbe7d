"""Labels read off the last layer's gradient."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glasshouse.functional.labels import class_inputs, label_counts, row_sum_label, single_label, whole


def last_layer(features: torch.Tensor, labels: torch.Tensor, classes: int = 7):
    torch.manual_seed(1)
    weight, bias = torch.randn(classes, features.shape[1], requires_grad=True), torch.randn(classes, requires_grad=True)
    logits = features @ weight.T + bias
    gradients = torch.autograd.grad(F.cross_entropy(logits, labels), (bias, weight))
    return *gradients, logits.softmax(1).detach()


def test_one_image_is_exact_with_a_bias_whatever_the_features():
    for label in range(7):
        bias, weight, _ = last_layer(torch.randn(1, 5), torch.tensor([label]))
        assert single_label(bias, weight) == label


def test_one_image_is_exact_without_a_bias_for_non_negative_features():
    for label in range(7):
        _, weight, _ = last_layer(torch.rand(1, 5), torch.tensor([label]))
        assert single_label(None, weight) == label


def test_counts_are_exact_when_the_model_sees_all_images_of_a_class_alike():
    labels = torch.tensor([0, 0, 3, 3, 3, 5, 6, 6])
    prototypes = torch.randn(7, 5)
    bias, _, _ = last_layer(prototypes[labels], labels)
    _, _, probabilities = last_layer(prototypes, torch.arange(7))
    assert torch.equal(label_counts(bias, probabilities, 8), labels.bincount(minlength=7))


def test_the_row_of_a_class_holds_the_mean_input_of_its_images():
    features = 3 + torch.randn(4, 50)
    labels = torch.tensor([0, 0, 0, 3])
    logits = torch.zeros(4, 1000)  # so many classes that a row belongs to its own images almost alone
    pull = (logits.softmax(1) - F.one_hot(labels, 1000)) / 4
    inputs = class_inputs(pull.sum(0), pull.T @ features)
    assert torch.allclose(inputs[0], features[:3].mean(0), atol=0.05)
    assert torch.allclose(inputs[3], features[3], atol=0.05)


def test_a_row_that_cancels_is_cut_to_the_usual_length():
    weight, bias = torch.eye(4), torch.tensor([1.0, 1.0, 1.0, 1e-9])
    assert class_inputs(bias, weight).norm(dim=1).tolist() == [1.0] * 4


def test_counts_always_add_up():
    for seed in range(20):
        rng = torch.Generator().manual_seed(seed)
        evidence = torch.randn(7, generator=rng)
        assert int(label_counts(evidence, torch.rand(7, 7, generator=rng).softmax(1), 16).sum()) == 16


def test_whole_numbers_take_the_largest_remainders_and_nothing_known_is_all_alike():
    assert whole(torch.tensor([1.6, 0.3, 2.1]), 4).tolist() == [2, 0, 2]
    assert whole(torch.zeros(3), 4).tolist() == [2, 1, 1]


def test_idlg_reads_row_sums_which_is_exact_for_non_negative_features():
    for label in range(7):
        _, weight, _ = last_layer(torch.rand(1, 5), torch.tensor([label]))
        assert row_sum_label(weight) == label


def test_two_classes_are_told_by_the_bias():
    for label in range(2):
        bias, weight, _ = last_layer(torch.randn(1, 5), torch.tensor([label]), classes=2)
        assert single_label(bias, weight) == label


@pytest.mark.parametrize("noise", [0.0, 1e-3])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
def test_a_model_that_is_sure_of_a_wrong_class_tosses_no_coin(biased, noise):
    """softmax - one-hot is then 1 at the wrong class and -1 at the label."""
    rng = torch.Generator().manual_seed(0)
    for label in range(7):
        for wrong in {*range(7)} - {label}:
            features = torch.rand(5, generator=rng)
            pull = (60.0 * F.one_hot(torch.tensor(wrong), 7)).softmax(0) - F.one_hot(torch.tensor(label), 7)
            weight, bias = torch.outer(pull, features), pull
            weight, bias = (one + noise * torch.randn(one.shape, generator=rng) for one in (weight, bias))
            assert single_label(bias if biased else None, weight) == label


def test_without_a_bias_features_of_any_sign_will_do_unless_two_entries_are_alike():
    for label in range(7):
        pull = torch.full((7,), 1 / 7) - F.one_hot(torch.tensor(label), 7)
        assert single_label(None, torch.outer(pull, torch.tensor([-1.0, -2.0, 0.5]))) == label
