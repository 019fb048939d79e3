"""Planning: ahead, repeatable, conflicts visible, edits reported, pause and skip (R-06, R-09, R-12, R-13)."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from scheduling.bookings.changing import NotPossible, restore, skip
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, Recorder, Schedule
from scheduling.rules import planning
from scheduling.rules.planning import plan_ahead
from scheduling.rules.replanning import pause, replan, resume
from scheduling.tests.conftest import HOUR, NOW
from station.leader_term import Term
from station.models import Alert

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State
DAY = timedelta(days=1)


def starts(schedule: Schedule, *states: str) -> list[datetime]:
    rows = schedule.bookings.filter(state__in=states or [State.PLANNED]).order_by("starts_at")
    return list(rows.values_list("starts_at", flat=True))


def test_a_rule_is_planned_fourteen_days_ahead_and_once(evening: Schedule) -> None:
    """R-09: 20:00 in Berlin stays 20:00 in Berlin; planning twice adds nothing."""
    plan_ahead(evening, NOW)
    plan_ahead(evening, NOW)
    evening.planned_until_at = None
    plan_ahead(evening, NOW)

    found = starts(evening)
    assert len(found) == 14
    assert found[0] == datetime(2026, 3, 20, 19, tzinfo=UTC)
    assert found[-1] == datetime(2026, 4, 2, 18, tzinfo=UTC)
    assert {moment.hour for moment in found} == {18, 19}
    assert evening.planned_until_at == NOW + 14 * DAY
    assert evening.plan_due_at == datetime(2026, 4, 3, 18, tzinfo=UTC) - 14 * DAY


def test_the_rule_decides_what_is_planned_not_the_outcome_of_earlier_bookings(evening: Schedule) -> None:
    """R-09: the next bookings are planned whatever happened to the earlier ones."""
    plan_ahead(evening, NOW)
    evening.bookings.update(state=State.FAILED)

    plan_ahead(evening, NOW + 3 * DAY)

    assert len(starts(evening)) == 3


def test_an_outage_longer_than_the_horizon_shows_as_missed_and_the_series_continues(evening: Schedule) -> None:
    """R-06: windows that were not planned because no scheduler ran are recorded as missed."""
    plan_ahead(evening, NOW)
    later = NOW + 20 * DAY

    plan_ahead(evening, later)

    assert evening.bookings.filter(ends_at__lt=later).count() == 20
    assert evening.bookings.filter(starts_at__gt=later).count() == 14


def test_a_conflict_becomes_a_visible_skipped_booking_with_an_alert(evening: Schedule, camera: Recorder) -> None:
    """R-13: a conflict is neither an exception nor silent."""
    at = datetime(2026, 3, 21, 19, 30, tzinfo=UTC)
    winner = book(camera, at, at + HOUR, now=NOW, by="anna", title="Special")

    plan = plan_ahead(evening, NOW)

    assert len(plan.added) == 13
    [skipped] = plan.skipped
    assert (skipped.state, skipped.skip_reason) == (State.SKIPPED, Booking.Skip.CONFLICT)
    assert "taken by “Special”" in skipped.events.get().note
    alert = Alert.objects.get()
    assert (alert.key, alert.subject) == (f"skipped:{skipped.owner}", skipped.owner)
    assert "will not be recorded" in alert.title

    winner.move(State.CANCELLED, now=NOW)
    restore(skipped, now=NOW, by="anna")
    assert skipped.state == State.PLANNED
    alert.refresh_from_db()
    assert alert.state == "resolved"


def test_overlap_queue_starts_when_the_recorder_is_free(evening: Schedule, camera: Recorder) -> None:
    at = datetime(2026, 3, 21, 18, 30, tzinfo=UTC)
    book(camera, at, at + HOUR, now=NOW, title="Special")
    Schedule.objects.update(overlap="queue")
    evening.refresh_from_db()

    plan = plan_ahead(evening, NOW)

    assert plan.skipped == []
    late = next(booking for booking in plan.added if booking.planned_start_at == datetime(2026, 3, 21, 19, tzinfo=UTC))
    assert (late.starts_at, late.ends_at) == (at + HOUR, datetime(2026, 3, 21, 20, tzinfo=UTC))


def test_overlap_replace_skips_bookings_that_are_only_planned(evening: Schedule, camera: Recorder) -> None:
    at = datetime(2026, 3, 21, 18, 30, tzinfo=UTC)
    special = book(camera, at, at + HOUR, now=NOW, title="Special")
    Schedule.objects.update(overlap="replace")
    evening.refresh_from_db()

    plan = plan_ahead(evening, NOW)

    special.refresh_from_db()
    assert plan.skipped == []
    assert (special.state, special.skip_reason) == (State.SKIPPED, Booking.Skip.REPLACED)
    assert Alert.objects.get().key == f"skipped:{special.owner}"


def test_a_rule_that_cannot_be_planned_raises_an_alert_and_the_others_continue(
    evening: Schedule, camera: Recorder, project: Any
) -> None:
    """A broken schedule affects only itself."""
    Schedule.objects.filter(pk=evening.pk).update(zone="Mars/Base")
    other = Recorder.objects.create(name="Other", project=project, source_type="test")
    good = Schedule.objects.create(
        name="Good",
        recorder=other,
        kind="daily",
        zone="UTC",
        first_on=date(2026, 3, 1),
        start_time=time(1),
        length=HOUR,
        plan_due_at=NOW,
    )

    due = planning.step(Term(), NOW)

    assert len(starts(good)) == 14
    assert due == NOW + timedelta(minutes=1)
    evening.refresh_from_db()
    assert "Mars/Base" in evening.plan_error
    assert Alert.objects.get().key == f"planning:schedule:{evening.pk}"


def test_a_dense_rule_is_planned_in_batches(camera: Recorder) -> None:
    dense = Schedule.objects.create(
        name="Dense",
        recorder=camera,
        kind="cron",
        zone="UTC",
        first_on=date(2026, 3, 1),
        cron="*/5 * * * *",
        length=timedelta(minutes=1),
        plan_due_at=NOW,
    )
    plan = plan_ahead(dense, NOW)
    assert (len(plan.added), plan.is_complete) == (planning.WINDOWS_PER_PASS, False)
    assert dense.plan_due_at == NOW + planning.LEISURE, "the next hours are planned; the rest is not urgent"
    plan_ahead(dense, NOW)
    found = starts(dense)
    assert len(found) == 2 * planning.WINDOWS_PER_PASS == len(set(found))


def test_a_slow_machine_plans_in_smaller_batches_and_misses_nothing(
    evening: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-09: the leader sends heartbeats in between; each pass plans at least one window."""
    monkeypatch.setattr(planning, "PASS_SECONDS", -1.0)
    passes = 0
    while not plan_ahead(evening, NOW).is_complete:
        passes += 1
        assert len(starts(evening)) == passes
    assert (passes, len(starts(evening))) == (13, 14)


