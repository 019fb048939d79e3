"""What came of a recording: progress copied while it runs, and the verdict at the end."""

import itertools
import logging
from datetime import datetime
from typing import Any

from django.conf import settings

from nodes.models import Workload
from scheduling.models import Booking
from station.alerts import raise_alert
from station.models.alert import Severity
from worker.capture.journal import MIN_GAP_SECONDS

logger = logging.getLogger(__name__)

State = Booking.State
STOPPED_BY_HAND = "stopped_by_hand"
DISK_FULL = "disk_full"


def copy_progress(booking: Booking, workload: Workload) -> None:
    """The worker's own account, kept with the booking. It counts earlier generations' parts, so it only ever grows."""
    progress = workload.progress
    parts = merge_parts(booking.parts, progress.get("parts", []), workload.node_id)
    changes = {
        "parts": parts,
        "gaps": find_gaps(parts, [*booking.gaps, *progress.get("gaps", [])]),
        "frames": sum(part.get("frames", 0) for part in parts),
        "size_bytes": sum(part.get("bytes", 0) for part in parts),
    }
    if any(getattr(booking, name) != value for name, value in changes.items()):
        # Only while it is as we read it: a look that comes late must not put older words over the last ones.
        same = Booking.objects.filter(pk=booking.pk, state=booking.state, state_since_at=booking.state_since_at)
        if not same.update(**changes):
            return
        for name, value in changes.items():
            setattr(booking, name, value)


def merge_parts(known: list[dict[str, Any]], reported: list[dict[str, Any]], node: int) -> list[dict[str, Any]]:
    """By number; the newer report wins. A part that only an earlier node knows of is not forgotten, nor whose it is.

    One that holds nothing is none (yet): its worker takes the empty file away when the source does not come. Two nodes
    that could not see each other may have used one number: the first that was heard of keeps it.
    """
    by_number = {part["number"]: part for part in known}
    for part in reported:
        if not part.get("bytes"):
            continue
        before = by_number.get(part["number"], {})
        if before.get("node", node) != node and before.get("started_at") != part.get("started_at"):
            continue
        by_number[part["number"]] = {**part, "node": before.get("node", node)}
    return [by_number[number] for number in sorted(by_number)]


def find_gaps(parts: list[dict[str, Any]], reported: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gaps inside of parts as the worker reported them, and those between parts, whichever node wrote them."""
    inside = {gap["from_at"]: gap for gap in reported if gap.get("reason") == "no_signal"}
    gaps = list(inside.values())
    framed = [part for part in parts if part.get("first_frame_at") and part.get("last_frame_at")]
    for before, after in itertools.pairwise(framed):
        seconds = _seconds(before["last_frame_at"], after["first_frame_at"])
        if seconds >= MIN_GAP_SECONDS:
            gap = {"from_at": before["last_frame_at"], "to_at": after["first_frame_at"], "seconds": round(seconds, 3)}
            gaps.append({**gap, "reason": before.get("end_reason") or "worker_died"})
    return sorted(gaps, key=lambda gap: str(gap["from_at"]))


def missing_seconds(booking: Booking, until: datetime) -> float:
    """How much of the window, as far as it was meant to last, no part holds."""
    return missing_of(booking.parts, booking.gaps, booking.opens_at, min(until, booking.closes_at))


def missing_of(
    parts: list[dict[str, Any]], gaps: list[dict[str, Any]], wanted_from: datetime, wanted_until: datetime
) -> float:
    """The same of any parts and window."""
    held = 0.0
    for part in parts:
        if part.get("first_frame_at") and part.get("last_frame_at"):
            first = max(datetime.fromisoformat(part["first_frame_at"]), wanted_from)
            last = min(datetime.fromisoformat(part["last_frame_at"]), wanted_until)
            held += max(0.0, (last - first).total_seconds())
    held -= sum(float(gap["seconds"]) for gap in gaps if gap.get("reason") == "no_signal")
    return max(0.0, max(0.0, (wanted_until - wanted_from).total_seconds()) - held)


def conclude(booking: Booking, workload: Workload | None, now: datetime) -> None:
    """The last move of a booking whose worker is gone."""
    if workload is not None:
        copy_progress(booking, workload)
    if booking.state == State.CANCELLING:
        booking.move(State.CANCELLED, now=now, note="cancelled")
        return
    until = booking.state_since_at  # when it was told to stop
    missing = missing_seconds(booking, until)
    by_hand = booking.outcome == STOPPED_BY_HAND
    if not booking.size_bytes:
        to, note = State.FAILED, "stopped before anything was recorded" if by_hand else "nothing was recorded"
    elif booking.outcome == DISK_FULL:
        to, note = State.PARTIAL, "the disk was full; what was recorded is kept"
    elif missing > settings.TOLERATED_GAP_SECONDS:
        to, note = (
            State.PARTIAL,
            f"{missing:.1f} s are missing, {len(booking.gaps)} gap(s) in {len(booking.parts)} part(s)",
        )
    else:
        to, note = State.COMPLETED, f"{booking.frames} frames in {len(booking.parts)} part(s)"
    if booking.move(to, now=now, note=note, outcome=booking.outcome or str(to)):
        logger.info("Booking ended. booking=%s state=%s note=%s", booking.pk, to, note)
        if to != State.COMPLETED and not (by_hand and to == State.FAILED):
            _tell(booking, to, note, now)


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


def _seconds(first: str, second: str) -> float:
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()
