"""Bytes of a message are those of the shortest coding that loses nothing."""

from __future__ import annotations

import torch

from glasshouse.functional.messages import message_bytes


def sparse(places, left):
    values = torch.zeros(places)
    values[:left] = 1.5
    return values


def test_a_full_gradient_takes_four_bytes_for_each_value():
    assert message_bytes([torch.ones(10, 5), torch.ones(3)]) == 4 * 53


def test_a_pruned_one_takes_its_values_and_where_they_lie():
    assert message_bytes([sparse(1000, 300)]) == 300 * 4 + 125  # a bit for each place
    assert message_bytes([sparse(1000, 10)]) == 10 * (4 + 4)  # so few that numbers are shorter
    assert message_bytes([sparse(1000, 990)]) == 4000  # so many that nothing is gained
    assert message_bytes([sparse(7, 1)]) == 4 + 1  # bits come in bytes


def test_each_tensor_has_its_own_coding_and_nothing_is_free_but_nothing():
    assert message_bytes([sparse(1000, 300), torch.ones(8)]) == 1325 + 32
    assert message_bytes([torch.zeros(1000)]) == 0
    assert message_bytes([torch.ones(4, dtype=torch.float64)]) == 32
