"""Pre-flight: a day, an hour and five minutes before, find out what will not work, while there is time to act (R-20).

Each look asks what the start will ask: is there a node, has it room, is the port free, is the image there, does the
source send a picture. What is wrong is written on the booking and raised as an alert; when it is mended, the next look
takes the alert back.
"""

import logging
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

from django.db.models import Min

from nodes.machines.call_pools import pools
from nodes.machines.placement import Needs, NoPlace, choose
from nodes.models import Node, Reservation
from nodes.runtimes import installation, runtime_for
from nodes.runtimes.base import Identity, Launch, RuntimeFault
from scheduling.bookings.making import first_preflight
from scheduling.models import Booking
from scheduling.recorders.sources import SourceType, words_to_redact
from scheduling.recording.disk_forecast import bytes_needed
from scheduling.recording.workload_spec import needs_of, source_of
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now, house_time
from station.models.alert import Severity
from station.redaction import redact
from station.sealing import CannotOpen
from station.term import Term
from worker.wire import codec
from worker.wire.configuration import ProbeAnswer, ProbeConfig

logger = logging.getLogger(__name__)

State = Booking.State
MEGABYTE = 1024 * 1024
PER_TURN = 20
PROBE_SECONDS = 8.0
CALL_SECONDS = 20.0
PROBES = -1  # pools of nodes have positive numbers
DUE_SQL = f"SELECT min(next_preflight_at) FROM scheduling_booking WHERE state = '{State.PLANNED}'"  # noqa: S608


@dataclass(frozen=True)
class Finding:
    """One question and its answer."""

    name: str
    is_good: bool
    text: str


def step(term: Term, now: datetime) -> datetime | None:
    """Look ahead of what is due, on the threads of the nodes; a source that does not answer delays nobody."""
    planned = Booking.objects.filter(state=State.PLANNED)
    for booking in planned.filter(next_preflight_at__lte=now).select_related("recorder__node")[:PER_TURN]:
        upcoming = first_preflight(booking.starts_at, now)
        Booking.objects.filter(pk=booking.pk).update(next_preflight_at=upcoming)
        # On threads of their own: a source that does not answer must not hold up the starts and stops of its node.
        pools.submit(
            PROBES - (booking.recorder.node_id or 0), f"preflight:{booking.pk}", partial(look_by_id, booking.pk)
        )
    due: datetime | None = planned.aggregate(next=Min("next_preflight_at"))["next"]
    return due


def look_by_id(pk: int) -> None:
    booking = Booking.objects.select_related("recorder__project", "recorder__node").filter(pk=pk).first()
    if booking is not None and booking.state == State.PLANNED:
        look(booking)


def look(booking: Booking) -> list[Finding]:
    """All questions, the answers kept on the booking, an alert if one of them is bad."""
    findings = check(booking, database_now())
    now = database_now()
    Booking.objects.filter(pk=booking.pk).update(preflight=[asdict(each) for each in findings], preflight_at=now)
    booking.preflight, booking.preflight_at = [asdict(each) for each in findings], now
    bad = [each for each in findings if not each.is_good]
    key = f"preflight:{booking.owner}"
    if not bad:
        resolve_alert(key, now=now, note="everything is there now")
        return findings
    soon = booking.starts_at - now <= timedelta(hours=1, minutes=1)
    raise_alert(
        key,
        f"{booking} ({house_time(booking.starts_at)}) would not work as things are",
        now=now,
        severity=Severity.CRITICAL if soon else Severity.WARNING,
        text="\n".join(f"{each.name}: {each.text}" for each in bad),
        subject=booking.owner,
        project=booking.recorder.project,
    )
    return findings


