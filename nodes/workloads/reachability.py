"""A media worker does not answer: is it gone, or is this machine cut off?

A fenced workload (see `supervision_policy`) may still be sending: if the fault is here, it is neither ended nor
replaced (P-05).
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodes.machines.roll_call import Roll, RollCall
from nodes.models import Workload
from nodes.runtimes.base import Observed, Runtime, RuntimeFault
from station.alerts import raise_alert
from station.leader_term import Term
from station.models.alert import Severity

State = Workload.State
# How long a fenced media worker, its engine or another node may take to answer before it counts as silent.
PATIENCE_SECONDS = 1.5
RECENT_SECONDS = 60.0
# If a media worker on a node answered this recently, the node's control ports can be reached.
REACHED_SECONDS = 60.0
MOST_HEARD = 5000
VANISHED, UNREACHABLE, SEALED = "nodes_vanished", "channels_unreachable", "tokens_sealed"


@dataclass(frozen=True)
class Doubt:
    """A fenced media worker is silent, and all nodes are pinged: who is at fault?"""

    workload: Workload
    runtime: Runtime
    roll: Roll

    def inspect(self) -> Observed | None:
        """Ask its engine, if that answers pings: waiting for one that hangs would mean seconds off air."""
        if not self.node_answers():
            raise RuntimeFault(f"no answer within {PATIENCE_SECONDS:g} s")
        return self.runtime.inspect(self.workload.name)

    def node_answers(self) -> bool:
        return self.workload.node not in self.roll.missing(PATIENCE_SECONDS)


def ask_around(term: Term, workload: Workload, runtime: Runtime) -> Doubt:
    """Ping all nodes, or share the pings that are under way. Returns at once."""
    return Doubt(workload, runtime, term.memory(RollCall).call())


class Heard:
    """When each media worker and node last answered this leader (monotonic), so that it knows what it can reach."""

    def __init__(self) -> None:
        self.workloads: dict[int, float] = {}
        self.nodes: dict[int, float] = {}
        self.heartbeats: dict[int, float] = {}  # answers of workloads that do not hang

    def note(self, pk: int, node_id: int, *, is_heartbeat: bool = False) -> None:
        if len(self.workloads) > MOST_HEARD:
            self.workloads.clear()
            self.heartbeats.clear()
        self.workloads[pk] = self.nodes[node_id] = time.monotonic()
        if is_heartbeat:
            self.heartbeats[pk] = time.monotonic()

    def knows(self, workload: Workload) -> bool:
        """Did it answer before, or did any media worker on its node answer recently?"""
        since = time.monotonic() - self.nodes.get(workload.node_id, -1e9)
        return workload.pk in self.workloads or since < REACHED_SECONDS


def is_blocked_by_network(term: Term, workload: Workload, now: datetime) -> bool:
    """P-05: its engine reports it as running, but it does not answer. If a firewall blocks us, it must not be ended.

    True if this leader never got an answer from that node, or if most fenced workloads became silent at once.
    """
    if not workload.is_fenced:
        return False
    fenced = Workload.objects.filter(is_fenced=True, state=State.RUNNING, is_wanted=True)
    since = now - timedelta(seconds=workload.silence_seconds or 0.0)
    total, silent = fenced.count(), fenced.exclude(heartbeat_at__gt=since).count()
    is_known = term.memory(Heard).knows(workload)
    if is_known and not (total > 1 and silent * 2 > total):
        return False
    raise_alert(
        UNREACHABLE,
        f"{silent} of {total} channels do not answer the scheduler",
        now=now,
        severity=Severity.CRITICAL,
        text="Their engines report them as running, so they stay on air and are not stopped, but they cannot be "
        "controlled. Check the network from the scheduler to the control ports (firewall, the node's control host), "
        f"e.g. {workload.node.name} port {workload.control_port}.",
    )
    return True


def seems_to_be_us(workload: Workload, now: datetime, doubt: Doubt | None) -> bool:
    """P-05: if most nodes disappear at once, this machine is cut off, and their fenced workloads are not moved."""
    if doubt is None:
        return False
    gone = doubt.roll.missing(PATIENCE_SECONDS)
    # Nodes that were drained or down before are not counted: they say nothing about this machine.
    recent = (workload.heartbeat_at or workload.state_since_at) - timedelta(seconds=RECENT_SECONDS)
    counted = [
        node for node in doubt.roll.nodes if not node.is_draining and node.last_seen_at and node.last_seen_at > recent
    ]
    missing = [node for node in counted if node in gone]
    if len(missing) * 2 <= len(counted):
        return False
    raise_alert(
        VANISHED,
        f"{len(missing)} of {len(counted)} nodes cannot be reached",
        now=now,
        severity=Severity.CRITICAL,
        text="Most nodes disappeared at once, so this machine is probably cut off. Check its network. The channels "
        "are not moved and keep playing. If the nodes are really gone, move the channels by hand: "
        "manage.py failover_channel NAME --to NODE.",
    )
    return True
