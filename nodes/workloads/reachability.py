"""Nobody answers: is it gone, or are we cut off? What plays on is not ended, and not doubled, because of us (P-05)."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from nodes.machines import health
from nodes.models import Node, Workload
from nodes.runtimes.base import Observed, Runtime, RuntimeFault
from station.alerts import raise_alert
from station.models.alert import Severity

State = Workload.State
PLAYOUT = "playout"
# How long a channel's worker, its engine or another node may take to answer before they count as silent.
PATIENCE_SECONDS = 1.5
INSPECT_THREADS = 64
RECENT_SECONDS = 60.0
# Something on a node that answered so recently shows that its control ports can be reached.
REACHED_SECONDS = 60.0
MOST_HEARD = 5000
VANISHED, UNREACHABLE, SEALED = "nodes_vanished", "channels_unreachable", "tokens_sealed"

_inspecting = ThreadPoolExecutor(INSPECT_THREADS, "inspect")


@dataclass(frozen=True)
class Doubt:
    """Everybody who could know, asked at once: time-outs that follow each other are seconds off air."""

    inspection: "Future[Observed | None]"
    roll: health.RollCall

    def inspect(self) -> Observed | None:
        return _answer(self.inspection)

    def answers(self, node: Node) -> bool:
        return node not in self.roll.missing(PATIENCE_SECONDS)


def ask_around(workload: Workload, runtime: Runtime) -> Doubt:
    """Its engine about it, and all nodes whether they are there."""
    return Doubt(_inspecting.submit(runtime.inspect, workload.name), health.call_roll())


def inspect(workload: Workload, runtime: Runtime) -> Observed | None:
    """A dead machine's engine is not waited for while a channel is off air: so long, and it counts as silent."""
    if workload.program != PLAYOUT:
        return runtime.inspect(workload.name)
    return _answer(_inspecting.submit(runtime.inspect, workload.name))


def _answer(inspection: "Future[Observed | None]") -> Observed | None:
    try:
        return inspection.result(PATIENCE_SECONDS)
    except TimeoutError as error:
        inspection.cancel()
        raise RuntimeFault(f"no answer within {PATIENCE_SECONDS:g} s") from error


# Whom this process has heard of, and when (monotonic): by that it knows what it can reach.
_heard: dict[int, float] = {}
_heard_node: dict[int, float] = {}


def note_heard(workload: Workload) -> None:
    clock = time.monotonic()
    if len(_heard) > MOST_HEARD:
        _heard.clear()
    _heard[workload.pk] = _heard_node[workload.node_id] = clock


def is_walled_off(workload: Workload, now: datetime) -> bool:
    """P-05: its engine says it runs, and we do not hear it. A wall between us is no reason to end what plays on.

    So it is only when nothing on that node was ever heard by this process, or when most channels fell silent at once.
    """
    if workload.program != PLAYOUT:
        return False
    channels = Workload.objects.filter(program=PLAYOUT, state=State.RUNNING, is_wanted=True)
    since = now - timedelta(seconds=settings.PLAYOUT_SILENCE_SECONDS)
    total, silent = channels.count(), channels.exclude(heartbeat_at__gt=since).count()
    clock = time.monotonic()
    is_known = workload.pk in _heard or clock - _heard_node.get(workload.node_id, -1e9) < REACHED_SECONDS
    if is_known and not (total > 1 and silent * 2 > total):
        return False
    raise_alert(
        UNREACHABLE,
        f"{silent} of {total} channels cannot be heard from the scheduler",
        now=now,
        severity=Severity.CRITICAL,
        text=f"Their engines say they run. Check the way from the scheduler to the control ports (firewall, the node's "
        f"control host), e.g. {workload.node.name} port {workload.control_port}. They play on and are not ended, but "
        "nobody can steer them meanwhile.",
    )
    return True


def seems_to_be_us(workload: Workload, now: datetime, doubt: Doubt | None) -> bool:
    """P-05: most nodes gone at once means that we are cut off, not they. What plays there plays on, unmoved."""
    if workload.program != PLAYOUT:
        return False
    roll = doubt.roll if doubt else health.call_roll()
    gone = roll.missing(PATIENCE_SECONDS)
    # What was drained or down before is not news: it says nothing about us.
    recent = (workload.heartbeat_at or workload.state_since_at) - timedelta(seconds=RECENT_SECONDS)
    counted = [node for node in roll.nodes if not node.is_draining and node.last_seen_at and node.last_seen_at > recent]
    missing = [node for node in counted if node in gone]
    if len(missing) * 2 <= len(counted):
        return False
    raise_alert(
        VANISHED,
        f"{len(missing)} of {len(counted)} nodes cannot be reached",
        now=now,
        severity=Severity.CRITICAL,
        text="So many at once: probably this machine is cut off. Channels are not moved; they play on where they are. "
        "If those nodes are really gone, move the channels by hand: manage.py failover_channel NAME --to NODE.",
    )
    return True
