"""The least noise of DP-SGD, and what is promised under some noise, against Opacus's own search."""

from __future__ import annotations

import math
import warnings

import pytest

pytest.importorskip("opacus", reason="Opacus is not installed: pip install 'glasshouse[dp]'")

from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier

from glasshouse.functional.accounting import ORDERS, Account

ALPHAS = [*RDPAccountant.DEFAULT_ALPHAS, *ORDERS]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Optimal order is the")
        yield


@pytest.mark.parametrize(
    ("epsilon", "account"),
    [
        (1.0, Account(1e-5, 0.02, 1000)),
        (0.1, Account(1e-5, 0.01, 100)),
        (3.0, Account(1e-5, 1.0, 7)),
        (200.0, Account(1e-3, 0.05, 3)),
    ],
)
def test_the_search_ends_where_that_of_opacus_does(epsilon, account):
    expected = get_noise_multiplier(
        target_epsilon=epsilon,
        target_delta=account.delta,
        sample_rate=account.sample_rate,
        steps=account.steps,
        accountant="rdp",
        epsilon_tolerance=epsilon / 1000,
        alphas=ALPHAS,
    )
    assert account.noise(epsilon, epsilon / 1000) == expected


@pytest.mark.parametrize("noise", [0.4, 1.0, 5.0, 80.0])
def test_the_promise_is_that_of_all_orders(noise):
    account = Account(1e-5, 0.1, 50)
    theirs = RDPAccountant()
    theirs.history = [(noise, 0.1, 50)]
    expected = theirs.get_epsilon(1e-5, alphas=ALPHAS)
    assert account.epsilon(noise) == pytest.approx(expected, rel=1e-12)
    assert account.epsilon(noise, expected * 1.001) == account.epsilon(noise)
    assert account.epsilon(noise, expected * 0.999) == math.inf


def test_less_noise_than_none_keeps_no_promise():
    assert Account(1e-5, 1.0, 10).epsilon(0.0) == math.inf
    assert Account(1e-30, 1.0, 10**9).noise(1e-9, 1e-12) is None
