"""Passwords are taken out of URLs, whatever they hold, and nothing else is."""

from __future__ import annotations

import pytest

from glasshouse.urls import has_password, without_password

WITH = {
    "postgresql://user:secret@host:5432/x": "postgresql://user@host:5432/x",
    "--store=postgresql+psycopg://user:secret@host/x?sslmode=require": (
        "--store=postgresql+psycopg://user@host/x?sslmode=require"
    ),
    "postgresql://user:se@cr/et@host/x": "postgresql://user@host/x",
    "postgresql://user@host/x?password=secret": "postgresql://user@host/x",
    "postgresql://host/x?a=1&password=secret&b=2": "postgresql://host/x?a=1&b=2",
    "simplecache::ftp://user:secret@host/x": "simplecache::ftp://user@host/x",
}
WITHOUT = (
    "postgresql://user@host:5432/x",
    "s3://bucket/a:b@c",
    "ray://host:10001",
    "invgrad:steps=3,tv=0.01",
    "memory://x?",
)


@pytest.mark.parametrize("url", WITH)
def test_a_password_goes(url):
    assert has_password(url)
    assert without_password(url) == WITH[url]


@pytest.mark.parametrize("url", WITHOUT)
def test_all_else_stays(url):
    assert not has_password(url)
    assert without_password(url) == url
