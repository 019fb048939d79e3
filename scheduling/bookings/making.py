"""Make bookings. The database refuses an overlap on one recorder, and the refusal names the other booking (R-13)."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from nodes.machines.ports import PortTaken, holder_between, release, reserve
from scheduling.bookings.batch import Batch, holder_name, port_of_recorder, why_impossible, why_odd
from scheduling.bookings.occupancy import Occupancy, held
from scheduling.models import Booking, Recorder, Schedule
from scheduling.rules.recurrence import Occurrence
from station.actions import Outcome, Refusal, refused
from station.clock import house_time
from station.database.locks import Queue, queue_for
from station.states import SCHEDULER


class BookingRefused(Refusal):
    """The booking cannot be made; the text is for the user."""

    def __init__(self, text: str, winner: Booking | None = None, free_at: datetime | None = None) -> None:
        super().__init__(text)
        self.winner, self.free_at = winner, free_at

    def outcome(self) -> Outcome:
        details = {"free_at": self.free_at} if self.free_at else {}
        return refused(str(self), target=self.winner, details=details)


def book(  # noqa: PLR0913  one keyword for each thing a caller may choose
    recorder: Recorder,
    starts_at: datetime,
    ends_at: datetime,
    *,
    now: datetime,
    by: str = SCHEDULER,
    title: str = "",
    is_manual: bool = False,
    schedule: Schedule | None = None,
    occurrence: Occurrence | None = None,
    pad_before_seconds: int | None = None,
    pad_after_seconds: int | None = None,
) -> Booking:
    """Book one window on one recorder, with its padding and its port; or raise BookingRefused."""
    booking = draft(recorder, starts_at, ends_at, now=now, by=by, title=title, is_manual=is_manual)
    _refuse_impossible(booking)
    if schedule is not None and occurrence is not None:
        follow_rule(booking, schedule, occurrence)
    if pad_before_seconds is not None and not is_manual:
        booking.pad_before_seconds = pad_before_seconds
    if pad_after_seconds is not None:
        booking.pad_after_seconds = pad_after_seconds
    try:
        with transaction.atomic():
            lock(recorder.pk)
            refuse_switched_off(recorder)
            batch = Batch(recorder, [(starts_at, ends_at)], now)
            if not batch.place(booking):
                raise refusal(booking)
            batch.write()
            return booking
    except IntegrityError as error:
        booking.pk = None
        raise refusal(booking) from error
    except PortTaken as error:  # of a neighbour whose padding was to be shortened
        raise BookingRefused(str(error)) from error


def check_window(recorder: Recorder, starts_at: datetime, ends_at: datetime, *, now: datetime) -> None:
    """Whether this window could be booked now; books nothing. Raises BookingRefused."""
    booking = draft(recorder, starts_at, ends_at, now=now, by="", title="")
    refuse_switched_off(recorder)
    _refuse_impossible(booking)
    refuse_overlap(booking)


def _refuse_impossible(booking: Booking) -> None:
    if reason := why_impossible(booking):
        raise BookingRefused(reason)


def refuse_switched_off(recorder: Recorder) -> None:
    """Ask the database: the recorder may have been switched off since it was read. Call it under its lock."""
    if not Recorder.objects.filter(pk=recorder.pk, is_active=True).exists():
        raise BookingRefused(f"{recorder} is switched off.")


def refuse_odd_times(starts_at: datetime, ends_at: datetime) -> None:
    """Refuse times that are no window, or too far away."""
    if reason := why_odd(starts_at, ends_at):
        raise BookingRefused(reason)


def draft(
    recorder: Recorder,
    starts_at: datetime,
    ends_at: datetime,
    *,
    now: datetime,
    by: str,
    title: str,
    is_manual: bool = False,
) -> Booking:
    """An unsaved booking without padding in its window."""
    return Booking(
        recorder=recorder,
        title=title,
        starts_at=starts_at,
        ends_at=ends_at,
        opens_at=starts_at,
        closes_at=ends_at,
        pad_before_seconds=0 if is_manual else recorder.pad_before_seconds,
        pad_after_seconds=recorder.pad_after_seconds,
        requested_by=by,
        is_manual=is_manual,
        state=Booking.State.PLANNED,
        state_since_at=now,
    )


def follow_rule(booking: Booking, schedule: Schedule, occurrence: Occurrence) -> None:
    """Copy the occurrence, the padding and the policies of the schedule to the booking."""
    booking.schedule, booking.planned_start_at = schedule, occurrence.starts_at
    booking.local_start = occurrence.key
    if schedule.pad_before_seconds is not None:
        booking.pad_before_seconds = schedule.pad_before_seconds
    if schedule.pad_after_seconds is not None:
        booking.pad_after_seconds = schedule.pad_after_seconds
    booking.late_start = schedule.late_start
    booking.min_useful_seconds = schedule.min_useful_seconds
    booking.max_late_seconds = schedule.max_late_seconds


def lock(recorder_id: int) -> None:
    """Let writers of this recorder's bookings queue: inserts that wait at the exclusion constraint would deadlock."""
    queue_for(Queue.RECORDER, recorder_id)


