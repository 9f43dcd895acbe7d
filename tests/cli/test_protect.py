"""Keys, protecting, restoring and previews on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from glasshouse.cli.main import app
from glasshouse.errors import GlasshouseError


def invoke(*words: object):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_there_and_back(tmp_path):
    (tmp_path / "in").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "in" / "a.png")
    (tmp_path / "in" / "bad.png").write_bytes(b"")
    (tmp_path / "in" / "bad.png").chmod(0o600)
    key = tmp_path / "key"
    assert "keep it" in invoke("key", "new", key).output
    done = invoke("protect", tmp_path / "in", tmp_path / "out", "--epochs", 2, "--key-file", key, "--no-channel-wise")
    assert "skipped bad.png" in done.output
    assert "1 images in 2 versions each" in done.output
    invoke("unprotect", tmp_path / "out", tmp_path / "back", "--key-file", key, "--epoch", 1)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "back" / "a.png")), pixels)
    with pytest.raises(GlasshouseError, match="is not a key"):
        invoke("unprotect", tmp_path / "out", tmp_path / "b2", "--key-file", tmp_path / "in" / "bad.png")
    key.chmod(0o644)
    with pytest.raises(GlasshouseError, match="chmod 600"):
        invoke("unprotect", tmp_path / "out", tmp_path / "b3", "--key-file", key)


def test_preview(tmp_path):
    assert "Picture" in invoke("preview", "cat", "--size", 32, "--out", tmp_path / "p.png").output
    assert (tmp_path / "p.png").is_file()


def test_version():
    assert invoke("--version").output.strip()[0].isdigit()
