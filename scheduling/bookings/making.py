"""Make bookings. The database refuses an overlap on one recorder, and the refusal names the other booking (R-13)."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from nodes.machines.ports import PortTaken, port_of, release, reserve
from scheduling.bookings import padding
from scheduling.models import Booking, Recorder, Schedule
from scheduling.models.schedule import local_text
from scheduling.recorders.sources import port_needed
from scheduling.rules.recurrence import Occurrence
from station.actions import Outcome, Refusal, refused
from station.clock import house_time
from station.database.notify import wake_for
from station.states import SCHEDULER

PREFLIGHTS = (timedelta(hours=24), timedelta(hours=1), timedelta(minutes=5))


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
    _refuse_impossible(recorder, starts_at, ends_at)
    booking = draft(recorder, starts_at, ends_at, now=now, by=by, title=title, is_manual=is_manual)
    if schedule is not None and occurrence is not None:
        follow_rule(booking, schedule, occurrence)
    if pad_before_seconds is not None and not is_manual:
        booking.pad_before_seconds = pad_before_seconds
    if pad_after_seconds is not None:
        booking.pad_after_seconds = pad_after_seconds
    try:
        with transaction.atomic():
            lock(recorder.pk)
            refuse_overlap(booking)
            booking.opens_at, booking.closes_at = padding.fit(booking)
            padding.make_room(booking, booking.opens_at, booking.closes_at, now)
            booking.deadline_at = booking.closes_at
            booking.next_preflight_at = first_preflight(booking.starts_at, now)
            booking.save(force_insert=True)
            note = "booked" if not padding.is_short_of_padding(booking) else f"booked, {padding.words(booking)}"
            booking.events.create(at=now, old="", new=booking.state, by=by, note=note)
            reserve_port(booking)
            wake_for(booking.opens_at, now)
            return booking
    except IntegrityError as error:
        booking.pk = None
        raise refusal(booking) from error
    except PortTaken as error:
        raise BookingRefused(str(error)) from error


def check_window(recorder: Recorder, starts_at: datetime, ends_at: datetime, *, now: datetime) -> None:
    """Whether this window could be booked now; books nothing. Raises BookingRefused."""
    _refuse_impossible(recorder, starts_at, ends_at)
    refuse_overlap(draft(recorder, starts_at, ends_at, now=now, by="", title=""))


def _refuse_impossible(recorder: Recorder, starts_at: datetime, ends_at: datetime) -> None:
    if not recorder.is_active:
        raise BookingRefused(f"{recorder} is switched off.")
    if ends_at <= starts_at:
        raise BookingRefused("The end must come after the start.")


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
    booking.local_start = local_text(occurrence.local_start)
    if schedule.pad_before_seconds is not None:
        booking.pad_before_seconds = schedule.pad_before_seconds
    if schedule.pad_after_seconds is not None:
        booking.pad_after_seconds = schedule.pad_after_seconds
    booking.late_start = schedule.late_start
    booking.min_useful_seconds = schedule.min_useful_seconds
    booking.max_late_seconds = schedule.max_late_seconds


def lock(recorder_id: int) -> None:
    """Lock the recorder, so that writers queue: inserts that wait at the exclusion constraint would deadlock."""
    Recorder.objects.select_for_update(no_key=True).get(pk=recorder_id)


def refuse_overlap(booking: Booking) -> None:
    """Raise BookingRefused if the window overlaps another one. Padding is not compared: it can be shortened."""
    others = in_the_way(booking)
    if others:
        raise refusal(booking)


def in_the_way(booking: Booking) -> list[Booking]:
    """The live bookings that overlap this window, without padding that can be shortened."""
    rows = Booking.objects.overlapping(booking.recorder_id, booking.starts_at, booking.ends_at).exclude(
        pk=booking.pk or 0
    )
    found = []
    for other in rows.select_related("recorder").order_by("opens_at"):
        begins, ends = padding.held(other)
        if begins < booking.ends_at and ends > booking.starts_at:
            found.append(other)
    return found


def first_preflight(starts_at: datetime, now: datetime) -> datetime | None:
    """The time of the next pre-flight check before the start; None if all are past (R-20)."""
    return min((starts_at - ahead for ahead in PREFLIGHTS if starts_at - ahead > now), default=None)


def reserve_port(booking: Booking) -> None:
    """Reserve the port now if the recorder has a fixed node; otherwise node and port are chosen at the start."""
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


def hold_ports_anew(recorder: Recorder, now: datetime) -> list[str]:
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
    """The refusal of this window: the booking that has it, and when a window of this length is free."""
    recorder = booking.recorder
    others = in_the_way(booking)
    if not others:
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
        begins, ends = padding.held(other)
        if begins >= moment + length:
            break
        moment = max(moment, ends)
    return moment
