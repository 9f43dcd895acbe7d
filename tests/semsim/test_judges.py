"""What classifiers judge with, against an independent way to compute it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.covariance import LedoitWolf

from glasshouse.semsim.judges import Lens


@pytest.mark.parametrize(("copies", "width"), [(40, 12), (12, 40)])
def test_a_lens_whitens_by_the_shrunk_covariance_of_scikit_learn(copies, width):
    rng = torch.Generator().manual_seed(0)
    mixed = torch.randn(width, width, generator=rng, dtype=torch.double)
    differences = torch.randn(copies, width, generator=rng, dtype=torch.double) @ mixed
    spread = LedoitWolf(assume_centered=True).fit(differences.numpy()).covariance_
    sizes, directions = np.linalg.eigh(spread)
    whitening = directions / np.sqrt(sizes) @ directions.T
    seen = torch.randn(7, width, generator=rng, dtype=torch.double)
    found = Lens.of(differences.float())(seen.float())
    assert np.allclose(found.numpy(), seen.numpy() @ whitening, rtol=1e-3, atol=1e-4)
