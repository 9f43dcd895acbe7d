"""Workers that die are replaced; cases that keep killing them are given up with a reason."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from glasshouse import data
from glasshouse.studies.audit import Running, audit_plan

DYING = """
import multiprocessing, os, signal
from pathlib import Path
from torch import nn

def make():
    marker = Path({marker!r})
    if multiprocessing.parent_process() is not None and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 10))
"""


def dying_model(folder: Path) -> str:
    file = folder / "dying.py"
    file.write_text(DYING.format(marker=str(folder / "marker")))
    return f"{file}:make"


def test_a_worker_that_dies_once_is_replaced(plan, tmp_path):
    plan = dataclasses.replace(plan, model=dying_model(tmp_path), images=1, defenses=("none",))
    _, summary = audit_plan(plan, tmp_path / "local", Running(engine="local", workers=2))
    assert (summary.done, summary.failed) == (1, 0)
    assert (tmp_path / "marker").exists()
    audit_plan(plan, tmp_path / "inline", Running())
    found = [json.loads((tmp_path / name / "audit.json").read_text())["rows"] for name in ("local", "inline")]
    assert found[0] == found[1]


DEADLY = """
import os, signal
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3 * 16 * 16, 10)

    def forward(self, images):
        import multiprocessing
        if multiprocessing.parent_process() is not None and float(images.sum()) == {total}:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.fc(images.flatten(1))
"""


def test_a_case_that_kills_every_worker_fails_with_a_reason_and_takes_no_other_along(plan, tmp_path):
    """Two tasks, of two cases and of one: the first is taken apart."""
    images, _ = data.load("photos:size=16").batch([1])
    (tmp_path / "deadly.py").write_text(
        DEADLY.format(total=repr(float((images[0] * 255).round().div(255)[None].sum())))
    )
    plan = dataclasses.replace(plan, model=f"{tmp_path / 'deadly.py'}:Net", images=3, defenses=("none",))
    result, summary = audit_plan(plan, tmp_path / "study", Running(engine="local", workers=2))
    assert (summary.failed, summary.done) == (1, 2)
    assert [failure.images for failure in result.failures] == [(1,)]
    assert "The worker died 3 times" in result.failures[0].reason