def check(booking: Booking, now: datetime) -> list[Finding]:
    needs = needs_of(booking)
    findings = [_port(booking, needs)]
    try:
        node = choose(needs, now)
    except NoPlace as fault:
        return [*findings, Finding("node", False, str(fault))]
    findings.append(Finding("node", True, node.name))
    findings.append(_disk(booking, node))
    try:
        runtime_for(node).check_ready()
    except RuntimeFault as fault:
        return [*findings, Finding("worker", False, redact(str(fault)))]
    findings.append(Finding("worker", True, "can be started"))
    findings.append(_source(booking, node, now))
    return findings


def _port(booking: Booking, needs: Needs) -> Finding:
    """Is somebody else to hold the device or port in that window?"""
    if not needs.ports or booking.recorder.node is None:
        return Finding("port", True, "chosen at the start" if needs.ports else "none is needed")
    [(kind, number)] = needs.ports
    others = Reservation.objects.standing().filter(
        port__node=booking.recorder.node, port__kind=kind, port__number=number
    )
    other = others.exclude(owner=booking.owner).overlapping(booking.opens_at, booking.closes_at).first()
    if other is not None:
        return Finding("port", False, f"{other.port} is held by {other.holder}")
    return Finding("port", True, f"{kind} {number} is reserved")


def _disk(booking: Booking, node: Node) -> Finding:
    """R-18: the forecast, with everything else that is booked for that node until then."""
    if node.free_bytes is None:
        return Finding("disk", True, "its room is not known yet")
    needed = bytes_needed(booking)
    before = Booking.objects.live().filter(recorder__node=node, opens_at__lt=booking.opens_at).exclude(pk=booking.pk)
    promised = sum(bytes_needed(other) for other in before.select_related("recorder")[:200])
    free = node.free_bytes - promised
    text = f"about {needed // MEGABYTE} MB needed, {max(0, free) // MEGABYTE} MB expected to be free on {node.name}"
    return Finding("disk", free >= needed, text)


def _source(booking: Booking, node: Node, now: datetime) -> Finding:
    """A short worker on that node reads the source as the recording will."""
    recorder = booking.recorder
    if recorder.source_type == SourceType.TEST:
        return Finding("source", True, "test pattern")
    if Booking.objects.active().filter(recorder=recorder).exists():
        return Finding("source", True, "not asked: the recorder is recording from it now")
    if _is_port_busy(booking, node, now):
        return Finding("source", True, "not asked: its port is in use until then")
    try:
        secrets = tuple(words_to_redact(recorder.secrets))
        config = ProbeConfig(source_of(booking), PROBE_SECONDS, secrets)
    except CannotOpen as fault:
        return Finding("source", False, str(fault))
    devices = (f"/dev/blackmagic/io{recorder.address}",) if recorder.source_type == SourceType.DECKLINK else ()
    name = f"airlock-{installation()[:8]}-probe-{uuid4().hex[:8]}"
    launch = Launch(name, Identity(installation(), "probe", 0), "probe", config=codec.dumps(config), devices=devices)
    try:
        printed = runtime_for(node).run_briefly(launch, CALL_SECONDS)
        answer = codec.loads(ProbeAnswer, next(line for line in printed.splitlines() if line.startswith("{")))
    except RuntimeFault as fault:
        return Finding("source", False, f"it could not be asked: {redact(str(fault))}")
    except (StopIteration, codec.WireError):
        return Finding("source", False, f"it could not be asked: {redact(printed.strip()[-200:]) or 'no answer'}")
    if answer.ok:
        return Finding("source", True, "sends a picture")
    return Finding("source", False, redact(answer.error))


def _is_port_busy(booking: Booking, node: Node, now: datetime) -> bool:
    """Somebody else listens there at this moment: asking would be a clash of its own."""
    needs = needs_of(booking)
    if not needs.ports:
        return False
    [(kind, number)] = needs.ports
    held = Reservation.objects.standing().filter(port__node=node, port__kind=kind, port__number=number)
    return held.exclude(owner=booking.owner).overlapping(now, now + timedelta(seconds=PROBE_SECONDS)).exists()
