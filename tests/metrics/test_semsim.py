"""SemSim: 0 for equal images, symmetric, rising with what hides an image, and the same in torchmetrics."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from glasshouse import data
from glasshouse.errors import DataError, SettingError, WeightsError
from glasshouse.functional.shuffle import blocks  # noqa: F401
from glasshouse.metrics import create
from glasshouse.metrics.semsim import recognised
from glasshouse.semsim import Perceptual, save, shipped
from glasshouse.semsim.torchmetric import SemSimMetric
