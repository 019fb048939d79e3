"""What an edit of a rule does to its bookings (R-09, R-12)."""

from datetime import time

import pytest

from scheduling.bookings.changing import extend
from scheduling.models import Booking, Schedule
from scheduling.rules.planning import plan_ahead
from scheduling.rules.replanning import pause, replan, resume
from scheduling.tests.conftest import HOUR, NOW
from scheduling.tests.test_planning import starts

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State


def test_an_edit_replans_only_planned_bookings_and_reports_which(evening: Schedule) -> None:
    """R-12."""
    plan_ahead(evening, NOW)
    first, second, *_ = evening.bookings.order_by("starts_at")
    Booking.objects.filter(pk=first.pk).update(state=State.RECORDING)
    Booking.objects.filter(pk=second.pk).update(state=State.FAILED)
    evening.start_time = time(20, 15)
    evening.save()

    changes = replan(evening, NOW)

    assert first.pk in set(evening.bookings.values_list("pk", flat=True))
    assert [booking.pk for booking in changes.begun] == [first.pk]
    assert len(changes.removed) == 12
    assert {moment.minute for moment in starts(evening)} == {15}
    words = changes.in_words()
    assert "12 removed (2026-03-22 20:00:00 CET" in words
    assert f"1 already started and not changed (booking {first.pk})" in words


def test_a_longer_length_changes_the_bookings_in_place(evening: Schedule) -> None:
    plan_ahead(evening, NOW)
    evening.length = 2 * HOUR
    evening.save()

    changes = replan(evening, NOW)

    assert (len(changes.moved), changes.planned, changes.removed) == (14, 0, [])
    assert all(booking.ends_at - booking.starts_at == 2 * HOUR for booking in evening.bookings.all())


def test_a_new_name_changes_no_window(evening: Schedule) -> None:
    plan_ahead(evening, NOW)
    before = set(evening.bookings.values_list("pk", flat=True))
    evening.name, evening.late_start = "Night", "skip"
    evening.save()

    changes = replan(evening, NOW)

    assert (changes.moved, changes.removed, changes.planned) == ([], [], 0)
    assert set(evening.bookings.values_list("pk", "title", "late_start")) == {(pk, "Night", "skip") for pk in before}


def test_a_schedule_edited_while_it_was_paused_resumes_with_the_new_rule(evening: Schedule) -> None:
    """R-12: no window of the old rule comes back."""
    plan_ahead(evening, NOW)
    pause(evening, now=NOW, by="anna")
    evening.start_time = time(21)
    evening.save()
    replan(evening, NOW)

    resume(evening, now=NOW, by="anna")

    found = starts(evening)
    assert len(found) == 14
    assert {moment.hour for moment in found} == {19, 20}
    assert starts(evening, State.SKIPPED) == []


def test_a_booking_edited_by_hand_survives_an_edit_of_the_rule(evening: Schedule) -> None:
    """R-12: and the report says so."""
    plan_ahead(evening, NOW)
    extended = evening.bookings.order_by("starts_at")[1]
    extend(extended, 900, now=NOW, by="anna")
    evening.name = "Renamed"
    evening.save()

    changes = replan(evening, NOW)

    extended.refresh_from_db()
    assert extended.ends_at - extended.starts_at == HOUR * 1.25
    assert f"1 edited by hand and not changed (booking {extended.pk})" in changes.in_words()


def test_planning_with_a_rule_that_has_changed_since_does_nothing(evening: Schedule) -> None:
    """The loop reads, a user saves, the loop plans: only the stored rule counts."""
    stale = Schedule.objects.get(pk=evening.pk)
    Schedule.objects.update(start_time=time(21))
    assert plan_ahead(stale, NOW).added == []
    Schedule.objects.all().delete()
    assert plan_ahead(stale, NOW).added == []
    assert not Booking.objects.exists()
