"""The server's side of a federation, whatever carries its messages: rounds are opened, judged and closed here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch.nn import functional as F

from glasshouse.errors import OutOfTimeError
from glasshouse.federated.clients import Weights, network, set_weights, weights_of
from glasshouse.federated.holdings import Holding, open_test
from glasshouse.federated.plan import Federation
from glasshouse.federated.records import Fault, Heard, Ledger, Round
from glasshouse.functional.threads import outputs
from glasshouse.models.held import held
from glasshouse.types import ImageSpec

#: Called with the facts of each finished round.
Told = Callable[[Round], None]


def nobody(facts: Round) -> None:
    """Tell nobody."""


@dataclass
class Host:
    """Keeps the global model and the ledger, and tests the model on images of its own after every round.

    Past the ``deadline``, a reading of ``time.monotonic``, no round is opened but the first one of a run.
    """

    plan: Federation
    directory: Path
    test: Holding
    class_names: tuple[str, ...]
    tell: Told = nobody
    deadline: float = math.inf
    _began: float = field(default=0.0, init=False)

    @classmethod
    def prepare(cls, plan: Federation, directory: Path, *, root: Path | None = None, tell: Told = nobody) -> Host:
        """Open the test images, whose class names the whole federation uses, and see that the model takes them."""
        pool = open_test(plan, root)
        class_names = plan.class_names(pool.class_names)
        holding = Holding.of(pool, range(len(pool.labels)), class_names)
        network(plan, holding.spec)
        return cls(plan, directory, holding, class_names, tell)

    @property
    def image(self) -> ImageSpec:
        """What images look like, and how many classes there are."""
        return self.test.spec

    @property
    def ledger(self) -> Ledger:
        """The rounds on disk."""
        return Ledger(self.directory)

    def first_round(self) -> int:
        """Where to begin, or to go on after a kill."""
        return len(self.ledger.finished())

    def initial(self) -> Weights:
        """The weights to begin with, or to go on from."""
        number = self.first_round()
        return self.ledger.sent(number) if number else weights_of(network(self.plan, self.image))

    def anew(self, mean: Weights) -> Weights:
        """What the next round begins with: the mean, but for parts that a server sends anew."""
        return {**mean, **held(network(self.plan, self.image))}

    def open_round(self, number: int, weights: Weights) -> None:
        """Write down what is sent, and start the clock."""
        if self._began and time.monotonic() > self.deadline:
            raise OutOfTimeError("The time for this federation is over: the same command goes on.")
        self._began = time.monotonic()
        self.ledger.open(number, weights)

    def close_round(
        self, number: int, weights: Weights, heard: Sequence[Heard], faults: Sequence[Fault], bytes_sent: int
    ) -> None:
        """Test the new weights, write them down as what the next round begins with, and finish the round."""
        right, loss = self.judge(weights)
        self.ledger.open(number + 1, weights)
        seconds = time.monotonic() - self._began
        facts = Round(number, right, loss, bytes_sent, seconds, tuple(heard), tuple(faults))
        self.ledger.close(facts)
        self.tell(facts)

    def judge(self, weights: Weights) -> tuple[float, float]:
        """Accuracy and mean cross-entropy of some weights on the test images."""
        model = network(self.plan, self.image)
        set_weights(model, weights)
        samples = self.test.in_epoch(0)
        logits = outputs(model.eval(), samples.images)
        right = (logits.argmax(1) == samples.targets).float().mean()
        return float(right), float(F.cross_entropy(logits, samples.targets))
