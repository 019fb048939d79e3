"""Shares the padding between neighbouring bookings on one recorder (R-17).

Windows are never shortened, only padding. If the gap between two windows is too short for both paddings, it is split
in proportion to what each requested, so that a post-roll never uses up the next pre-roll. The booking's history shows
the padding it really gets.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import DurationField, ExpressionWrapper, F, Q

from nodes import workloads
from nodes.machines.ports import PortTaken, reserve_times
from scheduling.bookings.occupancy import FIXED_END, Occupancy
from scheduling.models import Booking
from station.clock import house_time, spoken
from station.database.notify import wake_for

logger = logging.getLogger(__name__)

State = Booking.State


@dataclass(frozen=True)
class Cut:
    """The shorter padded window that a neighbour gets, and why."""

    booking: Booking
    opens_at: datetime
    closes_at: datetime
    why: str


def share_gap(gap: timedelta, after: timedelta, before: timedelta) -> tuple[timedelta, timedelta]:
    """Split a gap into the post-roll of the earlier booking and the pre-roll of the later one."""
    gap = max(gap, timedelta(0))
    if after + before <= gap:
        return after, before
    share = timedelta(seconds=int(gap.total_seconds() * (after / (after + before))))
    return share, gap - share


def fit(booking: Booking, near: Occupancy) -> tuple[datetime, datetime]:
    """The padded window of this booking between its neighbours, assuming they make room. Writes nothing."""
    wanted_before, wanted_after = _requested(booking)
    before, after = near.neighbours(booking)
    opens_at, closes_at = booking.starts_at - wanted_before, booking.ends_at + wanted_after
    if before is not None:
        if before.state in FIXED_END:
            opens_at = max(opens_at, min(before.closes_at, booking.starts_at))
        else:
            gap = booking.starts_at - before.ends_at
            opens_at = booking.starts_at - share_gap(gap, _requested(before)[1], wanted_before)[1]
    if after is not None:
        gap = after.starts_at - booking.ends_at
        room = share_gap(gap, wanted_after, _requested(after)[0])[0]
        if after.state not in {State.PLANNED, State.ARMED}:  # it is open already: its pre-roll stays
            room = min(wanted_after, max(timedelta(0), after.opens_at - booking.ends_at))
        closes_at = booking.ends_at + room
    return opens_at, closes_at


def cuts(booking: Booking, opens_at: datetime, closes_at: datetime, near: Occupancy) -> Iterator[Cut]:
    """How far the neighbours' padding must be shortened for this padded window."""
    before, after = near.neighbours(booking)
    if before is not None and before.closes_at > opens_at and before.state not in FIXED_END:
        yield Cut(before, before.opens_at, opens_at, f"“{booking}” starts at {house_time(booking.starts_at)}")
    if after is not None and after.opens_at < closes_at:
        yield Cut(after, closes_at, after.closes_at, f"“{booking}” ends at {house_time(booking.ends_at)}")


def make_room(booking: Booking, opens_at: datetime, closes_at: datetime, near: Occupancy, now: datetime) -> None:
    """Shorten the neighbours' padding as far as this padded window needs. Call before writing the window."""
    for cut in cuts(booking, opens_at, closes_at, near):
        set_window(cut.booking, cut.opens_at, cut.closes_at, now, cut.why)


def give_back(booking: Booking, now: datetime) -> None:
    """After its window became free, give its neighbours back the padding that now fits."""
    for neighbour in Occupancy.around(booking).neighbours(booking):
        if neighbour is not None:
            _give_back_to(neighbour, now)


def _give_back_to(booking: Booking, now: datetime) -> None:
    if booking.state in FIXED_END:
        return
    near = Occupancy.around(booking)
    opens_at, closes_at = fit(booking, near)
    if booking.state not in {State.PLANNED, State.ARMED}:
        opens_at = booking.opens_at
    _restore_padding(booking, opens_at, max(closes_at, booking.ends_at), near, now)


