"""What came of a recording: progress copied while it runs, and the verdict at the end."""

import logging
from datetime import datetime
from typing import Any

from nodes.models import Workload
from scheduling.models import Booking
from station.alerts import raise_alert
from station.models.alert import Severity

logger = logging.getLogger(__name__)

State = Booking.State
TOLERATED_GAP_SECONDS = 1.0


def copy_progress(booking: Booking, workload: Workload) -> None:
    """The worker's own account, kept with the booking. It counts earlier generations' parts, so it only ever grows."""
    progress = workload.progress
    parts = merge_parts(booking.parts, progress.get("parts", []))
    changes = {
        "parts": parts,
        "gaps": progress.get("gaps") or booking.gaps,
        "frames": sum(part.get("frames", 0) for part in parts),
        "size_bytes": sum(part.get("bytes", 0) for part in parts),
    }
    if any(getattr(booking, name) != value for name, value in changes.items()):
        Booking.objects.filter(pk=booking.pk).update(**changes)
        for name, value in changes.items():
            setattr(booking, name, value)


def merge_parts(known: list[dict[str, Any]], reported: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By number; the newer report wins. A part that only an earlier node knows of is not forgotten."""
    by_number = {part["number"]: part for part in [*known, *reported]}
    return [by_number[number] for number in sorted(by_number)]


def conclude(booking: Booking, workload: Workload | None, now: datetime) -> None:
    """The last move of a booking whose worker is gone."""
    if workload is not None:
        copy_progress(booking, workload)
    if booking.state == State.CANCELLING:
        booking.move(State.CANCELLED, now=now, note="cancelled")
        return
    lost = sum(float(gap.get("seconds", 0)) for gap in booking.gaps)
    if not booking.frames:
        to, note = State.FAILED, "nothing was recorded"
    elif booking.outcome == "disk_full":
        to, note = State.PARTIAL, "the disk was full; what was recorded is kept"
    elif lost > TOLERATED_GAP_SECONDS or (workload and workload.state != Workload.State.EXITED):
        to, note = State.PARTIAL, f"{len(booking.gaps)} gaps, {lost:.1f} s missing"
    else:
        to, note = State.COMPLETED, f"{booking.frames} frames in {len(booking.parts)} part(s)"
    if booking.move(to, now=now, note=note, outcome=booking.outcome or str(to)):
        logger.info("Booking ended. booking=%s state=%s note=%s", booking.pk, to, note)
        if to != State.COMPLETED:
            raise_alert(
                f"{to}:{booking.owner}",
                f"{booking} ended {to}: {note}",
                now=now,
                severity=Severity.CRITICAL if to == State.FAILED else Severity.WARNING,
                text="\n".join(str(error.get("error", "")) for error in booking.errors[-5:]),
                subject=booking.owner,
                project=booking.recorder.project,
            )
