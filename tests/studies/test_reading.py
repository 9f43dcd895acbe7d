"""Plans that people edited: what is wrong is said with file and line, whatever they wrote."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glasshouse.errors import StudyError
from glasshouse.studies import presets
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.reading import read_grid, read_plan, to_toml


def read(folder, text):
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return read_plan(folder)


@pytest.mark.parametrize("scale", presets.SCALES)
@pytest.mark.parametrize("name", presets.names())
def test_every_preset_can_be_read_back(name, scale, tmp_path):
    plan = presets.create(name, scale)
    assert read(tmp_path, to_toml(plan)) == plan
    assert presets.summary(name)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('attacks = ["invgard"]', "line 3: Unknown attack 'invgard'. Did you mean 'invgrad'"),
        ('attacks = ["invgrad",\n  "invgrad:stpes=3"]', "line 4: Unknown setting of attack invgrad 'stpes'"),
        ('attacks = ["lenet | invgard"]', "line 3: Unknown attack 'invgard'"),
        (
            'attacks = ["resnet20 | invgrad"]',
            "line 3: attacks has .*: write one of the models, lenet,",
        ),
        ('batchnorm = ["evaluate"]', r"line 3: batchnorm=evaluate is not known: use one of eval, train"),
        ('attacks = ["lenet | invgrad", "invgrad"]', "line 3: attacks names invgrad twice for lenet"),
        ('models = ["lenet", "mlp"]\nattacks = ["mlp | invgrad"]', "There are no attacks on lenet"),
        ('without = ["mlp | none"]', "line 3: without has 'mlp | none': write one of the models"),
        ('without = ["none"]', "line 3: without has 'none': write one of the models"),
        ('without = ["lenet | none"]', "line 3: without leaves no recipe to train lenet by"),
        ('defenses = ["prune:percent=700"]', "line 3: percent=700"),
        ('defenses = ["gaussian:sigma=1,at=training"]', "line 3: Defense .* an audit trains nothing"),
        ('recipes = ["none", "gaussian:sigma=1"]', "line 3: Recipe .* at=training"),
        ('datasets = ["digit"]', "line 3: Unknown dataset 'digit'. Did you mean 'digits'"),
        ('models = ["net.py:make"]', "line 3: .* by SPEC only"),
        ('metrics = ["psrn"]', "line 3: Unknown metric 'psrn'"),
        ("epoch = 3", "line 3: Unknown setting 'epoch'. Did you mean 'epochs'"),
        ('epochs = "3"', "line 3: epochs = '3' has the wrong type: write a whole number"),
        ("epochs = 0", "line 3: epochs=0"),
        ("\n\ncheckpoints = [99]", "line 5: checkpoints=99"),
        ("seeds = []", "line 3: There are no seeds"),
        ("batchnorm = []", "line 3: There are no batchnorm"),
        ('attacks = ["invgrad:steps=3",\n  "dlg:seed=1",\n  "dlg"]', "line 4: Unknown setting of attack dlg 'seed'"),
        ("lr = nan", "line 3: lr=nan"),
        ("images = 1\nbatch = 2", "line 4: batch=2"),
        ("epochs = 99999999999999999999999", "line 3: .* wrong type"),
        ("epochs = = 3", "at line 3"),
    ],
)
def test_errors_name_the_line(line, match, tmp_path):
    with pytest.raises(StudyError, match=match) as caught:
        read(tmp_path, f"schema = 1\ntitle = 'x'\n{line}\n")
    assert "study.toml" in str(caught.value)


def test_kinds_of_studies(tmp_path):
    with pytest.raises(StudyError, match="line 2: Unknown kind of study 'gird'"):
        read(tmp_path, 'schema = 1\nkind = "gird"\n')
    assert read(tmp_path, "schema = 1\n") == Grid()
    read(tmp_path, to_toml(presets.create("csvar", "laptop")))
    with pytest.raises(StudyError, match="study of federations"):
        read_grid(tmp_path)
    with pytest.raises(StudyError, match=r"holds no study\.toml"):
        read_plan(tmp_path / "nowhere")


values = st.recursive(
    st.integers()
    | st.floats()
    | st.booleans()
    | st.sampled_from(['"none"', '"invgrad:steps=x"', '"digits:size=-1"', '"prune:percent=9/"', '""', "1979-05-27"])
    | st.text(max_size=8).map(lambda text: f"'''{text}"),
    lambda inner: st.lists(inner, max_size=3).map(lambda found: f"[{', '.join(map(str, found))}]"),
    max_leaves=4,
)
keys = st.sampled_from([*Grid.__dataclass_fields__, "kind", "colour", "[table]", '"epochs"', "a.b"])


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(keys, values), max_size=4))
def test_whatever_is_written_is_read_or_refused(tmp_path_factory, written):
    text = "schema = 1\n" + "".join(f"{key} = {str(value).lower()}\n" for key, value in written)
    folder = tmp_path_factory.mktemp("plan")
    with suppress(StudyError):
        read(folder, text.encode("utf-8", "replace").decode())
