"""Reads the facts of a chaos run: from the database, the recorded files, and what was watched and received."""

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from nodes.models import WorkloadEvent
from playout.models import Channel
from scheduling.models import Booking
from station.models import Alert, Project
from testing.chaos.receiver import Receiver
from testing.chaos.staging import BACKLOG
from testing.chaos.verdict import BacklogFacts, BookingFacts, ChannelFacts, Span
from testing.media import decode

FRAMES_PER_SECOND = 25


def booking_facts(project: Project, moved: set[str], writing: dict[Path, Span]) -> list[BookingFacts]:
    """`moved` are the owners of recordings that began on another machine."""
    bookings = Booking.objects.filter(recorder__project=project).select_related("recorder").order_by("starts_at")
    return [facts_of(booking, moved, writing) for booking in bookings]


def facts_of(booking: Booking, moved: set[str], writing: dict[Path, Span]) -> BookingFacts:
    story = f"{booking} ({booking.state}, {booking.owner}): {timeline(booking)}"
    files = [settings.RECORDINGS_DIR / booking.folder / part["file"] for part in booking.parts]
    frames = 0
    for path in files:
        try:
            frames += decode(path)
        except AssertionError as error:
            story += f" | {path.name}: {error}"
    return BookingFacts(
        owner=booking.owner,
        state=booking.state,
        story=story,
        window=Span(booking.opens_at, booking.closes_at),
        is_over=booking.is_over,
        held_seconds=frames / FRAMES_PER_SECOND,
        writing=tuple(writing[path] for path in files if path in writing),
        starts_here=booking.owner not in moved,
    )


def timeline(booking: Booking) -> str:
    """The events of a booking and its media workers, in seconds after its window opened."""
    events: list[Any] = [*booking.events.all(), *WorkloadEvent.objects.filter(subject__owner=booking.owner)]
    rows = sorted((event.at, f"{event.new} ({event.note})" if event.note else event.new) for event in events)
    starts = [part["first_frame_at"] for part in booking.parts if part.get("first_frame_at")]
    rows += [(datetime.fromisoformat(start), "FIRST FRAME") for start in starts]
    return " | ".join(f"{(at - booking.opens_at).total_seconds():+.1f} {word}" for at, word in sorted(rows))


def channel_facts(channel: Channel, receiver: Receiver) -> ChannelFacts:
    channel.refresh_from_db()
    return ChannelFacts(channel.state, receiver.senders, receiver.off_air_seconds, receiver.quiet_seconds)


def backlog_facts(project: Project) -> BacklogFacts:
    states = Counter(Booking.objects.filter(recorder__project=project).values_list("state", flat=True))
    alerts = Alert.objects.filter(project=project, key__startswith="missed:")
    return BacklogFacts(BACKLOG, states, tuple(alerts.values_list("title", "times_seen")))