def give_back_to_running(recorder_id: int, now: datetime) -> None:
    """Give back padding to what is recording: what followed it is gone."""
    for booking in Booking.objects.active().filter(recorder_id=recorder_id):
        if is_short_of_padding(booking):
            _give_back_to(booking, now)


def give_back_all(recorder_id: int, now: datetime) -> None:
    """Give back padding to every planned booking of a recorder that has less than it requested."""
    before, after = (
        ExpressionWrapper(F(name) * timedelta(seconds=1), output_field=DurationField())
        for name in ("pad_before_seconds", "pad_after_seconds")
    )
    short = Q(opens_at__gt=F("starts_at") - before) | Q(closes_at__lt=F("ends_at") + after)
    rows = Booking.objects.filter(recorder_id=recorder_id, state=State.PLANNED).filter(short)
    windows = list(rows.order_by("starts_at").values_list("pk", "starts_at", "ends_at"))
    pks = {pk for pk, *_ in windows}
    near = Occupancy.near(recorder_id, [(starts_at, ends_at) for _, starts_at, ends_at in windows])
    for booking in near.rows:
        if booking.pk in pks:
            opens_at, closes_at = fit(booking, near)
            _restore_padding(booking, opens_at, closes_at, near, now)


def _restore_padding(booking: Booking, opens_at: datetime, closes_at: datetime, near: Occupancy, now: datetime) -> None:
    """Extend its padding if its port is free then; otherwise leave it."""
    if (opens_at, closes_at) == (booking.opens_at, booking.closes_at):
        return
    try:
        with transaction.atomic():
            make_room(booking, opens_at, closes_at, near, now)
            set_window(booking, opens_at, closes_at, now, why="the neighbouring booking was removed")
    except (PortTaken, IntegrityError):
        logger.info("Padding was not given back: another booking holds the port or the window. booking=%s", booking.pk)
        for row in (booking, *near.neighbours(booking)):  # the change was rolled back: forget it here, too
            if row is not None:
                row.refresh_from_db(fields=["state", "state_since_at", "opens_at", "closes_at"])


def set_window(booking: Booking, opens_at: datetime, closes_at: datetime, now: datetime, why: str) -> None:
    """Write a new padded window, with the port's times, the media worker's end and a line in the history."""
    # Move an armed booking back to planned: the dispatcher's start at the old time is refused, and it is armed again.
    is_rearmed = booking.state == State.ARMED and opens_at != booking.opens_at
    if is_rearmed and not booking.move(State.PLANNED, now=now, note=f"opening time changed: {why}"):
        return
    changes: dict[str, datetime] = {"opens_at": opens_at, "closes_at": closes_at}
    if booking.state == State.PLANNED:
        changes["deadline_at"] = closes_at
    same = Booking.objects.filter(pk=booking.pk, state=booking.state, state_since_at=booking.state_since_at)
    if not same.update(**changes):
        return  # its state has just changed: leave its padding
    booking.opens_at, booking.closes_at = opens_at, closes_at
    reserve_times(booking.owner, starts_at=opens_at, ends_at=closes_at)
    workloads.set_end(booking.owner, closes_at)
    booking.remark(f"{words(booking)}: {why}", now=now)
    wake_for(min(opens_at, closes_at), now)


def words(booking: Booking) -> str:
    """The padding it has, and what was requested if that is more."""
    before = (booking.starts_at - booking.opens_at).total_seconds()
    after = (booking.closes_at - booking.ends_at).total_seconds()
    text = f"padding {spoken(before)} before and {spoken(after)} after"
    if (before, after) == (booking.pad_before_seconds, booking.pad_after_seconds):
        return text
    return f"{text} (requested {spoken(booking.pad_before_seconds)} and {spoken(booking.pad_after_seconds)})"


def is_short_of_padding(booking: Booking) -> bool:
    before, after = _requested(booking)
    return booking.starts_at - booking.opens_at < before or booking.closes_at - booking.ends_at < after


def _requested(booking: Booking) -> tuple[timedelta, timedelta]:
    return timedelta(seconds=booking.pad_before_seconds), timedelta(seconds=booking.pad_after_seconds)
