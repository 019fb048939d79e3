"""Making bookings: refused by the database when the recorder is taken, explained in words (R-13)."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from nodes.ports import PortTaken, port_of, reserve
from scheduling.models import Booking, Recorder
from scheduling.sources import port_needed
from station.clock import house_time
from station.states import SCHEDULER


class BookingRefused(Exception):
    """The booking cannot be had; the text is for the person who asked."""

    def __init__(self, text: str, winner: Booking | None = None, free_at: datetime | None = None) -> None:
        super().__init__(text)
        self.winner, self.free_at = winner, free_at


def book(
    recorder: Recorder,
    starts_at: datetime,
    ends_at: datetime,
    *,
    now: datetime,
    by: str = SCHEDULER,
    title: str = "",
    is_manual: bool = False,
) -> Booking:
    """One window on one recorder, with its padding and its port; or BookingRefused."""
    if not recorder.is_active:
        raise BookingRefused(f"{recorder} is switched off.")
    if ends_at <= starts_at:
        raise BookingRefused("The end must come after the start.")
    opens_at = starts_at if is_manual else starts_at - timedelta(seconds=recorder.pad_before_seconds)
    closes_at = ends_at + timedelta(seconds=recorder.pad_after_seconds)
    try:
        with transaction.atomic():
            # One after the other: inserts that wait for each other at the exclusion constraint would deadlock.
            Recorder.objects.select_for_update(no_key=True).get(pk=recorder.pk)
            booking = Booking.objects.create(
                recorder=recorder,
                title=title,
                starts_at=starts_at,
                ends_at=ends_at,
                opens_at=opens_at,
                closes_at=closes_at,
                requested_by=by,
                is_manual=is_manual,
                state=Booking.State.PLANNED,
                state_since_at=now,
                deadline_at=closes_at,
            )
            booking.events.create(at=now, old="", new=booking.state, by=by, note="booked")
            _reserve_port(booking)
            return booking
    except IntegrityError as error:
        raise _refusal(recorder, opens_at, closes_at) from error
    except PortTaken as error:
        raise BookingRefused(str(error)) from error


def _reserve_port(booking: Booking) -> None:
    """A pinned recorder's port is held ahead of time; otherwise the node, and so the port, is chosen at the start."""
    recorder = booking.recorder
    needed = port_needed(recorder.source_type, recorder.address)
    if needed is None or recorder.node is None:
        return
    reserve(
        port_of(recorder.node, *needed),
        owner=booking.owner,
        holder=f"{recorder} (booking {booking.pk})",
        starts_at=booking.opens_at,
        ends_at=booking.closes_at,
        project=recorder.project,
    )


def _refusal(recorder: Recorder, opens_at: datetime, closes_at: datetime) -> BookingRefused:
    winner = Booking.objects.overlapping(recorder.pk, opens_at, closes_at).order_by("opens_at").first()
    if winner is None:
        return BookingRefused(f"{recorder} was booked by somebody else a moment ago. Try again.")
    free_at = next_free(recorder, opens_at, closes_at - opens_at)
    return BookingRefused(
        f"{recorder} is taken by “{winner}” ({winner.state_word}, "
        f"{house_time(winner.opens_at)} to {house_time(winner.closes_at)}, "
        f"booked by {winner.requested_by or 'nobody'}). "
        f"It is free for this length from {house_time(free_at)}.",
        winner=winner,
        free_at=free_at,
    )


def next_free(recorder: Recorder, after: datetime, length: timedelta) -> datetime:
    """The first moment from `after` on at which nothing stands in the way for `length`."""
    moment = after
    taken = Booking.objects.live().filter(recorder=recorder, closes_at__gt=after).order_by("opens_at")
    for opens_at, closes_at in taken.values_list("opens_at", "closes_at"):
        if opens_at >= moment + length:
            break
        moment = max(moment, closes_at)
    return moment
