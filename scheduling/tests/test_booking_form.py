"""The booking form checks without booking; a window taken before it is saved is an error on the form (R-13)."""

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduling.admin.booking_form import BookingForm
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from scheduling.tests.test_scheduling_pages import form
from station.models import AuditEntry

pytestmark = [pytest.mark.django_db(transaction=True)]

HOUR = timedelta(hours=1)


@pytest.fixture
def camera(project: Any) -> Recorder:
    return Recorder.objects.create(name="Cam", project=project, source_type="test")


@pytest.fixture
def noon() -> datetime:
    return (timezone.now() + timedelta(days=1)).replace(minute=0, second=0, microsecond=0)


@pytest.fixture
def boss(admin_user: User) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


def take_between(recorder: Recorder, starts_at: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user books the hour over another connection, after the check and before the saving."""
    original, taken = BookingForm.save, list[bool]()

    def take() -> None:
        try:
            book(recorder, starts_at, starts_at + HOUR, now=timezone.now(), by="bert", title="Taken")
        finally:
            connections.close_all()

    def save(self: BookingForm, commit: bool = True) -> Booking:
        if not taken:
            taken.append(True)
            other = threading.Thread(target=take)
            other.start()
            other.join(30)
            assert not other.is_alive()
        return original(self, commit)

    monkeypatch.setattr(BookingForm, "save", save)


def test_checking_the_form_books_nothing(camera: Recorder, noon: datetime) -> None:
    checked = BookingForm(form(camera, noon, noon + HOUR, "News"))

    assert checked.is_valid(), checked.errors
    assert not Booking.objects.exists()


def test_checking_a_change_changes_nothing(camera: Recorder, noon: datetime) -> None:
    booking = book(camera, noon, noon + HOUR, now=timezone.now(), title="News")

    checked = BookingForm(form(camera, noon + HOUR, noon + 2 * HOUR, "Later"), instance=booking)

    assert checked.is_valid(), checked.errors
    stored = Booking.objects.get()
    assert (stored.starts_at, stored.title) == (noon, "News")


def test_a_window_taken_between_check_and_saving_is_an_error_on_the_form(
    boss: Client, camera: Recorder, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_between(camera, noon, monkeypatch)

    answer = boss.post(reverse("admin:scheduling_booking_add"), form(camera, noon, noon + HOUR, "Mine"))

    assert answer.status_code == 200
    page = answer.content.decode()
    assert "Cam is taken by “Taken”" in page
    assert 'value="Mine"' in page
    assert reverse("admin:scheduling_booking_change", args=[Booking.objects.get().pk]) in page
    assert [entry.result for entry in AuditEntry.objects.filter(who="boss")] == ["refused"]


def test_a_move_into_a_window_taken_meanwhile_is_an_error_on_the_form(
    boss: Client, camera: Recorder, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    booking = book(camera, noon, noon + HOUR, now=timezone.now(), title="Mine")
    take_between(camera, noon + 3 * HOUR, monkeypatch)
    url = reverse("admin:scheduling_booking_change", args=[booking.pk])

    answer = boss.post(url, form(camera, noon + 3 * HOUR, noon + 4 * HOUR, "Mine"))

    assert answer.status_code == 200
    assert "Cam is taken by “Taken”" in answer.content.decode()
    booking.refresh_from_db()
    assert booking.starts_at == noon
    assert [entry.result for entry in AuditEntry.objects.filter(subject=f"booking:{booking.pk}")] == ["refused"]
