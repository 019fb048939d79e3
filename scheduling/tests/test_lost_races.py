"""An action that lost a race is reported and recorded as such, never as done.

Another person changes the row after the page has read it and before the action has written it.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduling.bookings import changing
from scheduling.bookings import controls as booking_controls
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder, Schedule
from scheduling.recording import controls
from scheduling.rules import replanning
from station.audit import subject_of
from station.models import AuditEntry

pytestmark = [pytest.mark.django_db]

State = Booking.State
HOUR = timedelta(hours=1)


@pytest.fixture
def boss(admin_user: User) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def booking(project: Any) -> Booking:
    camera = Recorder.objects.create(name="Cam", project=project, source_type="test")
    now = timezone.now()
    return book(camera, now + HOUR, now + 2 * HOUR, now=now, title="News")


@pytest.fixture
def schedule(booking: Booking) -> Schedule:
    return Schedule.objects.create(
        name="Daily", recorder=booking.recorder, kind="daily", first_on="2026-01-01", start_time="20:15", length=HOUR
    )


def first(module: Any, name: str, second_actor: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let someone else act once, just before `module.name` is called."""
    original, acted = getattr(module, name), list[bool]()

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not acted:
            acted.append(True)
            second_actor()
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, wrapped)


def claimed(row: Any) -> list[str]:
    """The actions that the audit trail records as done."""
    rows = AuditEntry.objects.filter(subject=subject_of(row), who="boss")
    return [entry.what for entry in rows if getattr(entry, "result", "done") == "done"]


def press(client: Client, row: Any, name: str, way: str) -> str:
    """Press the button of the page or use the action of the list; returns the page the person sees."""
    meta = row._meta
    names = f"admin:{meta.app_label}_{meta.model_name}"
    if way == "button":
        client.post(reverse(f"{names}_{name}", args=[row.pk]), {"_form_submitted": "on"})
        return client.get(reverse(f"{names}_change", args=[row.pk])).content.decode()
    data = {"action": f"{name}_selected", "_selected_action": [row.pk]}
    return client.post(reverse(f"{names}_changelist"), data, follow=True).content.decode()


def move(booking: Booking, *states: str) -> None:
    """The moves of the other person."""
    other = Booking.objects.get(pk=booking.pk)
    for state in states:
        assert other.move(state, now=timezone.now(), by="bert")


@pytest.mark.parametrize("way", ["button", "list"])
def test_a_skip_that_came_too_late_is_not_on_record_as_skipped(
    boss: Client, booking: Booking, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    first(changing, "lock", lambda: move(booking, State.ARMED), monkeypatch)

    page = press(boss, booking, "skip", way)

    assert claimed(booking) == []
    assert AuditEntry.objects.get().result == "nothing"
    assert "armed" in page
    booking.refresh_from_db()
    assert booking.state == State.ARMED


@pytest.mark.parametrize("way", ["button", "list"])
def test_a_cancel_that_came_too_late_is_not_on_record_as_cancelled(
    boss: Client, booking: Booking, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    first(changing, "lock", lambda: move(booking, State.CANCELLED), monkeypatch)

    page = press(boss, booking, "cancel", way)

    assert claimed(booking) == []
    assert AuditEntry.objects.get().result == "nothing"
    assert "0 cancelled" in page or "changed by someone else and is cancelled" in page
    assert booking.events.get(new=State.CANCELLED).by == "bert"


@pytest.mark.parametrize("way", ["button", "list"])
def test_a_stop_that_came_too_late_is_not_on_record_as_stopped(
    boss: Client, booking: Booking, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    move(booking, State.ARMED, State.STARTING, State.RECORDING)
    first(controls, "request_stop", lambda: move(booking, State.STOPPING, State.COMPLETED), monkeypatch)

    page = press(boss, booking, "stop", way)

    assert claimed(booking) == []
    assert AuditEntry.objects.get().result == "nothing"
    assert "0 stopped" in page or "is not running: completed" in page
    assert booking.events.get(new=State.STOPPING).by == "bert"


@pytest.mark.parametrize("name", ["cancel_booking", "change"])
def test_an_action_on_a_booking_that_an_edit_deleted_is_refused(booking: Booking, name: str) -> None:
    """An edit of the schedule deletes planned bookings while someone looks at one of them."""
    ends_at = booking.ends_at + HOUR
    acts = {
        "cancel_booking": lambda: controls.cancel_booking(booking, by="boss"),
        "change": lambda: booking_controls.change(booking, by="boss", ends_at=ends_at),
    }
    Booking.objects.filter(pk=booking.pk).delete()

    outcome = acts[name]()

    assert (outcome.result, outcome.text) == ("refused", "News has just been deleted.")


@pytest.mark.parametrize("way", ["button", "list"])
@pytest.mark.parametrize("name", ["pause", "resume"])
def test_a_schedule_someone_else_paused_or_resumed_first_is_not_recorded_as_done(
    boss: Client, schedule: Schedule, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    rows = Schedule.objects.filter(pk=schedule.pk)
    rows.update(is_paused=name == "resume")
    first(replanning, "lock", lambda: rows.update(is_paused=name == "pause"), monkeypatch)

    page = press(boss, schedule, name, way)

    assert claimed(schedule) == []
    assert AuditEntry.objects.get().result == "nothing"
    assert "by someone else" in page


def test_a_button_on_an_outdated_page_is_refused_with_the_reason(boss: Client, booking: Booking) -> None:
    """The button was on the page when it was loaded; the state has changed since."""
    move(booking, State.ARMED, State.STARTING, State.RECORDING)

    page = press(boss, booking, "skip", "button")

    assert "News is recording." in page
    assert AuditEntry.objects.get().result == "refused"
