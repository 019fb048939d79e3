"""The live bookings of one recorder near some windows, read with one statement.

Whoever books or changes many windows asks in memory what is before, after or in the way, and adds what is booked. Hold
the recorder's queue (`making.lock`) meanwhile: what others write is not seen here.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter

from scheduling.models import Booking

State = Booking.State
FIXED_END = {State.STOPPING, State.CANCELLING}
# Padding is at most an hour on each side, so bookings further away than this cannot affect each other.
NEAR = timedelta(hours=3)
FIELDS = ["state", "state_since_at", "recorder", "title", "requested_by", "starts_at", "ends_at"]
FIELDS += ["opens_at", "closes_at", "pad_before_seconds", "pad_after_seconds"]

Window = tuple[datetime, datetime]
_start, _end = attrgetter("starts_at"), attrgetter("ends_at")


def held(booking: Booking) -> Window:
    """The part that cannot be shortened: the window, the pre-roll once it runs, the post-roll while stopping."""
    is_open = booking.state not in {State.PLANNED, State.ARMED}
    begins = booking.opens_at if is_open else booking.starts_at
    return begins, booking.closes_at if booking.state in FIXED_END else booking.ends_at


class Occupancy:
    """In order of time. They never overlap: the database guarantees it."""

    def __init__(self, rows: Iterable[Booking]) -> None:
        self.rows = sorted(rows, key=_start)

    @classmethod
    def near(cls, recorder_id: int, windows: Sequence[Window]) -> "Occupancy":
        spans = [(starts_at - NEAR, ends_at + NEAR) for starts_at, ends_at in windows]
        return cls(Booking.objects.overlapping(recorder_id, *spans).only(*FIELDS) if spans else ())

    @classmethod
    def around(cls, booking: Booking) -> "Occupancy":
        return cls.near(booking.recorder_id, [(booking.starts_at, booking.ends_at)])

    def add(self, booking: Booking) -> None:
        insort(self.rows, booking, key=_start)

    def in_the_way(self, booking: Booking) -> list[Booking]:
        """The others that overlap its window. Their padding does not count where it can be shortened."""
        found: list[Booking] = []
        middle = bisect_left(self.rows, booking.ends_at, key=_start)
        for index in range(middle - 1, -1, -1):
            if held(self.rows[index])[1] <= booking.starts_at:
                break
            found.insert(0, self.rows[index])
        for index in range(middle, len(self.rows)):
            if held(self.rows[index])[0] >= booking.ends_at:
                break
            found.append(self.rows[index])
        return [other for other in found if other != booking]

    def neighbours(self, booking: Booking) -> tuple[Booking | None, Booking | None]:
        """The ones directly before and after its window."""
        first = bisect_right(self.rows, booking.starts_at, key=_end) - 1
        last = bisect_left(self.rows, booking.ends_at, key=_start)
        if first >= 0 and self.rows[first] == booking:
            first -= 1
        if last < len(self.rows) and self.rows[last] == booking:
            last += 1
        before = self.rows[first] if first >= 0 else None
        return before, self.rows[last] if last < len(self.rows) else None
