from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glasshouse import models
from glasshouse.errors import GlasshouseError, ModelError, SettingError, UnknownNameError
from glasshouse.models import Classifier, normalization
from glasshouse.registry import to_spec
from glasshouse.types import ImageSpec

COLOUR, GREY = ImageSpec(3, 32, 32, 10), ImageSpec(1, 28, 28, 10)
NAMES = models.models.names()
STEMS = [name for name in NAMES if any(one.name == "stem" for one in models.models.settings(name))]
SMALL = [name for name in NAMES if name not in ("resnet50", "resnet152")]

#: Settings that differ from every default.
CHANGED = {
    "convnet8": "width=8",
    "densenet121": "stem=imagenet",
    "imprinted": "bins=32,center=0.5,spread=0.2,gain=2.0,skip=true,network=mlp",
    "lenet": "width=6,spread=0.25",
    "mlp": "width=64,activation=sigmoid",
    "mobilenet_v2": "stem=imagenet",
    "resnet152": "stem=imagenet",
    "resnet18": "stem=imagenet",
    "resnet20": "width=64",
    "resnet50": "stem=imagenet",
    "rgapnet": "width=6,slope=0.1,bias=true",
    "shufflenet_v2": "stem=imagenet",
    "tanhnet": "width=6,hidden=50",
    "tanhnet_bn": "width=6,hidden=50",
    "vertical": "rows=1,columns=4,width=8,units=32,activation=relu",
}


@cache
def built(spec: str, image: ImageSpec = COLOUR) -> Classifier:
    return models.create(spec, image)