def test_one_occurrence_can_be_skipped_and_restored(evening: Schedule) -> None:
    """It becomes an exception of the rule: it stays skipped through edits, until it is restored."""
    plan_ahead(evening, NOW)
    second = evening.bookings.order_by("starts_at")[1]

    assert skip(second, now=NOW, by="anna")
    evening.refresh_from_db()
    assert evening.exceptions == ["2026-03-21T20:00:00"]
    replan(evening, NOW)
    assert len(starts(evening)) == 13

    second.refresh_from_db()
    restore(second, now=NOW, by="anna")
    evening.refresh_from_db()
    assert evening.exceptions == []
    assert len(starts(evening)) == 14
    with pytest.raises(NotPossible):
        restore(second, now=NOW, by="anna")


def test_pause_skips_bookings_and_resume_plans_them_again(evening: Schedule, camera: Recorder) -> None:
    plan_ahead(evening, NOW)
    assert pause(evening, now=NOW, by="anna") == 14
    assert starts(evening) == []
    assert len(starts(evening, State.SKIPPED)) == 14
    assert plan_ahead(evening, NOW + 3 * DAY).added == []
    at = datetime(2026, 3, 25, 19, tzinfo=UTC)
    book(camera, at, at + HOUR, now=NOW)

    later = NOW + 3 * DAY
    changes = resume(evening, now=later, by="anna")

    assert len(changes.conflicts) == 1
    found = starts(evening)
    assert found[0] == datetime(2026, 3, 23, 19, tzinfo=UTC)
    assert len(found) == 13
    assert not evening.bookings.filter(state=State.PLANNED, starts_at__lt=later).exists()


def test_deleting_a_schedule_keeps_bookings_that_started(evening: Schedule) -> None:
    """The history of a deleted schedule's bookings stays."""
    plan_ahead(evening, NOW)
    evening.bookings.filter(starts_at__lt=NOW + DAY).update(state=State.COMPLETED)
    evening.delete()
    assert Booking.objects.filter(state=State.COMPLETED, schedule=None).count() == 1


def test_the_same_occurrence_cannot_be_booked_twice(evening: Schedule) -> None:
    """R-09: the database refuses it."""
    plan_ahead(evening, NOW)
    known = evening.bookings.order_by("starts_at")[0]
    with pytest.raises(BookingRefused):
        book(evening.recorder, known.starts_at, known.ends_at, now=NOW)


def test_replace_skips_nothing_if_the_new_booking_cannot_be_made(evening: Schedule, camera: Recorder) -> None:
    """Both or neither: one of the two conflicting bookings is already recording."""
    at = datetime(2026, 3, 21, 18, 50, tzinfo=UTC)
    running = book(camera, at, at + HOUR / 2, now=NOW, title="Running")
    planned = book(camera, at + HOUR / 2, at + HOUR, now=NOW, title="Planned")
    Booking.objects.filter(pk=running.pk).update(state=State.RECORDING)
    Schedule.objects.update(overlap="replace")
    evening.refresh_from_db()

    plan = plan_ahead(evening, NOW)

    planned.refresh_from_db()
    assert planned.state == State.PLANNED
    assert [booking.planned_start_at for booking in plan.skipped] == [datetime(2026, 3, 21, 19, tzinfo=UTC)]
