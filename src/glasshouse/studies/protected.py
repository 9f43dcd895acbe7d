"""The audit of a protected data set: what an attacker without the key makes of what ``protect`` wrote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.attacks.unshuffling import inverse, linker
from glasshouse.attacks.unshuffling.practice import Practice, as_a_client
from glasshouse.collection.manifest import Header, Manifest
from glasshouse.collection.protect import read_version
from glasshouse.collection.sources import Picture, open_source
from glasshouse.data.crops import photo_crops
from glasshouse.defenses.csvar import CSVAR
from glasshouse.errors import DataError, StudyError
from glasshouse.files import write_atomic
from glasshouse.functional.layout import planar
from glasshouse.registry import setting
from glasshouse.store import Album
from glasshouse.studies.pictures import opaque_name, save_picture, to_pixels
from glasshouse.studies.shuffled import (
    Budget,
    Findings,
    Part,
    Protected,
    Truth,
    attack,
    batch_for,
    not_defined,
    score,
)
from glasshouse.studies.study import PLAN_FILE
from glasshouse.training import Samples
from glasshouse.types import JSON, ImageSpec, Progress, no_progress

SCHEMA = 1
RESULT_FILE = "protected.json"
FEWEST = 200  # images to practise on; fewer are made up with crops of photographs
SMALLEST = 8  # pixels of a side that the linker's strides leave something of
SHOWN = 12
GALLERY = 1000

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class ProtectedAudit:
    """The settings of an audit of protected images."""

    images: int = setting(100, "how many protected images are attacked")
    gallery: int = setting(GALLERY, "most images among which originals are to be found")
    versions: int = setting(3, "most versions of each image that the attacker collects")
    steps: int = setting(400, "steps of the learned inverse; the linker takes half as many")
    seed: int = setting(0, "seed of everything random")

    def __post_init__(self) -> None:
        for name in ("images", "versions", "steps"):
            checks.at_least(name, getattr(self, name), 1)
        checks.at_least("gallery", self.gallery, self.images)


@dataclass(frozen=True, slots=True, eq=False)
class ProtectedResult:
    """What was found, and where it is kept."""

    directory: Path
    facts: JSON
    parts: tuple[Part, ...]

    def to_json(self) -> JSON:
        """The result as plain JSON."""
        return {"schema": SCHEMA, **self.facts, "parts": [part.to_json() for part in self.parts]}


def audit_protected(
    protected: Path, gallery: Path, out: Path, plan: ProtectedAudit, *, progress: Progress = no_progress
) -> ProtectedResult:
    """Attack protected images with everything but the key, and score it against their originals in a gallery.

    ``gallery`` is a folder or NPZ file that holds the originals under the names they were protected by. The
    attacker practises on the gallery's other images.
    """
    _check_out(out, protected)
    manifest = Manifest(protected)
    header = manifest.header()
    known = {version.identity for version in manifest.versions()}
    originals, left_out = _originals(gallery, known, plan)
    attacked = [name for name in originals if name in known][: plan.images]
    names = attacked + [name for name in originals if name not in set(attacked)]
    raw = _stacked([originals[name] for name in names])
    sent = [_version(protected, epoch, attacked) for epoch in range(min(header.epochs, plan.versions))]
    for version in sent:
        _check_same(originals, version, gallery)
    held = Protected(
        versions=tuple(_stacked([version[name] for name in attacked]) for version in sent),
        gallery=raw,
        practice=_practice(raw[len(attacked) :], raw[: len(attacked)], header, plan),
        block_size=header.block_size,
        channel_wise=header.channel_wise,
        eight_bit=True,
    )
    budget = Budget(
        inverse.Training(steps=plan.steps, batch=batch_for(raw), seed=plan.seed),
        linker.Training(steps=max(plan.steps // 2, 1), seed=plan.seed),
        plan.seed,
    )
    findings = attack(held, budget, progress=progress)
    truth = Truth(raw[: len(attacked)], torch.arange(len(attacked)))
    parts = score(truth, held, findings)
    return _write(out, protected, header, plan, held, truth, findings, parts, left_out)


def _originals(
    gallery: Path, protected: Container[str], plan: ProtectedAudit
) -> tuple[dict[str, Array], dict[str, int]]:
    """Images of the gallery by name, protected ones and others, drawn by the seed, all of the commonest shape.

    The second value counts by shape the drawn images that are left out.
    """
    source = open_source(gallery)
    names = list(dict.fromkeys(source.names()))
    order = [names[place] for place in np.random.default_rng(plan.seed).permutation(len(names))]
    attacked = [name for name in order if name in protected][: plan.images]
    drawn = (attacked + [name for name in order if name not in set(attacked)])[: plan.gallery]
    found = {one.identity: one.pixels for one in source.some(set(drawn)) if isinstance(one, Picture)}
    shapes = Counter(found[name].shape for name in attacked if name in found)
    if not shapes:
        raise DataError(
            f"No image of {gallery} has the name of a protected one: give the folder or file that was protected, "
            "or one that holds it."
        )
    shape = shapes.most_common(1)[0][0]
    if min(shape[:2]) < SMALLEST:
        raise DataError(f"The images have {shape[0]}x{shape[1]} px: give images of at least {SMALLEST} px a side.")
    others = Counter("x".join(map(str, pixels.shape)) for pixels in found.values() if pixels.shape != shape)
    return {name: found[name] for name in drawn if name in found and found[name].shape == shape}, dict(others)


def _check_out(out: Path, protected: Path) -> None:
    """Refuse a place where pictures of originals would be shipped, or would cover another study's report."""
    place, sent = out.resolve(), protected.resolve()
    if sent in (place, *place.parents):
        raise StudyError(f"{out} lies in the protected data set, where no original may lie: choose another --out.")
    if (out / PLAN_FILE).exists():
        raise StudyError(f"{out} holds another study: choose another --out.")