def refuse_overlap(booking: Booking) -> None:
    """Raise BookingRefused if the window overlaps another one. Padding is not compared: it can be shortened."""
    if in_the_way(booking):
        raise refusal(booking)


def in_the_way(booking: Booking) -> list[Booking]:
    """The live bookings that overlap this window, without padding that can be shortened."""
    return Occupancy.around(booking).in_the_way(booking)


def reserve_port(booking: Booking) -> None:
    """Reserve the port now if the recorder has a fixed node; otherwise node and port are chosen at the start."""
    port = port_of_recorder(booking.recorder)
    if port is not None:
        reserve(
            port,
            owner=booking.owner,
            holder=holder_name(booking),
            starts_at=booking.opens_at,
            ends_at=booking.closes_at,
            project=booking.recorder.project,
        )


def reserve_ports_again(recorder: Recorder, now: datetime) -> list[str]:
    """Reserve the new port for planned bookings after the recorder's device or node changed; returns the conflicts."""
    problems = []
    with transaction.atomic():
        lock(recorder.pk)
        for booking in Booking.objects.before_start().filter(recorder=recorder).select_related("recorder__node"):
            release(booking.owner, now=now)
            try:
                reserve_port(booking)
            except PortTaken as taken:
                problems.append(f"{booking} ({house_time(booking.starts_at)}): {taken}")
    return problems


def refusal(booking: Booking) -> BookingRefused:
    """The refusal of this window: the booking that has it, and when a window of this length is free; or who has the
    port."""
    recorder = booking.recorder
    near = Occupancy.around(booking)
    others = near.in_the_way(booking)
    if not others:
        port = port_of_recorder(recorder)
        ours = [booking.owner, *(row.owner for row in near.rows)]  # neighbours would shorten their padding
        holder = holder_between(port, booking.opens_at, booking.closes_at, but=ours) if port else None
        if port is not None and holder is not None:
            return BookingRefused(str(PortTaken(port, holder)))
        return BookingRefused(f"Another user has just booked {recorder}. Try again.")
    winner = others[0]
    free_at = next_free(recorder, booking.starts_at, booking.ends_at - booking.starts_at, but=booking.pk or 0)
    return BookingRefused(
        f"{recorder} is taken by “{winner}” ({winner.state_word}, "
        f"{house_time(winner.starts_at)} to {house_time(winner.ends_at)}, "
        f"booked by {winner.requested_by or 'an unknown user'}). "
        f"It is free for this length from {house_time(free_at)}.",
        winner=winner,
        free_at=free_at,
    )


def next_free(recorder: Recorder, after: datetime, length: timedelta, but: int = 0) -> datetime:
    """The first time from `after` on at which the recorder is free for `length`."""
    moment = after
    taken = Booking.objects.live().filter(recorder=recorder, closes_at__gt=after).exclude(pk=but).order_by("starts_at")
    for other in taken.only("state", "opens_at", "starts_at", "ends_at", "closes_at").iterator(chunk_size=100):
        begins, ends = held(other)
        if begins >= moment + length:
            break
        moment = max(moment, ends)
    return moment
