"""Declared jobs: checked at import, written to the table; what staff changed is kept."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from jobs.definitions import fire_times, registration
from jobs.definitions.job_decorator import BadJob, by_cron, every, job, registry
from jobs.definitions.payloads import BadPayload, dump, load
from jobs.definitions.run_context import RunContext, RunStopped
from jobs.models import Job, JobCursor, Run
from jobs.runs import declarations, planning
from station.clock import database_now
from station.clock.cron import BadCron
from station.clock.zones import UnknownZone
from station.leader_term import Term
from station.models import Alert

MINUTE = timedelta(minutes=1)


@pytest.fixture
def declare() -> Any:
    """Declare a job for this test only."""
    names: list[str] = []

    def make(name: str, handler: Any = None, **options: Any) -> Job:
        job(name, **options)(handler or (lambda run: None))
        names.append(name)
        return registration.upsert(registry.jobs[name])

    yield make
    for name in names:
        registry.remove(name)


def declared_badly(**options: Any) -> str:
    with pytest.raises(BadJob) as error:
        job("test.bad", **options)(lambda run: None)
    return str(error.value)


def test_an_invalid_declaration_is_refused_at_import() -> None:
    """J-02: stale > timeout, 0 < heartbeat < stale, attempts >= 1, and the rest."""
    assert "stale_seconds must be more" in declared_badly(timeout_seconds=60, stale_seconds=60)
    assert "heartbeat_seconds must be between" in declared_badly(heartbeat_seconds=0)
    assert "heartbeat_seconds must be between" in declared_badly(heartbeat_seconds=900, lease_seconds=2000)
    assert "attempts must be at least 1" in declared_badly(attempts=0)
    assert "isolation must be thread or process" in declared_badly(isolation="hope")
    assert "payload must be a dataclass" in declared_badly(payload=dict)
    assert "unexpected keyword" in declared_badly(tempo=3)
    with pytest.raises(BadCron):
        by_cron("61 * * * *", "UTC")
    with pytest.raises(UnknownZone):
        by_cron("1 * * * *", "Mars/Olympus")
    assert registry.get("test.bad") is None


@pytest.mark.django_db
def test_a_name_is_declared_once_and_a_late_one_joins_the_next_turn(declare: Any) -> None:
    """J-02: a duplicate is an error; the planner notices a late declaration in its next turn."""
    now, term = database_now(), Term()
    planning.step(term, now)
    declare("test.late", when=every(60))
    with pytest.raises(BadJob, match="declared twice"):
        job("test.late")(lambda run: None)
    assert not JobCursor.objects.filter(job__name="test.late").exists()

    planning.step(term, now)

    assert JobCursor.objects.get(job__name="test.late").next_at > now


@pytest.mark.django_db
def test_a_job_gone_from_the_code_keeps_its_history_and_an_operators_pause_survives(declare: Any) -> None:
    """J-02: a removed job is retired; a pause and changed times survive a deploy."""
    declare("test.kept", when=every(60))
    gone = declare("test.gone", when=every(60))
    kept = Job.objects.get(name="test.kept")
    registration.pause(kept, now=database_now(), by="anna")
    Job.objects.filter(pk=kept.pk).update(every_seconds=120, is_customised=True)
    declarations.sync(database_now())
    registry.remove("test.gone")

    declarations.sync(database_now())

    gone.refresh_from_db()
    kept.refresh_from_db()
    assert gone.is_declared is False
    assert gone not in Job.objects.planned()
    assert (kept.is_paused, kept.paused_by, kept.every_seconds) == (True, "anna", 120)


@pytest.mark.django_db
def test_each_scope_has_its_own_cursor_and_a_failing_provider_affects_only_its_job(declare: Any) -> None:
    """J-03."""
    scopes = ["a", "b"]
    good = declare("test.scoped", when=every(60), scopes=lambda: scopes)
    bad = declare("test.provider", when=every(60), scopes=lambda: 1 / 0)
    declarations.sync(database_now())
    assert sorted(good.cursors.values_list("scope", flat=True)) == ["a", "b"]
    bad.refresh_from_db()
    assert "ZeroDivisionError" in bad.plan_error
    assert Alert.objects.get(key="job:test.provider").state == "open"

    scopes[:] = ["b", "c"]
    registration.place(good, database_now())

    assert sorted(good.cursors.filter(is_active=True).values_list("scope", flat=True)) == ["b", "c"]


@pytest.mark.django_db
def test_an_invalid_job_is_reported_on_its_row_and_the_others_continue(declare: Any) -> None:
    """J-04, S-07: an invalid value is refused beside its field; if a row holds one, only that job is affected."""
    bad = declare("test.cronned", when=by_cron("0 6 * * *", "Europe/Berlin"))
    good = declare("test.gridded", when=every(60))
    bad.cron, bad.zone = "0 6 31 2 *", "Europe/Atlantis"
    with pytest.raises(ValidationError) as error:
        bad.full_clean()
    assert set(error.value.message_dict) == {"cron", "zone"}
    good.every_seconds = 0
    with pytest.raises(ValidationError):
        good.full_clean()
    now = database_now()
    declarations.sync(now)
    Job.objects.filter(pk=bad.pk).update(zone="Europe/Atlantis", is_customised=True)
    JobCursor.objects.filter(job__in=[bad, good]).update(next_at=now)

    planning.step(Term(), now)

    bad.refresh_from_db()
    assert "Europe/Atlantis" in bad.plan_error
    assert Run.objects.filter(job=good).exists()
    assert not Run.objects.filter(job=bad).exists()


@pytest.mark.django_db
def test_a_repaired_job_is_planned_again_and_a_pause_or_a_provider_error_moves_no_cursor(declare: Any) -> None:
    """J-04, J-20: the alert is resolved; neither a failing provider nor a pause moves existing cursors."""
    broken = [False]

    def scopes() -> list[str]:
        if broken[0]:
            raise RuntimeError("the list of channels is away")
        return ["a", "b"]

    row = declare("test.mended", when=every(3600), scopes=scopes)
    now = database_now()
    declarations.sync(now)
    places = set(row.cursors.values_list("scope", "next_at"))
    broken[0] = True
    registration.place(row, now)
    assert row.plan_error
    assert row in Job.objects.planned()
    registration.pause(row, now=now, by="anna")
    broken[0] = False
    registration.place(row, now)
    registration.resume(row, now=now, by="anna")
    assert set(row.cursors.filter(is_active=True).values_list("scope", "next_at")) == places

    row.every_seconds = 0
    row.save()
    registration.aim_anew(row, now)
    assert row not in Job.objects.planned()
    row.every_seconds = 60
    row.save()
    registration.aim_anew(row, now)
    assert row in Job.objects.planned()
    assert Alert.objects.filter(key="job:test.mended").exclude(state="resolved").count() == 0
    assert all(place.next_at <= now + timedelta(seconds=60) for place in row.cursors.all())


@given(st.floats(0.1, 1e6), st.floats(0, 1e5), st.integers(0, 10**15))
def test_the_grid_is_the_same_from_every_starting_point(seconds: float, delay: float, micros: int) -> None:
    """J-04: strictly after, evenly spaced, the same instants from any starting point."""
    grid, after = fire_times.Every(seconds, delay), fire_times.ORIGIN + timedelta(microseconds=micros)
    fires = grid.after(after)
    first, second = next(fires), next(fires)
    step = timedelta(seconds=seconds)
    assert after < first <= after + step
    assert second - first == step
    assert next(grid.after(first - timedelta(microseconds=1))) == first
    assert next(grid.after(first)) == second
    assert grid.latest(first, second) == second


def test_cron_fires_once_in_the_repeated_hour_and_at_the_jump() -> None:
    """J-04: the same resolver as schedules: 02:30 in Berlin on both change days of 2026."""
    half_past_two, day = fire_times.Cron("30 2 * * *", "Europe/Berlin"), timedelta(days=1)
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    found = [fire_times.between(half_past_two, start, start + 2 * day, 9) for start in (spring, autumn)]
    assert [f"{fire:%d %H:%M}" for fire in found[0]] == ["29 01:00", "30 00:30"]
    assert [f"{fire:%d %H:%M}" for fire in found[1]] == ["25 00:30", "26 01:30"]


@pytest.mark.parametrize("mode", ["latest", "every"])
def test_missed_fire_times_are_caught_up_as_the_job_declares(mode: str) -> None:
    """J-05: only the latest; or every one within a window, oldest first, `per_turn` per turn."""
    from jobs.definitions.fire_times import CatchUp

    grid, now = every(3600), datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
    catch_up = CatchUp(mode, window_seconds=5 * 3600, per_turn=2)  # type: ignore[arg-type]
    fires, following = planning.choose(grid, catch_up, now - timedelta(hours=20, minutes=30), now, now)
    hours = [fire.hour for fire in fires]
    assert hours == ([12] if mode == "latest" else [8, 9])
    assert following is not None
    assert following.hour == (13 if mode == "latest" else 10)


@dataclass(frozen=True)
class Order:
    asset: int
    names: list[str]
    due_at: datetime | None = None


def test_a_payload_is_checked_when_written_and_when_read() -> None:
    """J-15: the handler gets what was queued, or the payload is refused with the place of the error."""
    order = Order(7, ["a", "b"], datetime(2026, 1, 1, tzinfo=UTC))
    assert load(dump(order, Order), Order) == order
    assert dump({"asset": 7, "names": []}, Order) == {"asset": 7, "names": [], "due_at": None}
    for bad, words in (
        ({"asset": "7", "names": []}, "Order.asset must be int"),
        ({"asset": 7, "names": ["a", 3]}, r"Order.names\[1\] must be str"),
        ({"asset": 7}, "is missing names"),
        ({"asset": 7, "names": [], "x": 1}, "no field x"),
        ({"asset": 7, "names": ["\x00"]}, "NUL"),
        ([1], "must be Order, not list"),
    ):
        with pytest.raises(BadPayload, match=words):
            dump(bad, Order)
    with pytest.raises(BadPayload, match="takes no payload"):
        dump({"a": 1}, None)


def test_a_handler_that_must_stop_learns_it_from_check() -> None:
    """J-08."""
    import uuid

    run = RunContext(1, "x", "", 1, "queue", None, uuid.uuid4())
    run.check()
    run.stop()
    assert run.is_stopped
    with pytest.raises(RunStopped):
        run.check()
