"""CSVAR against a slow reference of its own, its invariants for every shape, and its format."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from glasshouse.defenses import create, csvar
from glasshouse.errors import DataError, SettingError
from glasshouse.registry import complete_spec, to_spec
from glasshouse.types import Stage

KEY = bytes(range(32))


# --- an independent slow version: numpy's own Philox, plain loops, fractions of integers ---


def slow_stream(key: bytes, identity: str, epoch: int):
    digest = hashlib.blake2b(epoch.to_bytes(8, "big") + identity.encode(), key=key, digest_size=16, person=b"csvar-1")
    philox = np.random.Philox(key=int.from_bytes(digest.digest(), "little"), counter=0)
    while True:
        word = int(philox.random_raw())
        yield word & 0xFFFFFFFF
        yield word >> 32


def slow_order(count: int, numbers) -> list[int]:
    order = list(range(count))
    for place in range(count - 1, 0, -1):
        bound = place + 1
        while True:
            product = next(numbers) * bound
            if product % 2**32 >= 2**32 % bound:
                break
        other = product >> 32
        order[place], order[other] = order[other], order[place]
    return order


def slow_blocks(image: np.ndarray) -> tuple[int, dict[tuple[int, int], int]]:
    height, width, _ = image.shape
    size = 2 ** max(0, math.ceil(math.log2(math.sqrt(max(height, width)))))
    variances = {
        (top, left): np.mean(
            [np.var(image[top : top + size, left : left + size, c].astype(float)) for c in range(image.shape[2])]
        )
        for top in range(0, height, size)
        for left in range(0, width, size)
    }
    median = np.median(list(variances.values()))
    return size, {place: max(size // 4, 1) if v > median else max(size // 2, 1) for place, v in variances.items()}


def slow_shuffle(
    image: np.ndarray, identity: str, epoch: int, sizes: dict[tuple[int, int], int], size: int
) -> np.ndarray:
    numbers = slow_stream(KEY, identity, epoch)
    result = np.full_like(image, 77)
    for (top, left), block in sizes.items():
        for c in range(image.shape[2]):
            plane = image[top : top + size, left : left + size, c]
            groups: dict[tuple[int, int], list[tuple[slice, slice]]] = {}
            for y in range(0, plane.shape[0], block):
                for x in range(0, plane.shape[1], block):
                    place = (slice(y, min(y + block, plane.shape[0])), slice(x, min(x + block, plane.shape[1])))
                    shape = (place[0].stop - y, place[1].stop - x)
                    groups.setdefault(shape, []).append(place)
            full, right = (block, block), (block, plane.shape[1] % block)
            bottom = (plane.shape[0] % block, block)
            shuffled = np.empty_like(plane)
            for shape in [one for one in (full, right, bottom) if one in groups] + [
                g for g in groups if g not in (full, right, bottom)
            ]:
                places = groups[shape]
                for here, there in zip(places, slow_order(len(places), numbers), strict=True):
                    shuffled[here] = plane[places[there]]
            result[top : top + size, left : left + size, c] = shuffled
    return result


@pytest.mark.parametrize(
    "shape", [(32, 32, 3), (28, 28, 1), (112, 92, 3), (33, 47, 4), (9, 5, 2), (64, 64, 3), (1, 7, 1), (2, 2, 3)]
)
def test_against_the_slow_version(shape):
    image = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    size, sizes = slow_blocks(image)
    expected = slow_shuffle(image, "a/cat", 5, sizes, size)
    assert np.array_equal(csvar.shuffle(image, key=KEY, ids="a/cat", epoch=5), expected)


@pytest.mark.parametrize(
    ("height", "width", "size"),
    [
        (28, 28, 8),
        (32, 32, 8),
        (64, 64, 8),
        (65, 64, 16),
        (92, 112, 16),
        (224, 224, 16),
        (256, 256, 16),
        (1, 1, 1),
        (2, 1, 2),
        (300, 1, 32),
    ],
)
def test_region_sizes(height, width, size):
    assert csvar.region_size(height, width) == size


def test_variance_and_block_sizes_are_the_papers():
    image = np.random.default_rng(0).integers(0, 256, (32, 40, 3), dtype=np.uint8)
    image[:8, :8] = 7
    found = csvar.region_variance(image)
    assert found.shape == (4, 5)
    assert found[0, 0] == 0
    size, sizes = slow_blocks(image)
    np.testing.assert_allclose(found[1, 2], np.mean([image[8:16, 16:24, c].astype(float).var() for c in range(3)]))
    assert csvar.block_sizes(image).tolist() == [[sizes[8 * i, 8 * j] for j in range(5)] for i in range(4)]
    assert set(csvar.block_sizes(image).ravel().tolist()) == {size // 4, size // 2}


def test_equal_variances_are_never_above_their_median():
    assert set(csvar.block_sizes(np.zeros((32, 32, 3), np.uint8)).ravel().tolist()) == {4}


# --- invariants ---

shapes = st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(1, 4))


@settings(max_examples=60, deadline=None)
@given(shape=shapes, epoch=st.integers(0, 2**40), floats=st.booleans(), together=st.booleans(), seed=st.integers(0, 99))
def test_values_stay_in_their_region_and_the_key_holder_gets_them_back(shape, epoch, floats, together, seed):
    rng = np.random.default_rng(seed)
    image = rng.random(shape, dtype=np.float32) if floats else rng.integers(0, 256, shape, dtype=np.uint8)
    options = {"key": KEY, "ids": "some/image", "epoch": epoch, "channel_wise": not together}
    shuffled = csvar.shuffle(image, **options)
    assert (shuffled.dtype, shuffled.shape) == (image.dtype, image.shape)
    size = csvar.region_size(*shape[:2])
    for top in range(0, shape[0], size):
        for left in range(0, shape[1], size):
            for c in range(shape[2]):
                before, after = (x[top : top + size, left : left + size, c].ravel() for x in (image, shuffled))
                assert np.array_equal(np.sort(before), np.sort(after))
    assert np.array_equal(csvar.region_variance(shuffled), csvar.region_variance(image))
    assert np.array_equal(csvar.unshuffle(shuffled, **options), image)


@settings(max_examples=40, deadline=None)
@given(shape=shapes, seed=st.integers(0, 99), block=st.sampled_from([1, 2, 4, 8]))
def test_fixed_blocks_keep_what_is_inside_them(shape, seed, block):
    image = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    if block >= max(csvar.region_size(*shape[:2]), 2):
        with pytest.raises(SettingError, match="moves nothing"):
            csvar.shuffle(image, key=KEY, ids="i", epoch=0, block_size=block)
        return
    shuffled = csvar.shuffle(image, key=KEY, ids="i", epoch=0, block_size=block)
    assert np.array_equal(csvar.unshuffle(shuffled, key=KEY, ids="i", epoch=0, block_size=block), image)
    size = csvar.region_size(*shape[:2])
    if shape[0] >= size and shape[1] >= size:
        for c in range(shape[2]):
            cut = [
                {
                    x[y : y + block, z : z + block, c].tobytes()
                    for y in range(0, size, block)
                    for z in range(0, size, block)
                }
                for x in (image, shuffled)
            ]
            assert cut[0] == cut[1]


def test_layouts_agree():
    image = np.random.default_rng(0).integers(0, 256, (3, 30, 41, 3), dtype=np.uint8)
    ids = ["a", "b", "c"]
    batch = csvar.shuffle(image, key=KEY, ids=ids, epoch=1)
    tensor = csvar.shuffle(torch.from_numpy(image).permute(0, 3, 1, 2), key=KEY, ids=ids, epoch=1)
    assert np.array_equal(tensor.permute(0, 2, 3, 1).numpy(), batch)
    for index, name in enumerate(ids):
        assert np.array_equal(csvar.shuffle(image[index], key=KEY, ids=name, epoch=1), batch[index])
        single = torch.from_numpy(image[index]).permute(2, 0, 1)
        assert torch.equal(csvar.shuffle(single, key=KEY, ids=[name], epoch=1), tensor[index])
    grey = image[0, :, :, 0]
    assert np.array_equal(
        csvar.shuffle(grey, key=KEY, ids="a", epoch=1),
        csvar.shuffle(grey[:, :, None], key=KEY, ids="a", epoch=1)[:, :, 0],
    )


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_how_an_array_lies_in_memory_does_not_matter(channels, dtype):
    image = np.random.default_rng(0).integers(0, 256, (30, 41, channels)).astype(dtype)
    expected = csvar.shuffle(image, key=KEY, ids="a", epoch=1)
    fixed = image.copy()
    fixed.flags.writeable = False
    for one in (fixed, np.asfortranarray(image), np.repeat(image, 2, axis=1)[:, ::2], image[::-1].copy()[::-1]):
        shuffled = csvar.shuffle(one, key=KEY, ids="a", epoch=1)
        assert np.array_equal(shuffled, expected)
        assert np.array_equal(csvar.unshuffle(shuffled, key=KEY, ids="a", epoch=1), image)
    thin = torch.from_numpy(image[:, :1]).permute(2, 0, 1)
    assert torch.equal(
        csvar.shuffle(thin, key=KEY, ids="a", epoch=1), csvar.shuffle(thin.clone(), key=KEY, ids="a", epoch=1)
    )


@pytest.mark.parametrize("shape", [(32, 32, 3), (33, 47, 4), (9, 5, 2), (1, 7, 1)])
def test_variances_of_floats_at_every_edge(shape):
    image = np.random.default_rng(3).normal(size=shape)
    size = csvar.region_size(*shape[:2])
    expected = [
        [image[top : top + size, left : left + size].var(axis=(0, 1)).mean() for left in range(0, shape[1], size)]
        for top in range(0, shape[0], size)
    ]
    np.testing.assert_allclose(csvar.region_variance(image), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8])
def test_every_dtype_comes_back(dtype):
    images = (torch.rand(2, 3, 36, 36) * 200).to(dtype)
    shuffled = csvar.shuffle(images, key=KEY, ids=["a", "b"], epoch=0)
    assert shuffled.dtype == dtype
    assert torch.equal(csvar.unshuffle(shuffled, key=KEY, ids=["a", "b"], epoch=0), images)


def test_together_moves_colors_as_they_are():
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    colors = {tuple(pixel) for pixel in image.reshape(-1, 3).tolist()}
    moved = csvar.shuffle(image, key=KEY, ids="a", epoch=0, channel_wise=False)
    assert {tuple(pixel) for pixel in moved.reshape(-1, 3).tolist()} == colors
    mixed = csvar.shuffle(image, key=KEY, ids="a", epoch=0)
    assert {tuple(pixel) for pixel in mixed.reshape(-1, 3).tolist()} != colors


def test_another_key_image_or_epoch_gives_another_shuffle():
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    base = {"key": KEY, "ids": "a", "epoch": 0}
    changes = ({}, {"key": KEY[::-1]}, {"ids": "b"}, {"epoch": 1}, {"ids": "a\x00"}, {"epoch": 256})
    made = [csvar.shuffle(image, **{**base, **change}).tobytes() for change in changes]
    assert len(set(made)) == len(made)


def test_every_order_is_equally_likely():
    image = np.arange(4, dtype=np.uint8).reshape(2, 2)
    orders = [csvar.shuffle(image, key=KEY, ids=str(number), epoch=0, block_size=1).tobytes() for number in range(4800)]
    counts = np.unique(orders, return_counts=True)[1]
    assert len(counts) == 24
    assert ((counts - 200) ** 2 / 200).sum() < 49.7  # chi-square, 23 degrees of freedom, p = 0.001


def test_the_format_is_held_by_a_vector():
    """Format csvar-1: a change here makes protected data of older versions unreadable."""
    image = np.arange(28 * 28 * 3, dtype=np.uint32).astype(np.uint8).reshape(28, 28, 3)
    shuffled = csvar.shuffle(image, key=b"glasshouse test key 0123456789ab", ids="x_train/000123", epoch=7)
    assert csvar.FORMAT == b"csvar-1"
    assert (
        hashlib.sha256(shuffled.tobytes()).hexdigest()
        == "549db67a399aa9dde27cc3c2598f7d3ac8c0ef79a866f1d5f321fc394662518d"
    )


# --- as a transform and as a defense ---


def test_as_a_transform():
    image = torch.rand(3, 32, 32)
    transform = csvar.CSVAR(key=KEY)
    assert torch.equal(transform(image), transform(image.clone()))
    assert not torch.equal(transform(image), transform.in_epoch(1)(image))
    assert torch.equal(transform(image, "name"), csvar.shuffle(image, key=KEY, ids="name", epoch=0))
    with pytest.raises(SettingError, match="has no key"):
        csvar.CSVAR()(image)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_as_a_transform_of_pil_pictures(mode):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 20, len(mode)), dtype=np.uint8).squeeze()
    transform = csvar.CSVAR(key=KEY)
    made = transform(Image.fromarray(pixels))
    assert (made.mode, made.size) == (mode, (20, 32))
    assert np.array_equal(np.asarray(made), transform(pixels))
    with pytest.raises(DataError, match="mode P: convert it first"):
        transform(Image.fromarray(pixels).convert("P"))


def test_the_hash_of_content_is_the_identity():
    """Part of format csvar-1, whatever the layout; for bfloat16 it is that of the same numbers in float32."""
    pixels = torch.rand(3, 32, 20).bfloat16()
    content = repr((3, 32, 20)).encode() + pixels.float().numpy().tobytes()
    expected = csvar.shuffle(pixels.float(), key=KEY, ids=hashlib.sha256(content).hexdigest(), epoch=0)
    transform = csvar.CSVAR(key=KEY)
    assert torch.equal(transform(pixels).float(), expected)
    assert np.array_equal(transform(pixels.float().permute(1, 2, 0).numpy()), expected.permute(1, 2, 0).numpy())


def test_in_a_data_loader():
    from torch.utils.data import DataLoader, TensorDataset

    images = torch.rand(6, 3, 32, 32)
    transform = csvar.CSVAR(key=KEY)
    loader = DataLoader(
        TensorDataset(images), batch_size=3, collate_fn=lambda rows: torch.stack([transform(x) for (x,) in rows])
    )
    assert torch.equal(torch.cat(list(loader)), torch.stack([transform(image) for image in images]))


def test_as_a_defense(rng):
    images = torch.rand(2, 3, 32, 32)
    defense = create("csvar")
    shuffled = defense.on_images(images, rng=rng)
    assert not torch.equal(shuffled, images)
    assert torch.equal(shuffled.flatten(1).sort()[0], images.flatten(1).sort()[0])
    assert defense.acts_on == "images"
    assert defense.stages == {Stage.IMAGES}
    assert create("csvar:block_size=2,channel_wise=false").block_size == 2


def test_a_set_in_batches_is_shuffled_as_the_set_at_once(rng):
    """And no two images of it alike, which equal places in two batches would be."""
    images = (torch.arange(1024).view(1, 1, 32, 32) / 1024).repeat(2, 1, 1, 1)
    images[1, 0, 0, 0] += 1e-4
    defense = create("csvar").with_key(rng)
    whole = defense.on_images(images, rng=rng)
    assert torch.equal(whole, torch.cat([defense.on_images(one, rng=rng) for one in images.split(1)]))
    assert float((whole[0] != whole[1]).float().mean()) > 0.5


def test_the_key_is_never_written():
    defense = csvar.CSVAR(key=b"very secret bytes!")
    assert "secret" not in repr(defense) + to_spec(defense) + complete_spec(defense)


# --- bad input ---


@pytest.mark.parametrize("key", [b"short", b"", b"x" * 65, "a text that is long enough"])
def test_bad_keys(key):
    with pytest.raises(SettingError, match="16 to 64 secret bytes"):
        csvar.shuffle(np.zeros((8, 8), np.uint8), key=key, ids="a", epoch=0)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((0, 8, 3), np.uint8), "empty"),
        (torch.zeros(3, 0, 8), "empty"),
        (np.zeros((8, 8, 5), np.uint8), "at most 4"),
        (np.zeros((8, 8), np.int32), "uint8"),
        (np.full((8, 8), np.nan), "NaN"),
        (np.zeros(8, np.uint8), "give an array"),
        (torch.zeros(8, 8), "give a tensor"),
    ],
)
def test_bad_images(image, message):
    with pytest.raises(DataError, match=message):
        csvar.shuffle(image, key=KEY, ids="a", epoch=0)


@pytest.mark.parametrize("epoch", [True, 1.0, -1, 2**64, "1", None])
def test_epochs_that_are_no_whole_numbers(epoch):
    with pytest.raises(SettingError, match="use a whole number"):
        csvar.shuffle(np.zeros((8, 8), np.uint8), key=KEY, ids="a", epoch=epoch)
    with pytest.raises(SettingError, match="use a whole number"):
        csvar.CSVAR(epoch=epoch)
    assert csvar.CSVAR(epoch=np.int64(3)) == csvar.CSVAR(epoch=3)


def test_bad_ids_and_epochs():
    image = np.zeros((2, 8, 8, 1), np.uint8)
    with pytest.raises(DataError, match="2 images but 1 ids"):
        csvar.shuffle(image, key=KEY, ids=["a"], epoch=0)
    with pytest.raises(SettingError, match="epoch=-1"):
        csvar.shuffle(image, key=KEY, ids=["a", "b"], epoch=-1)
