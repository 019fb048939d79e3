"""What people do to bookings that needs no media worker: book, change, skip, restore.

Start, Stop, Extend and Cancel reach the media worker: see `scheduling.recording.controls`.
"""

from datetime import datetime

from scheduling.bookings import changing, making
from scheduling.models import Booking, Recorder
from station.actions import Outcome, action, changed_meanwhile, done, refused
from station.clock import house_time

State = Booking.State
OPERATE = "scheduling.operate_recorder"
BEFORE = (State.PLANNED, State.ARMED)


@action("add", "Book", permission=OPERATE, makes_target=True)
def book(
    recorder: Recorder, *, now: datetime, by: str, starts_at: datetime, ends_at: datetime, title: str = ""
) -> Outcome:
    """A window on a recorder. A refusal names who has it and when it is free."""
    if ends_at <= now:
        return refused("That window is past.")
    booking = making.book(recorder, starts_at, ends_at, now=now, by=by, title=title)
    window = f"{house_time(booking.starts_at)} to {house_time(booking.ends_at)}"
    return done(f"Booking {booking.pk}: {recorder}, {window}.", target=booking, details=_window(booking))


@action("change", "Change", permission="scheduling.change_booking")
def change(
    booking: Booking,
    *,
    now: datetime,
    by: str,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    title: str | None = None,
) -> Outcome:
    """Another window or title; what is left out stays as it is."""
    if starts_at is not None:
        changing.move_window(booking, starts_at, ends_at or booking.ends_at, now=now, by=by)
    elif ends_at is not None:
        changing.change_end(booking, ends_at, now=now, by=by)
    if title is not None:
        Booking.objects.filter(pk=booking.pk).update(title=title)
        booking.title = title
    return done(f"{booking} is changed.", details=_window(booking))


@action("skip", "Skip", permission=OPERATE, states=BEFORE)
def skip(booking: Booking, *, now: datetime, by: str) -> Outcome:
    if not changing.skip(booking, now=now, by=by):
        return changed_meanwhile(booking)
    return done(f"{booking} ({house_time(booking.starts_at)}) is skipped.")


@action("restore", "Restore", permission=OPERATE, states=(State.SKIPPED, State.CANCELLED))
def restore(booking: Booking, *, now: datetime, by: str) -> Outcome:
    changing.restore(booking, now=now, by=by)
    return done(f"{booking} ({house_time(booking.starts_at)}) is planned again.")


def _window(booking: Booking) -> dict[str, str]:
    return {
        "starts_at": booking.starts_at.isoformat(),
        "ends_at": booking.ends_at.isoformat(),
        "title": booking.title,
    }
