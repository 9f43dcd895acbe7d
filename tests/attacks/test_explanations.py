"""Explanations by autograd: one local step is a gradient, soft labels find the hard ones, problems stay apart."""

from __future__ import annotations

import dataclasses

import torch

from glasshouse.attacks.engine.objectives import Cosine
from glasshouse.attacks.engine.problems import Problem
from glasshouse.attacks.explanations import Matched, SoftlyLabelled, Unrolled

ALL = torch.arange(2)


def problems(model, photos, observe):
    seen = [observe(model, photos[n : n + 1], torch.tensor([n + 2]), give=True) for n in range(2)]
    return seen[0], [Problem(one.rounds[0].tensors, one.labels) for one in seen]


def test_one_local_step_is_explained_as_a_gradient(lenet, small_photos, observe):
    seen, known = problems(lenet, small_photos, observe)
    message = dataclasses.replace(seen.rounds[0], kind="update", learning_rate=0.1)
    update = dataclasses.replace(seen, rounds=(message,))
    guess = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    (values, pulls), (others, unrolled) = (
        kind(lenet, one, known, Cosine()).step(guess, ALL) for kind, one in ((Matched, seen), (Unrolled, update))
    )
    torch.testing.assert_close(values, others)
    torch.testing.assert_close(pulls, unrolled, rtol=1e-3, atol=1e-6)


def test_some_problems_are_explained_as_all_of_them_are(lenet, small_photos, observe):
    seen, known = problems(lenet, small_photos, observe)
    guess = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    explanation = Matched(lenet, seen, known, Cosine())
    whole = explanation.step(guess, ALL)
    for number in range(2):
        value, pull = explanation.step(guess[number : number + 1], torch.tensor([number]))
        torch.testing.assert_close(value[0], whole[0][number])
        torch.testing.assert_close(pull[0], whole[1][number], rtol=1e-3, atol=1e-6)


def test_soft_labels_move_to_the_right_ones_where_images_are_known(lenet, small_photos, observe):
    seen, known = problems(lenet, small_photos, observe)
    logits = torch.zeros(2, 10)
    explanation = SoftlyLabelled(lenet, seen, known, Cosine(), logits)
    for _ in range(15):
        explanation.step(small_photos[:2], ALL)
        explanation.learn(torch.tensor([0.3, 0.3]), ALL)
    assert explanation.labels.tolist() == [2, 3]
    before = explanation.logits.clone()
    explanation.step(small_photos[:2], ALL)
    explanation.learn(torch.tensor([0.3]), torch.tensor([1]))
    assert torch.equal(explanation.logits[0], before[0])
    assert not torch.equal(explanation.logits[1], before[1])
