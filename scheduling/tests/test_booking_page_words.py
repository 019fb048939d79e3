"""What the pages of bookings say: odd input, ended bookings, bulk actions with nothing to do, empty lists."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduling.bookings.changing import move_window
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, Recorder
from scheduling.tests.test_scheduling_pages import form

pytestmark = [pytest.mark.django_db]

State = Booking.State
HOUR = timedelta(hours=1)


def test_a_bulk_action_says_how_many_more_rows_it_left(boss: Client, camera: Recorder, noon: datetime) -> None:
    noon -= 20 * HOUR
    rows = [book(camera, noon + n * HOUR, noon + (n + 1) * HOUR, now=timezone.now(), title=f"No {n}") for n in range(7)]
    data = {"action": "restore_selected", "_selected_action": [row.pk for row in rows]}
    page = boss.post(reverse("admin:scheduling_booking_changelist"), data, follow=True).content.decode()
    assert "0 planned again, 7 unchanged (" in page
    assert page.count(": planned;") == 5
    assert "; and 2 more)" in page


def test_a_time_that_cannot_be_is_explained_beside_its_field(boss: Client, camera: Recorder) -> None:
    """S-07: a year without end, and the hour of a clock change."""
    odd = {
        ("9999-12-31", "23:59:00"): "The year must be between 2000 and 9998.",
        ("2027-03-28", "02:30:00"): "The clocks change then: this time comes twice or not at all.",
        ("2027-10-31", "02:30:00"): "The clocks change then: this time comes twice or not at all.",
    }
    for (day, time_of_day), reason in odd.items():
        data = form(camera, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
        data |= {"starts_at_0": day, "starts_at_1": "01:00:00", "ends_at_0": day, "ends_at_1": time_of_day}
        answer = boss.post(reverse("admin:scheduling_booking_add"), data)
        assert (answer.status_code, reason in answer.content.decode()) == (200, True), day
    assert not Booking.objects.exists()


def test_an_ended_booking_offers_nothing_to_save_and_a_new_one_has_no_history(
    boss: Client, camera: Recorder, noon: datetime
) -> None:
    row = book(camera, noon, noon + HOUR, now=timezone.now(), title="One")
    url = reverse("admin:scheduling_booking_change", args=[row.pk])
    assert 'name="_save"' in boss.get(url).content.decode()
    Booking.objects.filter(pk=row.pk).update(state=State.COMPLETED, outcome="stopped_by_hand")
    page = boss.get(url).content.decode()
    assert 'name="_save"' not in page
    assert 'name="_continue"' not in page
    assert "stopped by hand" in page
    assert "booked" in page, "its history"
    assert "events-TOTAL_FORMS" not in boss.get(reverse("admin:scheduling_booking_add")).content.decode()


def test_an_empty_list_says_so_in_plain_words(boss: Client) -> None:
    url = reverse("admin:scheduling_booking_changelist")
    assert "Nothing to show" in boss.get(url).content.decode()
    assert "Nothing matches the search and the filters" in boss.get(f"{url}?q=zebra").content.decode()


@pytest.mark.parametrize("year", [1, 9999])
def test_a_year_at_the_end_of_the_calendar_is_refused(camera: Recorder, noon: datetime, year: int) -> None:
    far = noon.replace(year=year, month=12, day=31)
    with pytest.raises(BookingRefused, match="The year must be between"):
        book(camera, far, far + timedelta(minutes=1), now=timezone.now())
    row = book(camera, noon, noon + HOUR, now=timezone.now())
    with pytest.raises(BookingRefused, match="The year must be between"):
        move_window(row, far, far + timedelta(minutes=1), now=timezone.now(), by="anna")
