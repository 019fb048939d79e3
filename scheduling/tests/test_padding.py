"""Padding is shortened for neighbours and given back; windows are never shortened (R-17)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from nodes.models import Node, Reservation
from scheduling.bookings.changing import cancel, change_end, extend
from scheduling.bookings.making import BookingRefused, book, reserve_ports_again
from scheduling.bookings.padding import share_gap, words
from scheduling.models import Booking, Recorder

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
EIGHT = datetime(2026, 5, 1, 18, 0, tzinfo=UTC)
NOW = EIGHT - 5 * HOUR


@pytest.fixture
def camera(project: Any) -> Recorder:
    return Recorder.objects.create(
        name="Cam", project=project, source_type="test", pad_before_seconds=300, pad_after_seconds=600
    )


def window(booking: Booking) -> tuple[timedelta, timedelta]:
    booking.refresh_from_db()
    return booking.starts_at - booking.opens_at, booking.closes_at - booking.ends_at


spans = st.integers(0, 7200).map(lambda seconds: timedelta(seconds=seconds))


@given(spans, spans, spans)
def test_the_shares_of_a_gap_never_exceed_it(gap: timedelta, after: timedelta, before: timedelta) -> None:
    got_after, got_before = share_gap(gap, after, before)
    assert timedelta(0) <= got_after <= after
    assert timedelta(0) <= got_before <= before
    assert got_after + got_before == min(gap, after + before)


def test_back_to_back_bookings_touch_without_padding_and_record_it(camera: Recorder) -> None:
    """R-17."""
    first = book(camera, EIGHT, EIGHT + HOUR, now=NOW)
    assert window(first) == (5 * MINUTE, 10 * MINUTE)

    second = book(camera, EIGHT + HOUR, EIGHT + 2 * HOUR, now=NOW)

    assert window(first) == (5 * MINUTE, timedelta(0))
    assert window(second) == (timedelta(0), 10 * MINUTE)
    assert "padding 5 min before and 0 s after (requested 5 min and 10 min)" in first.events.last().note
    assert "requested" in second.events.first().note
    assert words(second).startswith("padding 0 s before")


def test_a_short_gap_is_shared_in_proportion(camera: Recorder) -> None:
    """R-17: a gap of nine minutes, of which the earlier booking requests ten and the later one five."""
    first = book(camera, EIGHT, EIGHT + HOUR, now=NOW)
    second = book(camera, EIGHT + HOUR + 9 * MINUTE, EIGHT + 2 * HOUR, now=NOW)

    assert window(first)[1] == 6 * MINUTE
    assert window(second)[0] == 3 * MINUTE
    assert first.closes_at == second.opens_at


def test_a_booking_between_two_others_shortens_the_padding_of_both(camera: Recorder) -> None:
    first = book(camera, EIGHT, EIGHT + HOUR, now=NOW)
    third = book(camera, EIGHT + 2 * HOUR, EIGHT + 3 * HOUR, now=NOW)
    book(camera, EIGHT + HOUR, EIGHT + 2 * HOUR, now=NOW)
    assert window(first)[1] == window(third)[0] == timedelta(0)


def test_padding_is_given_back_when_the_neighbour_is_removed(camera: Recorder) -> None:
    first = book(camera, EIGHT, EIGHT + HOUR, now=NOW)
    second = book(camera, EIGHT + HOUR, EIGHT + 2 * HOUR, now=NOW)
    cancel(second, now=NOW, by="anna")
    assert window(first) == (5 * MINUTE, 10 * MINUTE)


def test_the_windows_themselves_never_overlap(camera: Recorder) -> None:
    """R-13: padding is shortened, a window is not."""
    book(camera, EIGHT, EIGHT + HOUR, now=NOW, by="anna", title="News")
    with pytest.raises(BookingRefused, match="taken by “News”") as refused:
        book(camera, EIGHT + HOUR - MINUTE, EIGHT + 2 * HOUR, now=NOW)
    assert refused.value.free_at == EIGHT + HOUR
    assert book(camera, refused.value.free_at, EIGHT + 2 * HOUR, now=NOW)


def test_a_running_pre_roll_cannot_be_shortened(camera: Recorder) -> None:
    running = book(camera, EIGHT, EIGHT + HOUR, now=NOW)
    Booking.objects.update(state=State.RECORDING)
    now = EIGHT - 3 * MINUTE
    with pytest.raises(BookingRefused, match=str(running)):
        book(camera, now, now + 2 * MINUTE, now=now, is_manual=True)


def test_the_port_is_held_for_the_padded_window(project: Any) -> None:
    """R-14, R-17: neighbours on one port do not clash because of padding."""
    node = Node.objects.create(name="n1", address="process", media_dir="/tmp/n1")
    card = Recorder.objects.create(
        name="Card", project=project, source_type="decklink", address="0", node=node, pad_after_seconds=600
    )
    first = book(card, EIGHT, EIGHT + HOUR, now=NOW)
    second = book(card, EIGHT + HOUR, EIGHT + 2 * HOUR, now=NOW)
    held = {each.owner: (each.starts_at, each.ends_at) for each in Reservation.objects.standing()}
    assert held[first.owner] == (EIGHT, EIGHT + HOUR)
    assert held[second.owner] == (EIGHT + HOUR, EIGHT + 2 * HOUR + 10 * MINUTE)


def test_extending_shortens_the_next_pre_roll_but_not_its_window(camera: Recorder) -> None:
    """R-12."""
    first = book(camera, EIGHT, EIGHT + HOUR, now=NOW)
    second = book(camera, EIGHT + HOUR + 15 * MINUTE, EIGHT + 3 * HOUR, now=NOW, title="Film")
    extend(first, 900, now=NOW, by="anna")
    assert first.closes_at == EIGHT + HOUR + 15 * MINUTE
    assert window(second)[0] == timedelta(0)

    with pytest.raises(BookingRefused, match="taken by “Film”"):
        extend(first, 60, now=NOW, by="anna")
    first.refresh_from_db()
    assert first.ends_at == EIGHT + HOUR + 15 * MINUTE

    change_end(first, EIGHT + HOUR, now=NOW, by="anna")
    assert window(first)[1] == 10 * MINUTE
    assert window(second)[0] == 5 * MINUTE


def test_cancelling_works_even_if_the_padding_cannot_be_given_back(project: Any) -> None:
    """Two recorders on one device: the other one holds the port at the time of the padding."""
    node = Node.objects.create(name="n1", address="process", media_dir="/tmp/n1")
    fields = {"project": project, "source_type": "decklink", "address": "0", "node": node}
    first = Recorder.objects.create(name="A", **fields)
    second = Recorder.objects.create(name="B", **fields)
    book(second, EIGHT - 15 * MINUTE, EIGHT - 2 * MINUTE, now=NOW)
    between = book(first, EIGHT - 2 * MINUTE, EIGHT, now=NOW)
    after = book(first, EIGHT, EIGHT + HOUR, now=NOW, pad_before_seconds=600)

    assert cancel(between, now=NOW, by="anna")

    assert window(after)[0] == timedelta(0)


def test_a_running_media_worker_gets_the_end_of_the_padding_given_back(camera: Recorder) -> None:
    """R-17: otherwise its post-roll would silently be lost."""
    from nodes.models import Workload
    from nodes.workloads import want

    node = Node.objects.create(name="n1", address="process", media_dir="/tmp/n1")
    first = book(camera, EIGHT, EIGHT + HOUR, now=NOW)
    second = book(camera, EIGHT + HOUR, EIGHT + 2 * HOUR, now=NOW)
    Booking.objects.filter(pk=first.pk).update(state=State.RECORDING)
    spec = {"ends_at": (EIGHT + HOUR).isoformat()}
    want(first.owner, node=node, program="capture", spec=spec, secret={}, now=NOW)

    cancel(second, now=NOW, by="anna")

    assert Workload.objects.get().spec["ends_at"] == (EIGHT + HOUR + 10 * MINUTE).isoformat()


def test_existing_bookings_reserve_the_recorders_new_device(project: Any) -> None:
    """R-14: an edit of the recorder moves the bookings' reservations and reports conflicts."""
    node = Node.objects.create(name="n1", address="process", media_dir="/tmp/n1")
    fields = {"project": project, "source_type": "decklink", "node": node}
    first = Recorder.objects.create(name="A", address="0", **fields)
    second = Recorder.objects.create(name="B", address="1", **fields)
    booking = book(first, EIGHT, EIGHT + HOUR, now=NOW)
    book(second, EIGHT, EIGHT + HOUR, now=NOW)
    first.address = "2"
    first.save()
    assert reserve_ports_again(first, NOW) == []
    assert Reservation.objects.standing().get(owner=booking.owner).port.number == 2
    first.address = "1"
    first.save()
    [problem] = reserve_ports_again(first, NOW)
    assert "is held by B" in problem


def test_neighbours_are_found_by_the_index_of_the_exclusion_constraint(camera: Recorder) -> None:
    """R-13, R-17: years of history do not slow down the next booking."""
    starts = [EIGHT - number * HOUR for number in range(3000)]
    Booking.objects.bulk_create(
        Booking(recorder=camera, state="planned", starts_at=at, ends_at=at + HOUR, opens_at=at, closes_at=at + HOUR)
        for at in starts
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE scheduling_booking")
    near = Booking.objects.overlapping(camera.pk, (EIGHT - 3 * HOUR, EIGHT + HOUR))
    assert "booking_no_overlap" in near.order_by("-ends_at").explain()
