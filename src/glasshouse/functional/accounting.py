"""The least noise of DP-SGD that keeps a promise: Opacus's search over its Renyi accountant, without idle work.

Nearly all of Opacus's time goes into orders that cannot give the least epsilon. The divergence grows with its order,
so an order gives at least what the divergence of a lower order would give in its place: where that is too much already,
the order is not computed. What is found is the same to the bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ORDERS = (72, 96, 128, 192, 256, 512, 1024)  # of Renyi divergence, beside Opacus's own: small epsilons need large ones
FIRST, LARGEST = 20.0, 1e6  # noise that a search begins with, and gives up at, as that of Opacus does


@dataclass(frozen=True, slots=True)
class Account:
    """So many Poisson batches at a sampling rate, and the delta that is promised for them."""

    delta: float
    sample_rate: float
    steps: int

    def epsilon(self, noise: float, limit: float = math.inf) -> float:
        """The epsilon that is promised under noise in multiples of the clipping norm; infinite above the limit."""
        from opacus.accountants import RDPAccountant

        orders = [float(order) for order in (*RDPAccountant.DEFAULT_ALPHAS, *ORDERS)]
        known, least = {1.0: 0.0}, math.inf  # the divergence of order 1 is not negative
        for order in sorted(orders, key=lambda order: (not order.is_integer(), order)):
            below = known[max(one for one in known if one < order)]
            if self._promised(order, below) < min(least, math.nextafter(limit, math.inf)):
                known[order] = self._divergence(noise, order)
                least = min(least, self._promised(order, known[order]))
        return least if least <= limit else math.inf

    def noise(self, epsilon: float, tolerance: float) -> float | None:
        """The least noise by bisection, so near that the promise falls short by less than the tolerance, if any."""
        low, high = 0.0, FIRST
        spent = self.epsilon(high, epsilon)
        while spent > epsilon:
            high *= 2
            spent = self.epsilon(high, epsilon)
            if high > LARGEST:
                return None
        while epsilon - spent > tolerance:
            middle = (low + high) / 2
            found = self.epsilon(middle, epsilon)
            if found < epsilon:
                high, spent = middle, found
            else:
                low = middle
        return high

    def _divergence(self, noise: float, order: float) -> float:
        from opacus.accountants.analysis.rdp import compute_rdp

        found = float(compute_rdp(q=self.sample_rate, noise_multiplier=noise, steps=self.steps, orders=order))
        return math.inf if math.isnan(found) else found  # of an order that overflows

    def _promised(self, order: float, divergence: float) -> float:
        """From Renyi to (epsilon, delta), as Balle et al. 2020 convert it (theorem 21)."""
        return divergence - (math.log(self.delta) + math.log(order)) / (order - 1) + math.log((order - 1) / order)
