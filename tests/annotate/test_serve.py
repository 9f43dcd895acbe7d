"""Where the page may be served."""

from __future__ import annotations

import http.client
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from glasshouse.annotate.serve import Address, listen, serve
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


def test_links_begin_with_the_address():
    assert Address(host="::1", port=9000).url == "http://[::1]:9000"
    assert Address(public_url="https://votes.example/").url == "https://votes.example"


@pytest.mark.parametrize(
    "url",
    ["votes.example", "ftp://votes.example", "https://", "https://a/b", "https://a@b", "https://a:b", "http://[:"],
)
def test_a_public_url_is_an_origin(url):
    with pytest.raises(SettingError, match="no address for links"):
        Address(public_url=url)


def test_a_port_that_is_taken_is_refused():
    taken, address = listen(Address(port=0))
    with taken, pytest.raises(SettingError, match=f"port {address.port} .*choose another"):
        listen(address)


@pytest.fixture
def certificate(tmp_path) -> tuple[Path, Path]:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed: apt install openssl")
    certfile, keyfile = tmp_path / "cert.pem", tmp_path / "key.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-days", "1", "-keyout", str(keyfile), "-out", str(certfile)]
    subprocess.run([program, "req", *kind, *names], check=True, capture_output=True)
    return certfile, keyfile


def test_over_tls_the_page_is_the_same_and_its_cookie_secure(make_study, forks, address, certificate):
    study = make_study()
    address = replace(address, certfile=certificate[0], keyfile=certificate[1])
    server = forks.Process(target=serve, args=(study.directory, study.database, address), daemon=True)
    server.start()
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    try:
        connection = connect(address, trusted)
        connection.request("GET", f"/join/{study.tokens[0]}")
        answer = connection.getresponse()
        assert answer.status == 200
        assert "Secure" in answer.headers["Set-Cookie"]
    finally:
        server.kill()
        server.join()


def connect(address: Address, context: ssl.SSLContext) -> http.client.HTTPSConnection:
    deadline = time.monotonic() + 30
    connection = http.client.HTTPSConnection(address.host, address.port, context=context)
    while True:
        try:
            connection.connect()
            return connection
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_the_command_serves_until_it_is_interrupted(make_study):
    study = make_study()
    command = [sys.executable, "-m", "glasshouse", "annotate", "serve", str(study.directory), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())[0]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url, timeout=30)
    server.send_signal(signal.SIGINT)
    out, _ = server.communicate(timeout=30)
    assert server.returncode == 0
    assert "Every answer that was shown as saved is saved." in out


def test_the_server_knows_no_torch():
    code = "import sys, glasshouse.annotate.serve; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
