"""The plan of a grid study that takes a second: one network, attacked before and after training."""

from __future__ import annotations

from glasshouse.studies.grid.plan import Grid

SMALL = Grid(
    title="small",
    datasets=("digits:size=16",),
    models=("lenet:width=4",),
    training_images=16,
    training_batch=16,
    epochs=1,
    checkpoints=(0, 1),
    images=2,
    attacks=("invgrad:steps=2",),
    metrics=("mse", "psnr"),
)