def same(left: nn.Module, right: nn.Module) -> bool:
    pairs = zip(left.state_dict().values(), right.state_dict().values(), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def test_the_table_covers_every_model():
    assert set(CHANGED) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("image", [GREY, COLOUR], ids=str)
def test_default_model_is_in_eval_mode_and_gives_finite_logits(name, image, rng):
    model = built(name, image)
    with torch.no_grad():
        logits = model(torch.rand(2, *image.shape, generator=rng))
    assert not any(module.training for module in model.modules())
    assert logits.shape == (2, 10)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_has_a_gradient(name, rng):
    model = built(name)
    logits = model(torch.rand(1, *COLOUR.shape, generator=rng))
    gradients = torch.autograd.grad(F.cross_entropy(logits, torch.tensor([3])), tuple(model.parameters()))
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert sum(float(gradient.norm()) for gradient in gradients) > 0


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_decides_the_weights(name):
    again, other = models.create(name, COLOUR, seed=0), models.create(name, COLOUR, seed=1)
    assert same(built(name), again)
    assert not same(built(name), other)


def test_building_leaves_the_global_generator_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    models.create("lenet", COLOUR, seed=3)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", NAMES)
def test_settings_round_trip(name):
    changed = models.models.create(f"{name}:{CHANGED[name]}")
    assert to_spec(changed) == f"{name}:{CHANGED[name]}"
    assert models.models.create(to_spec(changed)) == changed
    assert to_spec(models.models.create(name)) == name


@pytest.mark.parametrize("name", NAMES)
def test_every_model_names_its_paper_and_explains_its_settings(name):
    assert ", " in models.models.get(name).paper
    assert all(len(one.meaning) > 10 for one in models.models.settings(name))


@pytest.mark.parametrize("name", STEMS)
def test_the_imagenet_stem_runs_at_64_px_and_shrinks_more(name, rng):
    image = ImageSpec(3, 64, 64, 5)
    sizes = {}
    for stem in ("imagenet", "small") if name in SMALL else ("imagenet",):
        model = models.create(f"{name}:stem={stem}", image)
        smallest = []
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(lambda *call, seen=smallest: seen.append(call[2].shape[-1]))
        with torch.no_grad():
            assert model(torch.rand(1, *image.shape, generator=rng)).shape == (1, 5)
        sizes[stem] = (smallest[0], min(smallest))
    assert sizes["imagenet"][0] == 32
    assert sizes.get("small", (64,))[0] == 64
    assert sizes["imagenet"][1] <= sizes.get("small", (64, 64))[1]


def test_lenet_is_the_one_of_the_dlg_paper():
    model = built("lenet")
    linear = model.network[-1]
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert linear.in_features == 768
    assert weights.abs().max() <= 0.5
    assert weights.abs().mean() == pytest.approx(0.25, abs=0.01)
    assert [layer.stride for layer in model.modules() if isinstance(layer, nn.Conv2d)] == [(2, 2), (2, 2), (1, 1)]
    assert (float(model.mean), float(model.std)) == (0, 1)


def test_lenet_keeps_within_its_spread():
    weights = torch.cat([p.detach().flatten() for p in models.create("lenet:spread=0.1", COLOUR).parameters()])
    assert 0.09 < weights.abs().max() <= 0.1


@pytest.mark.parametrize("size", [(8, 8), (25, 25), (30, 17)])
def test_lenet_takes_images_of_any_size(size):
    image = ImageSpec(1, *size, 2)
    assert models.create("lenet", image)(torch.rand(1, *image.shape)).shape == (1, 2)


def test_convnet8_is_the_one_of_the_ats_paper():
    model = built("convnet8")
    widths = [layer.out_channels for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    assert model.network[-1].in_features == 36 * 64
    assert widths == [64, 128, 128, 256, 256, 256, 256, 256]


def test_convnet8_refuses_images_that_its_pools_would_swallow():
    with pytest.raises(ModelError, match="at least 9 px, not 1x8x12"):
        models.create("convnet8", ImageSpec(1, 8, 12, 10))
    assert models.create("convnet8:width=2", ImageSpec(1, 9, 9, 3))(torch.rand(1, 1, 9, 9)).shape == (1, 3)


@pytest.mark.parametrize("image", [ImageSpec(1, 7, 9, 3), COLOUR], ids=str)
def test_workers_of_a_vertical_federation_hold_every_pixel_once(image, rng):
    network = models.create("vertical:rows=2,columns=3", image).network
    images = torch.rand(2, *image.shape, generator=rng)
    parts = network.parts(images)
    strips = [torch.cat(parts[row : row + 3], -1) for row in (0, 3)]
    assert torch.equal(torch.cat(strips, -2), images)
    assert len(parts) == len(network.workers) == 6


def test_images_smaller_than_the_workers_are_many_are_refused():
    with pytest.raises(ModelError, match="3 rows and 2 columns"):
        models.create("vertical:rows=3", ImageSpec(1, 2, 8, 10))


#: Published sizes: torchvision's own counts where it has the network.
COUNTS = {
    ("resnet20", COLOUR): 272_474,
    ("resnet18:stem=imagenet", ImageSpec(3, 64, 64, 1000)): 11_689_512,
    ("mobilenet_v2:stem=imagenet", ImageSpec(3, 64, 64, 1000)): 3_504_872,
    ("densenet121:stem=imagenet", ImageSpec(3, 64, 64, 1000)): 7_978_856,
    ("shufflenet_v2:stem=imagenet", ImageSpec(3, 64, 64, 1000)): 2_278_604,
}


@pytest.mark.parametrize(("spec", "image"), COUNTS, ids=lambda value: str(value))
def test_parameter_counts_are_the_published_ones(spec, image):
    assert sum(parameter.numel() for parameter in models.create(spec, image).parameters()) == COUNTS[spec, image]


@pytest.mark.parametrize("spec", ["lenet:width=0", "lenet:spread=0", "lenet:spread=nan", "convnet8:width=-1"])
def test_senseless_settings_are_refused(spec):
    with pytest.raises(SettingError, match="out of range"):
        models.create(spec, COLOUR)


@pytest.mark.parametrize(("spec", "hint"), [("resnet81", "resnet18"), ("resnet18:stam=small", "stem")])
def test_unknown_names_suggest_the_near_one(spec, hint):
    with pytest.raises(UnknownNameError, match=f"Did you mean '{hint}'"):
        models.create(spec, COLOUR)


@pytest.mark.parametrize("spec", ["resnet18:stem=large", "lenet:width=12.5"])
def test_unreadable_settings_are_refused(spec):
    with pytest.raises(GlasshouseError, match="is not "):
        models.create(spec, COLOUR)


def test_a_classifier_normalizes_its_input():
    images = torch.rand(2, *COLOUR.shape)
    model = built("resnet20")
    assert normalization(model) == (torch.tensor(0.5), torch.tensor(0.25))
    assert torch.allclose(model(images), model.network((images - 0.5) / 0.25), atol=1e-6)


def test_a_module_that_does_not_say_has_no_normalization():
    assert normalization(nn.Linear(2, 2)) == (torch.tensor(0.0), torch.tensor(1.0))
