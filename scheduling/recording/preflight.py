"""Pre-flight checks: a day, an hour and five minutes before a booking, find what will not work (R-20).

They check what the start will need: a node, disk space, a free port, the image, a source that sends a picture. The
findings are stored with the booking. A bad one raises an alert; the next check that finds no problem resolves it.
"""

import logging
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

from django.db.models import Min

from nodes.machines.call_pools import PROBES, pools
from nodes.machines.placement import Needs, NoPlace, choose
from nodes.models import Node, Reservation
from nodes.runtimes import installation, runtime_for
from nodes.runtimes.base import Identity, Launch, RuntimeFault
from scheduling.bookings.batch import first_preflight
from scheduling.models import Booking
from scheduling.recorders.sources import SourceType, words_to_redact
from scheduling.recording.disk_forecast import bytes_needed
from scheduling.recording.workload_spec import needs_of, source_of
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now, house_time
from station.leader_term import Term
from station.models.alert import Severity
from station.redaction import redact
from station.sealing import CannotOpen
from worker.wire import codec
from worker.wire.configuration import ProbeAnswer, ProbeConfig

logger = logging.getLogger(__name__)

State = Booking.State
MEGABYTE = 1024 * 1024
PER_TURN = 20
PROBE_SECONDS = 8.0
CALL_SECONDS = 20.0
DUE_SQL = f"SELECT min(next_preflight_at) FROM scheduling_booking WHERE state = '{State.PLANNED}'"  # noqa: S608


@dataclass(frozen=True)
class Finding:
    """One check and its result."""

    name: str
    is_good: bool
    text: str


def step(term: Term, now: datetime) -> datetime | None:
    """Start the checks that are due, on threads of their own."""
    planned = Booking.objects.filter(state=State.PLANNED)
    for booking in planned.filter(next_preflight_at__lte=now).select_related("recorder__node")[:PER_TURN]:
        upcoming = first_preflight(booking.starts_at, now)
        Booking.objects.filter(pk=booking.pk).update(next_preflight_at=upcoming)
        # A source that does not answer must not hold up the starts and stops of its node.
        pools.submit_soon(
            PROBES - (booking.recorder.node_id or 0), f"preflight:{booking.pk}", partial(look_by_id, booking.pk)
        )
    due: datetime | None = planned.aggregate(next=Min("next_preflight_at"))["next"]
    return due


def look_by_id(pk: int) -> None:
    booking = Booking.objects.select_related("recorder__project", "recorder__node").filter(pk=pk).first()
    if booking is not None and booking.state == State.PLANNED:
        look(booking)


def look(booking: Booking) -> list[Finding]:
    """Run all checks, store the findings with the booking, and raise an alert if one of them is bad."""
    findings = check(booking, database_now())
    now = database_now()
    Booking.objects.filter(pk=booking.pk).update(preflight=[asdict(each) for each in findings], preflight_at=now)
    booking.preflight, booking.preflight_at = [asdict(each) for each in findings], now
    bad = [each for each in findings if not each.is_good]
    key = f"preflight:{booking.owner}"
    if not bad:
        resolve_alert(key, now=now, note="all checks pass now")
        return findings
    soon = booking.starts_at - now <= timedelta(hours=1, minutes=1)
    raise_alert(
        key,
        f"{booking} ({house_time(booking.starts_at)}): a pre-flight check failed",
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
        return [*findings, Finding("media worker", False, redact(str(fault)))]
    findings.append(Finding("media worker", True, "can be started"))
    findings.append(_source(booking, node, now))
    return findings


def _port(booking: Booking, needs: Needs) -> Finding:
    """Does another owner hold the device or port in that window?"""
    if not needs.ports or booking.recorder.node is None:
        return Finding("port", True, "chosen at the start" if needs.ports else "none needed")
    [(kind, number)] = needs.ports
    others = Reservation.objects.standing().filter(
        port__node=booking.recorder.node, port__kind=kind, port__number=number
    )
    other = others.exclude(owner=booking.owner).overlapping(booking.opens_at, booking.closes_at).first()
    if other is not None:
        return Finding("port", False, f"{other.port} is held by {other.holder}")
    return Finding("port", True, f"{kind} {number} is reserved")


def _disk(booking: Booking, node: Node) -> Finding:
    """Compare the forecast with the free space, minus everything else booked for that node until then (R-18)."""
    if node.free_bytes is None:
        return Finding("disk", True, "free space is not known yet")
    needed = bytes_needed(booking)
    before = Booking.objects.live().filter(recorder__node=node, opens_at__lt=booking.opens_at).exclude(pk=booking.pk)
    promised = sum(bytes_needed(other) for other in before.select_related("recorder")[:200])
    free = node.free_bytes - promised
    text = f"about {needed // MEGABYTE} MB needed, {max(0, free) // MEGABYTE} MB expected to be free on {node.name}"
    return Finding("disk", free >= needed, text)


def _source(booking: Booking, node: Node, now: datetime) -> Finding:
    """Start a short probe on that node that reads the source as the recording will."""
    recorder = booking.recorder
    if recorder.source_type == SourceType.TEST:
        return Finding("source", True, "test pattern")
    if Booking.objects.active().filter(recorder=recorder).exists():
        return Finding("source", True, "not checked: the recorder is recording from it now")
    if _is_port_busy(booking, node, now):
        return Finding("source", True, "not checked: its port is in use now")
    try:
        secrets = tuple(words_to_redact(recorder.secrets))
        config = ProbeConfig(source_of(booking), PROBE_SECONDS, secrets, recorder.container, recorder.programme or 0)
    except CannotOpen as fault:
        return Finding("source", False, str(fault))
    devices = (f"/dev/blackmagic/io{recorder.address}",) if recorder.source_type == SourceType.DECKLINK else ()
    name = f"airlock-{installation()[:8]}-probe-{uuid4().hex[:8]}"
    launch = Launch(name, Identity(installation(), "probe", 0), "probe", config=codec.dumps(config), devices=devices)
    try:
        printed = runtime_for(node).run_briefly(launch, CALL_SECONDS)
        answer = codec.loads(ProbeAnswer, next(line for line in printed.splitlines() if line.startswith("{")))
    except RuntimeFault as fault:
        return Finding("source", False, f"could not be checked: {redact(str(fault))}")
    except (StopIteration, codec.WireError):
        return Finding("source", False, f"could not be checked: {redact(printed.strip()[-200:]) or 'no answer'}")
    if answer.ok:
        return Finding("source", True, _describe(answer, recorder.programme))
    return Finding("source", False, redact(answer.error))


def _describe(answer: ProbeAnswer, programme: int | None) -> str:
    """What the source sends, and what of it the file will not have."""
    text = f"sends a picture ({', '.join(answer.tracks)})" if answer.tracks else "sends a picture"
    if answer.unrecorded:
        text += f". Not recorded (the file format or ffmpeg cannot keep it): {', '.join(answer.unrecorded)}"
    if len(answer.programmes) > 1 and not programme:
        numbers = ", ".join(str(number) for number in answer.programmes)
        text += f". It has several programmes ({numbers}); all of them are recorded in one file"
    return text


def _is_port_busy(booking: Booking, node: Node, now: datetime) -> bool:
    """True if another owner holds the port now: a probe would collide with it."""
    needs = needs_of(booking)
    if not needs.ports:
        return False
    [(kind, number)] = needs.ports
    held = Reservation.objects.standing().filter(port__node=node, port__kind=kind, port__number=number)
    return held.exclude(owner=booking.owner).overlapping(now, now + timedelta(seconds=PROBE_SECONDS)).exists()
