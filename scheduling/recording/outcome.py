"""The result of a recording: progress copied while it runs, and the final state."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings

from nodes.models import Workload
from scheduling.models import Booking
from station.alerts import raise_alert
from station.models.alert import Severity
from worker.wire import codec, parts_and_gaps
from worker.wire.parts_and_gaps import Part, find_gaps
from worker.wire.status import CaptureStatus

logger = logging.getLogger(__name__)

State = Booking.State
STOPPED_BY_HAND = "stopped_by_hand"
DISK_FULL = "disk_full"


def copy_progress(booking: Booking, workload: Workload) -> None:
    """Copy the media worker's report to the booking. It includes the parts of earlier generations, so it only grows."""
    status = workload.status(CaptureStatus)
    stored = booking.read_stored_parts()  # decoded once: there may be thousands
    parts = merge_parts(booking.overlay_growing(stored), status.parts, workload.node_id)
    found: dict[str, Any] = {
        **_parts_columns(booking, stored, parts),
        "gaps": codec.encode(find_gaps(parts, [*booking.read_gaps(), *status.gaps])),
        "frames": sum(part.frames for part in parts),
        "size_bytes": sum(part.bytes for part in parts),
    }
    changes = {name: value for name, value in found.items() if getattr(booking, name) != value}
    if changes:
        # Only if it is still in the state that was read: a late check must not overwrite the final report.
        same = Booking.objects.filter(pk=booking.pk, state=booking.state, state_since_at=booking.state_since_at)
        if not same.update(**changes):
            return
        for name, value in changes.items():
            setattr(booking, name, value)


def _parts_columns(booking: Booking, stored: list[Part], parts: list[Part]) -> dict[str, Any]:
    """All parts when there is another one, or when it does not record any more; otherwise only those that grew."""
    by_number = {part.number: part for part in stored}
    grown = [part for part in parts if by_number.get(part.number) != part]
    if booking.state == State.RECORDING and len(parts) == len(stored):
        return {"growing": codec.encode(grown)}
    return {"parts": codec.encode(parts), "growing": []}


def merge_parts(known: Iterable[Part], reported: Iterable[Part], node: int) -> list[Part]:
    """Merge by number; the newer report wins. A part that only an earlier node knows is kept, with its node.

    A part without bytes does not count yet: its media worker removes the empty file if no picture arrives.
    Two nodes that could not reach each other may have used the same number: the one reported first keeps it.
    """
    by_number = {part.number: part for part in known}
    for part in reported:
        if not part.bytes:
            continue
        before = by_number.get(part.number)
        owner = before.node if before is not None and before.node is not None else node
        if before is not None and owner != node and before.started_at != part.started_at:
            continue
        by_number[part.number] = replace(part, node=owner)
    return [by_number[number] for number in sorted(by_number)]


def missing_seconds(booking: Booking, until: datetime) -> float:
    """Seconds of the window, up to `until`, that are in no part."""
    wanted_until = min(until, booking.closes_at)
    return parts_and_gaps.missing_seconds(booking.read_parts(), booking.read_gaps(), booking.opens_at, wanted_until)


def conclude(booking: Booking, workload: Workload | None, now: datetime) -> None:
    """Move a booking whose media worker is gone to its final state."""
    if workload is not None:
        copy_progress(booking, workload)
    if booking.state == State.CANCELLING:
        booking.move(State.CANCELLED, now=now, note="cancelled")
        return
    until = booking.state_since_at  # when it was asked to stop
    missing = missing_seconds(booking, until)
    by_hand = booking.outcome == STOPPED_BY_HAND
    if not booking.size_bytes:
        to, note = State.FAILED, "stopped before anything was recorded" if by_hand else "nothing was recorded"
    elif booking.outcome == DISK_FULL:
        to, note = State.PARTIAL, "the disk was full; what was recorded is kept"
    elif missing > settings.TOLERATED_GAP_SECONDS:
        to, note = (
            State.PARTIAL,
            f"{missing:.1f} s are missing, {_count(booking.gaps, 'gap')} in {_count(booking.parts, 'part')}",
        )
    else:
        to, note = State.COMPLETED, f"{booking.frames} frames in {_count(booking.parts, 'part')}"
    if booking.move(to, now=now, note=note, outcome=booking.outcome or str(to)):
        logger.info("Booking ended. booking=%s state=%s note=%s", booking.pk, to, note)
        if to != State.COMPLETED and not (by_hand and to == State.FAILED):
            _tell(booking, to, note, now)


def _count(items: list[Any], word: str) -> str:
    return f"{len(items)} {word}" if len(items) == 1 else f"{len(items)} {word}s"


def _tell(booking: Booking, to: str, note: str, now: datetime) -> None:
    raise_alert(
        f"{to}:{booking.owner}",
        f"{booking} ended {to}: {note}",
        now=now,
        severity=Severity.CRITICAL if to == State.FAILED else Severity.WARNING,
        text="\n".join(str(error.get("error", "")) for error in booking.errors[-5:]),
        subject=booking.owner,
        project=booking.recorder.project,
    )
