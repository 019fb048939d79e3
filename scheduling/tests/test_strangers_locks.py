"""A stranger's open transaction: bookings start on time, except those whose own row it has locked (R-22)."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from nodes.models import Node
from scheduling.bookings.making import book
from scheduling.leader.election import APPLICATION
from scheduling.models import Booking, Leadership, Recorder
from station.clock import database_now
from testing.database import stranger
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.crash]

State = Booking.State
COUNT = 20
LOCKED = 4
HELD_SECONDS = 60.0


def every_row(*, but: type) -> list[str]:
    """What `BEGIN; UPDATE` on every row of every table locks."""
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True) if model is not but}
    return [f"SELECT 1 FROM {table} FOR NO KEY UPDATE" for table in sorted(tables)]


def book_all(project: Any, first: Any) -> list[Booking]:
    """Bookings two a second, each on its own recorder."""
    now = database_now()
    for number in range(COUNT):
        recorder = Recorder.objects.create(
            name=f"Cam {number}", project=project, source_type="test", picture_size="160x90", video_bitrate="64k"
        )
        starts_at = first + timedelta(seconds=number * 0.5)
        book(recorder, starts_at, starts_at + timedelta(minutes=5), now=now, title=f"show {number}")
    return [Booking.objects.get(recorder__name=f"Cam {number}") for number in range(COUNT)]


def lateness(booking: Booking) -> float:
    booking.refresh_from_db()
    assert booking.late_by_seconds is not None
    return booking.late_by_seconds


def test_rows_locked_by_a_stranger_delay_only_their_own_bookings(
    process_node: Node, project: Any, scheduler: Any
) -> None:
    """Every row of every other table, and four of twenty bookings, are locked while all of them come due."""
    scheduler(WORKER_PREVIEW="false", LAUNCH_AHEAD_SECONDS="0")
    wait_until(lambda: Leadership.objects.first(), 30, "it leads")
    bookings = book_all(project, database_now() + timedelta(seconds=12))
    held, free = bookings[::5], [booking for index, booking in enumerate(bookings) if index % 5]
    assert len(held) == LOCKED
    free_ids = [each.pk for each in free]
    ids = ", ".join(str(each.pk) for each in held)
    own_rows = f"SELECT 1 FROM scheduling_booking WHERE id IN ({ids}) FOR NO KEY UPDATE"
    with stranger(own_rows, *every_row(but=Booking)) as session:
        locked_at = time.monotonic()
        wait_until(
            lambda: Booking.objects.filter(pk__in=free_ids, state=State.RECORDING).count() == len(free),
            90,
            "all that are free record, while the stranger holds its locks",
        )
        late = [lateness(booking) for booking in free]
        assert max(late) < 2.0, late
        assert {Booking.objects.get(pk=each.pk).state for each in held} <= {State.PLANNED, State.ARMED}
        time.sleep(max(0.0, HELD_SECONDS - (time.monotonic() - locked_at)))
        session.rollback()
        freed = database_now()
    pks = [each.pk for each in held]
    wait_until(
        lambda: not Booking.objects.filter(pk__in=pks, state__in=[State.PLANNED, State.ARMED]).exists(), 60, "freed"
    )
    for booking in held:
        booking.refresh_from_db()
        assert booking.dispatched_at is not None
        assert (booking.dispatched_at - freed).total_seconds() < 5.0, "it starts as soon as its row is free"
    assert Leadership.objects.count() == 1, "the leader kept the lead"


def test_a_locked_row_of_the_last_term_keeps_nobody_from_leading(
    process_node: Node, project: Any, scheduler: Any
) -> None:
    """R-02: a new term inserts a row and waits for none."""
    scheduler(WORKER_PREVIEW="false", LAUNCH_AHEAD_SECONDS="0")
    wait_until(lambda: Leadership.objects.first(), 30, "it leads")
    booking = book_all(project, database_now() + timedelta(seconds=8))[0]
    with stranger("SELECT 1 FROM scheduling_leadership FOR UPDATE") as session:
        epoch = Leadership.objects.latest("epoch").epoch
        with connection.cursor() as cursor:
            cursor.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name = %s AND datname = current_database()""",
                [APPLICATION],
            )
        wait_until(lambda: Leadership.objects.filter(epoch__gt=epoch).exists(), 30, "a new term begins all the same")
        wait_until(lambda: Booking.objects.get(pk=booking.pk).state == State.RECORDING, 60, "it records")
        session.rollback()
    assert lateness(booking) < 2.0
