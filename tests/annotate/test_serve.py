"""Where the page may be served."""

from __future__ import annotations

import pytest

from glasshouse.annotate.serve import Address
from glasshouse.errors import SettingError


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_no_encryption(host):
    assert Address(host=host).is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_others_are_served_over_tls_or_with_eyes_open(host, tmp_path):
    with pytest.raises(SettingError, match="--i-know-this-is-not-encrypted"):
        Address(host=host)
    assert not Address(host=host, unencrypted=True).is_encrypted
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).touch()
    assert Address(host=host, certfile=tmp_path / "cert.pem", keyfile=tmp_path / "key.pem").is_encrypted


def test_tls_needs_both_files(tmp_path):
    (tmp_path / "cert.pem").touch()
    with pytest.raises(SettingError, match="together"):
        Address(certfile=tmp_path / "cert.pem")
    with pytest.raises(SettingError, match="is not a file"):
        Address(certfile=tmp_path / "cert.pem", keyfile=tmp_path / "none.pem")


def test_ports_are_ports():
    with pytest.raises(SettingError, match="port=70000"):
        Address(port=70_000)


def test_links_begin_with_the_address(tmp_path):
    assert Address(host="::1", port=9000).url == "http://[::1]:9000"
