"""A small study of six pictures of three classes under two conditions, without running any attack."""

from __future__ import annotations

import io
import json

import numpy as np
from PIL import Image

from glasshouse.store import DATABASE_FILE, ImageRecord, ReconstructionRecord, Store

CLASSES = ("bird", "cat", "dog")


def write_picture(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    path.write_bytes(buffer.getvalue())


def make_study(directory):
    """The directory of a finished study: six originals, each reconstructed under two defenses in cases of its own."""
    images = [
        ImageRecord(place, f"id{place}", place % 3, CLASSES[place % 3], f"images/t{place}.png", "0" * 64)
        for place in range(6)
    ]
    for image in images:
        write_picture(directory / image.file, image.place)
    store = Store(directory / DATABASE_FILE)
    store.add_images(images)
    made = [(f"{defense}{place}", defense, place) for defense in ("none", "prune") for place in range(6)]
    facts = {"dataset": "nowhere.npz", "model": "lenet", "attack": "idlg", "round": "0", "batchnorm": "eval"}
    store.add_cases((key, {**facts, "defense": defense}) for key, defense, _ in made)
    for number, (key, _, place) in enumerate(made):
        file = f"images/g{number}.png"
        write_picture(directory / file, 100 + number)
        store.finish(key, {}, [ReconstructionRecord(key, place, file, "0" * 64)])
    store.close()
    (directory / "audit.json").write_text(json.dumps({"settings": {"terms": "for research"}}))
    return directory
