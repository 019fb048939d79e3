"""Schedules in the admin: the form, the preview, pause and delete (R-09, S-07)."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduling.models import Booking, Recorder, Schedule

pytestmark = [pytest.mark.django_db]

State = Booking.State


def rule(recorder: Recorder, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": "Evening",
        "recorder": recorder.pk,
        "kind": "daily",
        "zone": "Europe/Berlin",
        "first_on": "2026-01-01",
        "start_time": "20:15",
        "length": "1:30:00",
        "ends": "wall",
        "late_start": "start",
        "min_useful_seconds": "30",
        "overlap": "skip",
        "cron": "",
        "until_on": "",
        "count": "",
        "pad_before_seconds": "",
        "pad_after_seconds": "",
        "max_late_seconds": "",
    }
    return {**values, **changes}


def fourteen(schedule: Schedule, state: str) -> bool:
    """Fourteen future bookings; in the evening there is also one that is open now."""
    return schedule.bookings.filter(state=state, starts_at__gt=timezone.now()).count() == 14


def test_a_schedule_is_saved_planned_and_described(boss: Client, camera: Recorder) -> None:
    """R-09, R-12."""
    url = reverse("admin:scheduling_schedule_add")
    page = boss.post(url, rule(camera), follow=True).content.decode()
    schedule = Schedule.objects.get()
    assert "Every day at 20:15, Europe/Berlin" in page
    assert fourteen(schedule, State.PLANNED)
    assert schedule.created_by == "boss"

    change = reverse("admin:scheduling_schedule_change", args=[schedule.pk])
    page = boss.post(change, rule(camera, start_time="20:30"), follow=True).content.decode()
    assert re.search("1[45] removed", page)


def test_a_length_of_zero_for_a_schedule_that_exists_is_refused_at_once(boss: Client, camera: Recorder) -> None:
    """The preview in the refused form does not search the calendar for ever."""
    boss.post(reverse("admin:scheduling_schedule_add"), rule(camera, kind="cron", cron="* * * * *", length="30"))
    change = reverse("admin:scheduling_schedule_change", args=[Schedule.objects.get().pk])

    for length in ("0", "-1"):
        page = boss.post(change, rule(camera, kind="cron", cron="* * * * *", length=length)).content.decode()
        assert "Enter a length between one second and seven days." in page


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "cron", "cron": "61 * * * *"}, "must be between 0 and 59"),
        ({"kind": "cron", "cron": "0 0 31 2 *"}, "No day in the calendar"),
        ({"zone": "Factory"}, "Factory is not one of the available choices"),
        ({"kind": "weekly"}, "Choose at least one day."),
        ({"start_time": ""}, "Enter a start time."),
        ({"length": "0"}, "Enter a length between one second and seven days."),
        ({"until_on": "2025-01-01"}, "The last day is before the first day."),
        ({"count": "0"}, "greater than or equal to 1"),
        ({"length": "tomorrow"}, "Enter a valid duration."),
    ],
)
def test_a_bad_rule_is_reported_at_its_field(boss: Client, camera: Recorder, changes: dict, words: str) -> None:
    """S-07: nothing is stored."""
    page = boss.post(reverse("admin:scheduling_schedule_add"), rule(camera, **changes)).content.decode()
    assert words in page
    assert not Schedule.objects.exists()


def test_the_form_shows_the_next_ten_windows_and_the_clock_changes(boss: Client, camera: Recorder) -> None:
    page = boss.get(reverse("schedule-preview"), rule(camera, start_time="02:30")).content.decode()
    assert page.count("<tr") == 11
    assert "Every day at 02:30" in page
    assert "the clocks go" in page
    weekly = boss.get(
        reverse("schedule-preview"), {**rule(camera, kind="weekly"), "weekdays": ["5", "0"]}
    ).content.decode()
    assert "Every Monday, Saturday at 20:15" in weekly
    broken = boss.get(reverse("schedule-preview"), rule(camera, kind="cron", cron="x")).content.decode()
    assert "The rule is not complete." in broken
    assert "Fill in" in boss.get(reverse("admin:scheduling_schedule_add")).content.decode()


def test_pause_resume_and_delete_by_button(boss: Client, camera: Recorder) -> None:
    boss.post(reverse("admin:scheduling_schedule_add"), rule(camera))
    schedule = Schedule.objects.get()
    boss.post(reverse("admin:scheduling_schedule_pause", args=[schedule.pk]), {"_form_submitted": "on"})
    schedule.refresh_from_db()
    assert schedule.is_paused
    assert fourteen(schedule, State.SKIPPED)
    boss.post(reverse("admin:scheduling_schedule_resume", args=[schedule.pk]), {"_form_submitted": "on"})
    assert fourteen(schedule, State.PLANNED)
    schedule.bookings.filter(pk=schedule.bookings.first().pk).update(state=State.COMPLETED)
    boss.post(reverse("admin:scheduling_schedule_delete", args=[schedule.pk]), {"post": "yes"})
    assert Booking.objects.count() == 1
    assert not Schedule.objects.exists()
