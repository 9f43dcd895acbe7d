"""``glasshouse train``: fit a classifier, so that there is a trained model to audit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def train(
    out: Annotated[Path, typer.Argument(help="weights file to write, .safetensors")],
    model: Annotated[str, typer.Option(help="SPEC or FILE.py:FACTORY")] = "resnet20",
    data: Annotated[str, typer.Option(help="data set SPEC or FILE.npz")] = "digits",
    data_root: Annotated[Path | None, typer.Option(help="where data sets lie [default: $GLASSHOUSE_DATA]")] = None,
    size: Annotated[int | None, typer.Option(help="resize images to this many pixels")] = None,
    images: Annotated[int | None, typer.Option(help="train on so many images [default: all]")] = None,
    epochs: Annotated[int, typer.Option(help="passes over the images")] = 15,
    lr: Annotated[float, typer.Option(help="first learning rate")] = 0.1,
    batch: Annotated[int, typer.Option(help="images per step")] = 128,
    augment: Annotated[bool, typer.Option(help="shift and mirror images")] = True,
    defense: Annotated[str, typer.Option(help="defense SPEC that acts on images or while training")] = "none",
    seed: Annotated[int, typer.Option(help="seed of everything random")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Train a classifier and write its weights as safetensors."""
    import torch

    from glasshouse import data as data_room
    from glasshouse import defenses
    from glasshouse.cli.screen import counting
    from glasshouse.defenses import DefendedClient
    from glasshouse.errors import SettingError
    from glasshouse.files import write_atomic
    from glasshouse.models import own
    from glasshouse.training import Recipe, accuracy, fit

    if out.suffix != ".safetensors":
        raise SettingError(f"{out} does not end in .safetensors: weights are written in that format only.")
    recipe = Recipe(epochs=epochs, lr=lr, batch=batch, augment=augment, seed=seed)
    train_set = data_room.load(data, root=data_root, size=size, split="train")
    test_set = data_room.load(data, root=data_root, size=size, split="test")
    places = train_set.spread(len(train_set) if images is None else images, seed)
    inputs, labels = train_set.batch(places)
    network = own.build(model, train_set.spec, seed=seed)
    own.inspect(network, train_set.spec)
    expected = min(recipe.batch, len(labels))
    guard = defenses.create(defense).for_training(recipe.steps(len(labels)), expected / len(labels), expected)
    if guard.idle_in_training:
        raise SettingError(f"'{defense}' acts on {guard.acts_on}, not while training: add at=training.")
    network = guard.on_model(network)
    rng = torch.Generator().manual_seed(seed + 1)  # another stream than the one that shuffles
    with counting("Training", "epochs") as progress:
        loss = fit(
            network,
            inputs,
            labels,
            recipe,
            client=DefendedClient(guard, rng),
            progress=lambda share: progress(share * epochs, epochs),
        )
    right = accuracy(network, *test_set.batch(range(len(test_set))))
    where = "training" if list(train_set.ids) == list(test_set.ids) else "test"
    write_atomic(out, own.to_weights(network, behind=guard.complete_spec if guard.changes_model else None))
    promise = guard.promise and f"{guard.promise}; it holds only while seed {seed} is secret, choose your own"
    if as_json:
        facts = {"weights": str(out), "loss": loss, f"{where}_accuracy": right, "epochs": epochs}
        print(json.dumps({**facts, "promise": promise} if promise else facts))
    else:
        if promise:
            print(promise)
        print(f"Loss {loss:.3f}, {where} accuracy {right:.1%}. Weights: {out}", file=sys.stdout)