def _version(protected: Path, epoch: int, names: Collection[str]) -> dict[str, Array]:
    """Some images of one epoch's version, by name."""
    wanted = set(names)
    found = {name: pixels for name, pixels in read_version(protected, epoch) if name in wanted}
    missing = sorted(wanted - set(found))
    if missing:
        raise DataError(f"{protected} lacks '{missing[0]}' in epoch {epoch}: protect the data set again.")
    return found


def _check_same(originals: dict[str, Array], version: dict[str, Array], gallery: Path) -> None:
    """Refuse a gallery with other images under the same names: a shuffle keeps every value of every channel."""
    for name, pixels in version.items():
        raw = originals[name]
        if raw.shape == pixels.shape:
            one, two = (np.sort(image.reshape(-1, image.shape[2]), axis=0) for image in (raw, pixels))
            if np.array_equal(one, two):
                continue
        raise DataError(
            f"'{name}' of {gallery} is not what was protected under this name: give the folder or file that was."
        )


def _practice(others: Tensor, attacked: Tensor, header: Header, plan: ProtectedAudit) -> Practice:
    """Other images of the gallery, and crops of photographs where those are few, with the shuffle but not the key."""
    if len(others) < FEWEST:
        channels, height, width = attacked.shape[1:]
        spec = ImageSpec(channels, height, width, classes=1)
        others = torch.cat([others, photo_crops(spec, FEWEST - len(others), plan.seed)])
    rng = torch.Generator().manual_seed(plan.seed)
    shuffle = CSVAR(block_size=header.block_size, channel_wise=header.channel_wise)
    labels = torch.zeros(len(others), dtype=torch.long)
    return Practice(Samples(others, labels), as_a_client(shuffle, rng))


def _stacked(pixels: Sequence[Array]) -> Tensor:
    """8-bit (H, W, C) pictures as (N, C, H, W) in [0, 1]."""
    return planar(torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() / 255)


def _write(
    out: Path,
    protected: Path,
    header: Header,
    plan: ProtectedAudit,
    held: Protected,
    truth: Truth,
    findings: Findings,
    parts: list[Part],
    left_out: dict[str, int],
) -> ProtectedResult:
    """Keep a few pictures of every part, and ``protected.json``."""
    shown = {"original": truth.images, "protected image": held.versions[0], **findings.pictures}
    pictures = {
        name: [
            save_picture(Album.of(out), opaque_name(name, str(place)), to_pixels(image.clamp(0, 1)))[0]
            for place, image in enumerate(images[:SHOWN])
        ]
        for name, images in shown.items()
    }
    facts: JSON = {
        "protected": str(protected),
        "images": len(truth.images),
        "gallery": len(held.gallery),
        "versions": len(held.versions),
        "shape": list(truth.images.shape[1:]),
        "left_out": left_out,
        "region": held.region,
        "not_defined": not_defined(truth.images),
        "block_size": header.block_size,
        "channel_wise": header.channel_wise,
        "steps": plan.steps,
        "seed": plan.seed,
        "pictures": pictures,
    }
    result = ProtectedResult(out, facts, tuple(parts))
    write_atomic(out / RESULT_FILE, json.dumps(result.to_json(), indent=1, allow_nan=False).encode())
    return result
