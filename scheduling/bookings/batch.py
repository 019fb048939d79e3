"""Books any number of windows of one recorder with a few statements (R-09): reads once, decides in memory, writes once.

The result is the same as booking them one after the other. The database stays the last guard: if it refuses a row, it
refuses the batch, and the caller books the windows alone.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from nodes.machines.ports import Holds, port_of, queue_for_port
from nodes.models import Port, Reservation
from scheduling.bookings import padding
from scheduling.bookings.occupancy import NEAR, Occupancy, Window
from scheduling.models import Booking, BookingEvent, Recorder
from scheduling.recorders.sources import port_needed
from station.database.notify import wake_for
from station.states import SCHEDULER

State = Booking.State
FIRST_YEAR, LAST_YEAR = 2000, 9998  # Python's dates end in 9999
PREFLIGHTS = (timedelta(hours=24), timedelta(hours=1), timedelta(minutes=5))


class Batch:
    """Bookings that are placed and not yet written. Its caller has queued for the recorder (`making.lock`)."""

    def __init__(self, recorder: Recorder, windows: Sequence[Window], now: datetime) -> None:
        self.recorder, self.now = recorder, now
        self.near = Occupancy.near(recorder.pk, windows)
        self.port = port_of_recorder(recorder)
        self.holds = Holds([])
        if self.port is not None and windows:
            queue_for_port(self.port)
            ours = {row.owner for row in self.near.rows}  # they are next to each other as their bookings are
            begins = min(window[0] for window in windows) - NEAR
            ends = max(window[1] for window in windows) + NEAR
            self.holds = Holds.read(self.port, begins, ends, but=ours)
        self._new: list[Booking] = []
        self._again: dict[int, Booking] = {}
        self._events: list[BookingEvent] = []

    def place(self, booking: Booking) -> bool:
        """Place it between its neighbours. False if it cannot be booked; `making.refusal` says why."""
        if not self._fit_in(booking):
            return False
        note = "booked" if not padding.is_short_of_padding(booking) else f"booked, {padding.words(booking)}"
        self._note(booking, "", note, booking.requested_by)
        self._new.append(booking)
        return True

    def place_again(self, booking: Booking) -> bool:
        """Place a skipped booking. False if its window or its port is taken by now."""
        if not self._fit_in(booking):
            return False
        self._again[booking.pk] = booking
        return True

    def _fit_in(self, booking: Booking) -> bool:
        if why_impossible(booking) or self.near.in_the_way(booking):
            return False
        booking.opens_at, booking.closes_at = padding.fit(booking, self.near)
        if self.holds.is_taken(booking.opens_at, booking.closes_at):
            return False
        for cut in padding.cuts(booking, booking.opens_at, booking.closes_at, self.near):
            self._shorten(cut)
        booking.deadline_at = booking.closes_at
        booking.next_preflight_at = first_preflight(booking.starts_at, self.now)
        self.near.add(booking)
        return True

    def _shorten(self, cut: padding.Cut) -> None:
        """Shorten the padding of a neighbour: in the database if it is stored, else before it is."""
        booking = cut.booking
        if booking.pk is not None and booking.pk not in self._again:
            padding.set_window(booking, cut.opens_at, cut.closes_at, self.now, cut.why)
            return
        booking.opens_at, booking.closes_at, booking.deadline_at = cut.opens_at, cut.closes_at, cut.closes_at
        if booking.pk is None:
            self._note(booking, booking.state, f"{padding.words(booking)}: {cut.why}")

    def _note(self, booking: Booking, old: str, note: str, by: str = SCHEDULER) -> None:
        event = BookingEvent(subject=booking, at=self.now, old=old, new=booking.state, by=by, note=note)
        self._events.append(event)

    def write(self) -> None:
        """Write what was placed. Raises IntegrityError if the database refuses one of the rows."""
        if not self._new:
            return
        Booking.objects.bulk_create(self._new)
        BookingEvent.objects.bulk_create(self._events)
        self._reserve(self._new)
        self._new, self._events = [], []

    def write_again(self, by: str) -> list[Booking]:
        """Plan again what was placed; returns those that nobody has changed meanwhile. Raises IntegrityError."""
        rows = list(self._again.values())
        notes = [f"restored, {padding.words(row)}" if padding.is_short_of_padding(row) else "restored" for row in rows]
        moments = ("opens_at", "closes_at", "next_preflight_at")
        changes = {name: Booking.own(name, "timestamptz") for name in moments}
        moved = Booking.move_batch(
            list(self._again),
            State.SKIPPED,
            State.PLANNED,
            now=self.now,
            by=by,
            note=notes,
            changes={**changes, "deadline_at": changes["closes_at"], "skip_reason": "''"},
            values={name: [getattr(row, name) for row in rows] for name in moments},
            is_durable=True,
            is_prepared=False,
        )
        planned = [self._again[pk] for pk in moved]
        self._reserve(planned)
        self._again = {}
        return planned

    def _reserve(self, bookings: Sequence[Booking]) -> None:
        if self.port is not None:
            Reservation.objects.bulk_create(_reservation(booking, self.port) for booking in bookings)
        if bookings:
            wake_for(min(booking.opens_at for booking in bookings), self.now)


def port_of_recorder(recorder: Recorder) -> Port | None:
    """The port that its bookings reserve. None if it needs none, or if node and port are chosen at the start."""
    needed = port_needed(recorder.source_type, recorder.address)
    return port_of(recorder.node, *needed) if needed is not None and recorder.node is not None else None


def _reservation(booking: Booking, port: Port) -> Reservation:
    return Reservation(
        port=port,
        owner=booking.owner,
        holder=holder_name(booking),
        starts_at=booking.opens_at,
        ends_at=booking.closes_at,
        project_id=booking.recorder.project_id,
    )


def holder_name(booking: Booking) -> str:
    return f"{booking.recorder} (booking {booking.pk})"


def why_impossible(booking: Booking) -> str:
    """Why this window cannot be booked at any time; empty if it can."""
    if not booking.recorder.is_active:
        return f"{booking.recorder} is switched off."
    return why_odd(booking.starts_at, booking.ends_at)


def why_odd(starts_at: datetime, ends_at: datetime) -> str:
    """Why these times are no window, or too far away: there must be time for padding beside them."""
    if ends_at <= starts_at:
        return "The end must come after the start."
    if starts_at.year < FIRST_YEAR or ends_at.year > LAST_YEAR:
        return f"The year must be between {FIRST_YEAR} and {LAST_YEAR}."
    return ""


def first_preflight(starts_at: datetime, now: datetime) -> datetime | None:
    """The time of the next pre-flight check before the start; None if all are past (R-20)."""
    return min((starts_at - ahead for ahead in PREFLIGHTS if starts_at - ahead > now), default=None)
