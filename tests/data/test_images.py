from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from glasshouse.data import images
from glasshouse.data.images import FORMATS, fit, read_image
from glasshouse.errors import DataError

NOISE = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)


def encoded(image, kind="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def png_header(width, height):
    """A PNG of a few bytes that claims to be large."""
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = {b"IHDR": header, b"IDAT": zlib.compress(b""), b"IEND": b""}
    parts = [struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks.items()]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def tiff_with_second_frame():
    """A TIFF whose directory says that another directory follows, which holds nothing."""
    content = bytearray(encoded(Image.fromarray(NOISE), "TIFF"))
    (start,) = struct.unpack_from("<I", content, 4)
    (entries,) = struct.unpack_from("<H", content, start)
    struct.pack_into("<I", content, start + 2 + 12 * entries, len(content))
    return bytes(content) + bytes(6)


VALID = encoded(Image.fromarray(NOISE))


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tiff", ".ppm", ".PNG"])
def test_lossless_formats_give_the_pixels_back(tmp_path, suffix):
    Image.fromarray(NOISE).save(tmp_path / f"a{suffix}")
    assert np.array_equal(read_image(tmp_path / f"a{suffix}"), NOISE)


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("1", 1), ("LA", 1), ("RGB", 3), ("RGBA", 3), ("P", 3)])
def test_every_8_bit_mode_gives_grey_or_colour(tmp_path, mode, channels):
    grey = Image.new("L", (12, 9), 255)
    grey.convert(mode).save(tmp_path / "a.png")
    pixels = read_image(tmp_path / "a.png")
    assert (pixels.shape, pixels.dtype) == ((9, 12, channels), np.uint8)
    assert (pixels == 255).all()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_read_under_each_of_its_suffixes(tmp_path, kind):
    for suffix in FORMATS[kind]:
        (tmp_path / f"a{suffix}").write_bytes(encoded(Image.new("RGB", (5, 4), (10, 200, 30)), kind))
        pixels = read_image(tmp_path / f"a{suffix}")
        assert pixels.shape == (4, 5, 3)
        assert np.abs(pixels.astype(int) - (10, 200, 30)).max() <= 8


BAD = {
    "truncated": ("a.png", VALID[: len(VALID) // 2], "damaged or truncated"),
    "truncated JPEG": ("a.jpg", encoded(Image.fromarray(NOISE), "JPEG")[:-40], "damaged or truncated"),
    "0 bytes": ("a.png", b"", "0 bytes"),
    "16 bits": ("a.png", encoded(Image.fromarray(np.full((4, 4), 40_000, np.uint16))), "pixel mode I;16"),
    "floats": ("a.tif", encoded(Image.fromarray(np.ones((4, 4), np.float32)), "TIFF"), "pixel mode F"),
    "CMYK": ("a.jpg", encoded(Image.new("CMYK", (4, 4)), "JPEG"), "pixel mode CMYK"),
    "animated": (
        "a.gif",
        encoded(Image.new("L", (4, 4)), "GIF", save_all=True, append_images=[Image.new("L", (4, 4), 255)]),
        "animated .2 frames",
    ),
    "wrong suffix": ("a.png", encoded(Image.fromarray(NOISE), "JPEG"), r"JPEG inside: rename it to \.jpg"),
    "text": ("a.png", b"a text that somebody called an image\n", "not an image"),
    "another format": ("a.png", encoded(Image.fromarray(NOISE), "ICO"), "not an image"),
    "second frame without dimensions": ("a.tif", tiff_with_second_frame(), "damaged or truncated"),
    "bomb": ("a.png", png_header(60_000, 60_000), "decompression bomb"),
    "large": ("a.png", png_header(9_000, 9_000), "more than 64,000,000 pixels"),
}


@pytest.mark.parametrize(("name", "content", "reason"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_by_name_with_the_reason(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"^{name} .*{reason}"):
        read_image(tmp_path / name)


def test_the_limit_of_pixels_counts_them_all(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(VALID)
    monkeypatch.setattr(images, "MAX_PIXELS", 9 * 12)
    assert read_image(tmp_path / "a.png").shape == (9, 12, 3)
    monkeypatch.setattr(images, "MAX_PIXELS", 9 * 12 - 1)
    with pytest.raises(DataError, match="more than 107 pixels"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: None], ids=["directory", "missing"])
def test_what_is_no_file_is_refused_by_name(tmp_path, make):
    make(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"^a\.png "):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("transpose", [False, True], ids=["wide", "tall"])
def test_fit_crops_the_centre_square(transpose):
    wide = np.zeros((4, 10, 1), np.uint8)
    wide[:, 3:7] = np.arange(16, dtype=np.uint8).reshape(4, 4, 1)
    pixels, centre = (wide.swapaxes(0, 1), wide[:, 3:7].swapaxes(0, 1)) if transpose else (wide, wide[:, 3:7])
    assert np.array_equal(fit(pixels, 4, None), centre)


def test_fit_turns_grey_to_three_equal_channels_and_back():
    colour = fit(NOISE[:, :, :1], None, 3)
    assert np.array_equal(colour, NOISE[:, :, [0, 0, 0]])
    assert np.array_equal(fit(colour, None, 1), NOISE[:, :, :1])


def test_fit_turns_colour_to_its_luma():
    luma = NOISE @ (0.299, 0.587, 0.114)
    assert np.abs(fit(NOISE, None, 1)[:, :, 0] - luma).max() <= 1


def test_fit_leaves_what_fits_alone():
    assert np.array_equal(fit(NOISE[:, :9], 9, 3), NOISE[:, :9])


def test_fit_keeps_the_mean_colour():
    smooth = np.linspace(0, 255, 40 * 40 * 3).astype(np.uint8).reshape(40, 40, 3)
    assert np.abs(fit(smooth, 8, None).mean((0, 1)) - smooth.mean((0, 1))).max() < 1.5


@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.sampled_from([1, 3]),
    size=st.integers(1, 40),
    wanted=st.sampled_from([None, 1, 3]),
)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_fit_keeps_the_dtype_and_gives_a_square(height, width, channels, size, wanted):
    fitted = fit(np.full((height, width, channels), 77, np.uint8), size, wanted)
    assert (fitted.dtype, fitted.shape) == (np.uint8, (size, size, wanted or channels))
    assert (fitted == 77).all()


def outcome(path, content):
    path.write_bytes(content)
    try:
        return read_image(path)
    except DataError as error:
        return str(error)


STARTS = (b"", VALID[:8], VALID[:33], b"\xff\xd8\xff", b"GIF89a", b"BM")


@given(content=st.binary(max_size=200), start=st.sampled_from(STARTS))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_random_bytes_give_an_image_or_a_data_error(tmp_path_factory, start, content):
    found = outcome(tmp_path_factory.getbasetemp() / "random.png", start + content)
    assert "random.png" in found if isinstance(found, str) else (found.dtype, found.ndim) == (np.uint8, 3)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_mutated_images_give_an_image_or_a_data_error(tmp_path_factory, kind, changes):
    content = bytearray(encoded(Image.fromarray(NOISE), kind))
    for place, value in changes:
        content[place % len(content)] = value
    path = tmp_path_factory.getbasetemp() / f"mutated{FORMATS[kind][0]}"
    found = outcome(path, bytes(content))
    assert path.name in found if isinstance(found, str) else (found.dtype, found.ndim) == (np.uint8, 3)
