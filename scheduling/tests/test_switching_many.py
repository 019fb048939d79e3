"""Switching a recorder with hundreds of planned bookings takes few statements; its planning waits meanwhile (R-27)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from nodes.models import Node, Reservation
from scheduling.bookings.batch import Batch
from scheduling.bookings.making import book, draft, lock
from scheduling.models import Booking, Recorder
from scheduling.rules.controls import switch_off, switch_on
from scheduling.tests.test_lost_races import first
from station.clock import database_now

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State
HOUR = timedelta(hours=1)


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def deck(project: Any, node: Node) -> Recorder:
    return Recorder.objects.create(name="Deck", project=project, source_type="decklink", address="0", node=node)


def book_many(recorder: Recorder, count: int, now: datetime) -> None:
    """Windows of an hour that touch, with padding that does not fit."""
    Recorder.objects.filter(pk=recorder.pk).update(pad_before_seconds=60, pad_after_seconds=60)
    recorder.refresh_from_db()
    with transaction.atomic():
        lock(recorder.pk)
        windows = [(now + n * HOUR, now + (n + 1) * HOUR) for n in range(1, count + 1)]
        batch = Batch(recorder, windows, now)
        for window in windows:
            assert batch.place(draft(recorder, *window, now=now, by="anna", title="Match"))
        batch.write()


def windows_of(recorder: Recorder) -> list[Any]:
    rows = Booking.objects.filter(recorder=recorder, state=State.PLANNED).order_by("starts_at")
    return list(rows.values_list("pk", "opens_at", "closes_at", "deadline_at", "next_preflight_at", "skip_reason"))


def test_switching_needs_no_more_statements_for_three_hundred_bookings_than_for_ten(
    deck: Recorder, project: Any, node: Node, now: datetime
) -> None:
    """R-27: whoever plans this recorder waits meanwhile, so the time must not grow with the bookings."""
    full = Recorder.objects.create(name="Full", project=project, source_type="decklink", address="1", node=node)
    asked: dict[str, list[int]] = {"off": [], "on": []}
    for recorder, count in ((deck, 10), (full, 300)):
        book_many(recorder, count, now)
        before = windows_of(recorder)

        with CaptureQueriesContext(connection) as statements:
            assert switch_off(recorder, by="anna", planned="skip").details["skipped"] == count
        asked["off"].append(len(statements))
        assert windows_of(recorder) == []
        with CaptureQueriesContext(connection) as statements:
            assert switch_on(recorder, by="anna").details["restored"] == count
        asked["on"].append(len(statements))

        assert windows_of(recorder) == before
        assert Reservation.objects.standing().filter(port__number=int(recorder.address)).count() == count
    assert asked["off"][0] == asked["off"][1], asked
    assert asked["on"][0] == asked["on"][1], asked


def test_a_running_recording_gets_its_post_roll_back_when_what_follows_is_skipped(
    deck: Recorder, now: datetime
) -> None:
    """R-27, R-17: and gives it up again when the recorder is switched on."""
    Recorder.objects.filter(pk=deck.pk).update(pad_after_seconds=60)
    deck.refresh_from_db()
    running = book(deck, now, now + HOUR, now=now, title="Match")
    for state in (State.ARMED, State.STARTING, State.RECORDING):
        assert running.move(state, now=now)
    book(deck, now + HOUR, now + 2 * HOUR, now=now, title="Interview")
    running.refresh_from_db()
    assert running.closes_at == running.ends_at

    switch_off(deck, by="anna", planned="skip")
    running.refresh_from_db()
    assert running.closes_at == running.ends_at + timedelta(seconds=60)

    switch_on(deck, by="anna")
    running.refresh_from_db()
    assert running.closes_at == running.ends_at
    assert Booking.objects.get(title="Interview").state == State.PLANNED


@pytest.mark.django_db(transaction=True)
def test_what_the_database_refuses_together_is_restored_one_by_one(
    deck: Recorder, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-27: somebody reserves the device of one window without queueing; the other windows are planned again."""
    bookings = [book(deck, now + n * HOUR, now + (n + 1) * HOUR, now=now, title=f"Match {n}") for n in (1, 3, 5)]
    port = Reservation.objects.standing().earliest("pk").port
    switch_off(deck, by="anna", planned="skip")

    def stranger() -> None:
        hold = Reservation(port=port, owner="stranger", starts_at=now + 3 * HOUR, ends_at=now + 4 * HOUR)
        with ThreadPoolExecutor(1) as thread:  # a session of its own
            thread.submit(lambda: (hold.save(), connections.close_all())).result()

    first(Batch, "write_again", stranger, monkeypatch)
    outcome = switch_on(deck, by="anna")

    assert outcome.details == {"restored": 2, "taken": [bookings[1].pk]}
    assert Booking.objects.get(title="Match 3").state == State.SKIPPED
    assert Reservation.objects.standing().exclude(owner="stranger").count() == 2
