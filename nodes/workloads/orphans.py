"""Ends orphans: containers with our label but without a workload row. Stops them, kills them, removes them."""

import logging
import time

from nodes.models import Node, Workload
from nodes.runtimes import runtime_for
from nodes.runtimes.base import Observed, Runtime, RuntimeFault, Status
from station.leader_term import Term
from station.redaction import redact

logger = logging.getLogger(__name__)

# A disk probe is removed by the call that created it; only one left behind by a crash gets this old.
PATIENCE_SECONDS = {"probe": 30.0}
FORCE_AFTER_SECONDS = 10.0


class Sightings:
    """When each orphan was first seen (monotonic), by node and name."""

    def __init__(self) -> None:
        self.first_seen: dict[tuple[int, str], float] = {}

    def has_some(self, node_id: int) -> bool:
        return any(node == node_id for node, _ in list(self.first_seen))


def end_orphans(term: Term, node: Node, listed: list[Observed]) -> None:
    """End those of our containers on this node that have no row.

    The containers are listed before the rows are read. A row is committed before its container is created, so a listed
    container without a row is an orphan.
    """
    known = known_names(listed)
    orphans = {seen.name: seen for seen in listed if seen.name not in known}
    first_seen = term.memory(Sightings).first_seen
    # A copy: the checks of other nodes add to it at the same time.
    for stale in [key for key in list(first_seen) if key[0] == node.pk and key[1] not in orphans]:
        del first_seen[stale]
    runtime = runtime_for(node)
    for orphan in orphans.values():
        try:
            age = time.monotonic() - first_seen.setdefault((node.pk, orphan.name), time.monotonic())
            _end(node, orphan, runtime, age)
        except RuntimeFault as fault:
            logger.warning("An orphan could not be ended yet. name=%s error=%s", orphan.name, redact(str(fault)))


def known_names(listed: list[Observed]) -> set[str]:
    """The names that have a row, on any node: two nodes may use the same engine, and names are unique."""
    if not listed:
        return set()
    names = [seen.name for seen in listed]
    return set(Workload.objects.to_look_at().filter(name__in=names).values_list("name", flat=True))


def _end(node: Node, orphan: Observed, runtime: Runtime, age: float) -> None:
    owner = orphan.identity.owner if orphan.identity else ""
    if age < PATIENCE_SECONDS.get(owner, 0.0):
        return
    if orphan.status is Status.RUNNING:
        logger.warning("Ending an orphan. node=%s name=%s owner=%s", node.name, orphan.name, owner)
        runtime.stop(orphan.name, force=age > FORCE_AFTER_SECONDS)
    else:
        runtime.remove(orphan.name)
        logger.warning("Removed an orphan. node=%s name=%s owner=%s", node.name, orphan.name, owner)
