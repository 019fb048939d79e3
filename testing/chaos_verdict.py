"""Judges a chaos run from the database and from the recorded files."""

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from testing.media import decode


def judge(doubled: set[str], leftovers: list[str], say: Callable[[str], None]) -> dict[str, list[str]]:
    """Bookings that were lost, recorded twice at once, or did not end."""
    from django.conf import settings

    from scheduling.models import Booking

    wrong: dict[str, list[str]] = {"lost": [], "doubled": sorted(doubled), "stuck": leftovers}
    states: Counter[str] = Counter()
    for booking in Booking.objects.order_by("starts_at"):
        states[booking.state] += 1
        story = f"{booking} ({booking.state}): " + " | ".join(str(event) for event in booking.events.all())
        if booking.state == "partial":
            say(f"partial: {booking}: {timeline(booking)}")
        if not booking.is_over:
            wrong["stuck"].append(story)
        elif booking.state not in {"completed", "partial"}:
            wrong["lost"].append(story)
        else:
            try:
                frames = sum(decode(settings.RECORDINGS_DIR / booking.folder / part["file"]) for part in booking.parts)
            except AssertionError as error:
                frames = 0
                story += f" | {error}"
            if not frames:
                wrong["lost"].append(story)
            wrong["doubled"] += [f"{story}: {pair}" for pair in overlapping(booking.parts)]
    say(f"bookings: {dict(states)}")
    return wrong


def timeline(booking: Any) -> str:
    """The events of a booking and its media workers, in seconds after its window opened."""
    from nodes.models import WorkloadEvent

    events = [*booking.events.all(), *WorkloadEvent.objects.filter(subject__owner=booking.owner)]
    rows = sorted((event.at, f"{event.new} ({event.note})" if event.note else event.new) for event in events)
    rows += [(datetime.fromisoformat(part["first_frame_at"]), "FIRST FRAME") for part in booking.parts]
    return " | ".join(f"{(at - booking.opens_at).total_seconds():+.1f} {word}" for at, word in sorted(rows))


def overlapping(parts: list[dict[str, Any]]) -> list[str]:
    """Two parts of one recording that were written at the same time."""
    spans = sorted((part["first_frame_at"], part["last_frame_at"]) for part in parts if part.get("first_frame_at"))
    moments = [(datetime.fromisoformat(first), datetime.fromisoformat(last)) for first, last in spans]
    return [
        f"{first.astimezone(UTC):%H:%M:%S} overlaps"
        for (_, before), (first, _) in itertools.pairwise(moments)
        if (before - first).total_seconds() > 0.5
    ]
