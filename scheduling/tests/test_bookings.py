"""Double booking is impossible: of 40 at once one wins, and the others get the winner's name (R-13, R-14)."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connections
from django.utils import timezone

from nodes.machines.ports import PortTaken, port_of, release, reserve
from nodes.models import Node, Reservation
from scheduling.bookings.making import BookingRefused, book, next_free
from scheduling.models import Booking, Recorder

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

HOUR = timedelta(hours=1)


@pytest.fixture
def camera(project: Any) -> Recorder:
    return Recorder.objects.create(name="Cam", project=project, source_type="test", pad_before_seconds=60)


@pytest.fixture
def noon() -> datetime:
    return timezone.now().replace(minute=0, second=0, microsecond=0) + timedelta(days=1)


@pytest.fixture
def node() -> Node:
    return Node.objects.create(name="n1", address="process", media_dir="/media")


def at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Run `act` on `count` threads, all started at the same moment; returns results or exceptions."""
    barrier = threading.Barrier(count)
    results: list[Any] = [None] * count

    def go(number: int) -> None:
        barrier.wait()
        try:
            results[number] = act(number)
        except Exception as error:  # noqa: BLE001  the test checks it
            results[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=go, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_forty_concurrent_bookings_of_one_recorder_have_one_winner(camera: Recorder, noon: datetime) -> None:
    """R-13: exactly one wins; each of the others gets a refusal that names the winner."""

    def act(number: int) -> Booking:
        start = noon + timedelta(minutes=number)
        return book(camera, start, start + HOUR, now=timezone.now(), by=f"user-{number}", title=f"show {number}")

    results = at_once(40, act)

    winners = [result for result in results if isinstance(result, Booking)]
    refusals = [result for result in results if isinstance(result, BookingRefused)]
    assert (len(winners), len(refusals)) == (1, 39), results
    assert Booking.objects.count() == 1
    for refusal in refusals:
        assert f"taken by “{winners[0].title}”" in str(refusal)
        assert f"booked by {winners[0].requested_by}" in str(refusal)
        assert refusal.winner == winners[0]


def test_forty_concurrent_holders_of_one_port_have_one_winner(node: Node, noon: datetime) -> None:
    """R-14: DeckLink 0 on one node."""
    port = port_of(node, "decklink", 0)

    def act(number: int) -> Reservation:
        return reserve(port, owner=f"booking:{number}", holder=f"show {number}", starts_at=noon, ends_at=noon + HOUR)

    results = at_once(40, act)

    winners = [result for result in results if isinstance(result, Reservation)]
    losers = [result for result in results if isinstance(result, PortTaken)]
    assert (len(winners), len(losers)) == (1, 39), results
    assert all(f"DeckLink device 0 on n1 is held by {winners[0].holder}" in str(loser) for loser in losers)


def test_an_ended_booking_frees_its_window(camera: Recorder, noon: datetime) -> None:
    first = book(camera, noon, noon + HOUR, now=timezone.now())
    first.move(Booking.State.CANCELLED, now=timezone.now())

    assert book(camera, noon, noon + HOUR, now=timezone.now())


def test_the_next_free_slot_skips_gaps_that_are_too_short(camera: Recorder, noon: datetime) -> None:
    """R-13: the offered slot is really free."""
    now = timezone.now()
    for offset in (0, 1.5, 4):
        book(camera, noon + offset * HOUR, noon + (offset + 1) * HOUR, now=now)

    free_at = next_free(camera, noon, HOUR)

    assert free_at == noon + 2.5 * HOUR
    length = HOUR - timedelta(seconds=60)
    assert book(camera, free_at + timedelta(seconds=60), free_at + timedelta(seconds=60) + length, now=now)


def test_a_window_that_ends_before_it_starts_is_refused(camera: Recorder, noon: datetime) -> None:
    """S-07."""
    with pytest.raises(BookingRefused, match="end must come after the start"):
        book(camera, noon, noon - HOUR, now=timezone.now())
    with pytest.raises(IntegrityError, match="booking_ends_after_start"):
        Booking.objects.create(
            recorder=camera, starts_at=noon, ends_at=noon, opens_at=noon, closes_at=noon, state="planned"
        )


def test_an_inactive_recorder_cannot_be_booked(camera: Recorder, noon: datetime) -> None:
    camera.is_active = False
    camera.save()
    with pytest.raises(BookingRefused, match="switched off"):
        book(camera, noon, noon + HOUR, now=timezone.now())


def test_two_recorders_on_one_device_clash_ahead_of_time(project: Any, node: Node, noon: datetime) -> None:
    """R-14: also for future bookings, and the refused one stores nothing."""
    cards = [
        Recorder.objects.create(name=f"Card {n}", project=project, source_type="decklink", address="0", node=node)
        for n in (1, 2)
    ]
    now = timezone.now()
    first = book(cards[0], noon, noon + HOUR, now=now)
    with pytest.raises(BookingRefused, match=rf"DeckLink device 0 on n1 is held by Card 1 \(booking {first.pk}\)"):
        book(cards[1], noon + HOUR / 2, noon + 2 * HOUR, now=now)
    assert Booking.objects.count() == 1

    release(first.owner, now=now)
    assert book(cards[1], noon + HOUR / 2, noon + 2 * HOUR, now=now)


def test_forty_media_workers_wanted_at_once_get_forty_control_ports(node: Node) -> None:
    """R-04: a burst of starts on one node; none fails because all chose the same port."""
    from nodes.workloads import want

    def act(number: int) -> int:
        made = want(f"booking:{number}", node=node, program="capture", spec={}, secret={}, now=timezone.now())
        return made.control_port

    assert len(set(at_once(40, act))) == 40
