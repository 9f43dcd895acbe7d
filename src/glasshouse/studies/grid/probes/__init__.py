"""What can be measured beside attacks, by the name that a plan gives it; one file each."""

from __future__ import annotations

from glasshouse.studies.grid.probes.base import Laboratory, Network, Probe, others_of
from glasshouse.studies.grid.probes.cost import Cost
from glasshouse.studies.grid.probes.linkage import Linkage
from glasshouse.studies.grid.probes.membership import Membership

KINDS: dict[str, type[Probe]] = {one.kind: one for one in (Membership, Linkage, Cost)}

__all__ = ["KINDS", "Laboratory", "Network", "Probe", "others_of"]
