"""The public names, and that they are what they say."""

from __future__ import annotations

import pytest

import glasshouse as gh


def test_public_names():
    assert sorted(gh.__all__) == [
        "AuditResult",
        "GlasshouseError",
        "attacks",
        "audit",
        "data",
        "defenses",
        "metrics",
        "models",
        "write_report",
    ]
    for name in gh.__all__:
        assert getattr(gh, name) is not None
        assert name in dir(gh)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gh.nothing  # noqa: B018


def test_every_error_derives_from_the_root():
    from glasshouse import errors

    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert len(found) > 8
    assert all(issubclass(one, errors.GlasshouseError) for one in found)


def test_rooms_create_by_name():
    assert gh.attacks.create("invgrad:steps=3").steps == 3
    assert gh.metrics.create("psnr").leaks_when == "high"
    assert gh.defenses.create("prune:percent=90").percent == 90
