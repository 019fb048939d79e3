"""Missed runs are caught up as the job declares, and retries are never lost (J-05, J-06)."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.definitions.job_decorator import registry
from jobs.models import Job, JobCursor, Run
from jobs.runs import declarations, planning, promotion, sweeping
from jobs.runs.claiming import Claimed
from jobs.runs.finishing import Failure
from station.clock import database_now
from testing.fleet import HandWorker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Run.State
HOUR = timedelta(hours=1)
ERROR = Failure(Run.Fault.HANDLER_ERROR, "the tape is torn")


def away(name: str, hours: float, now: datetime) -> Job:
    """As if nothing had run for this many hours: the job's cursor is that far back, and no other job is due."""
    declarations.sync(now)
    row = Job.objects.get(name=name)
    when = row.when
    assert when is not None
    fire = next(when.after(now - timedelta(hours=hours)))
    JobCursor.objects.exclude(job=row).update(is_active=False)
    row.cursors.update(next_at=fire)
    return row


def turns(row: Job, now: datetime, horizon: datetime) -> Iterator[list[datetime]]:
    """The planned times that each turn of the leader makes, until the cursor passes the horizon."""
    while True:
        before = set(row.runs.values_list("pk", flat=True))
        cursor = row.cursors.get()
        if cursor.next_at > horizon:
            return
        planning.plan(row, cursor.next_at, now, horizon)
        made = row.runs.exclude(pk__in=before).order_by("planned_at")
        yield [run.planned_at for run in made if run.planned_at is not None]


def work(worker: HandWorker, now: datetime) -> list[Claimed]:
    """Finish everything that is due, one after the other, as an exclusive job requires."""
    done: list[Claimed] = []
    while claimed := worker.claim(now=now):
        worker.finish(*claimed)
        done += claimed
    return done


def test_every_missed_hour_within_the_window_is_planned_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """J-05: not older than the window, at most `per_turn` a turn, in order, each exactly once."""
    now = database_now()
    row = away("test.crontab", 30, now)  # catches up two hours, two a turn
    catch_up = registry.jobs["test.crontab"].catch_up
    assert (catch_up.mode, catch_up.window_seconds, catch_up.per_turn) == ("every", 7200, 2)

    made = list(turns(row, now, now))

    flat = [fire for turn in made for fire in turn]
    assert all(len(turn) <= 2 for turn in made)
    assert flat == sorted(set(flat))
    assert [fire for fire in flat if fire < now - 2 * HOUR] == [], "times before the window are left out"
    assert len(flat) == 2
    assert flat[-1] + HOUR > now, "up to the present"
    assert row.cursors.get().next_at == flat[-1] + HOUR


def test_of_thousands_of_missed_seconds_one_is_made() -> None:
    """J-05: latest only: after an hour's outage one run, not 3,600; it continues with the next second."""
    now = database_now()
    row = away("test.often", 1, now)

    made = [fire for turn in turns(row, now, now) for fire in turn]

    assert len(made) == 1
    assert now - timedelta(seconds=1) < made[0] <= now
    assert row.cursors.get().next_at == made[0] + timedelta(seconds=1)


def test_a_failed_plan_is_retried_though_the_cursor_went_far_ahead() -> None:
    """J-06: a retry is still run after hours of later planned runs."""
    now = database_now()
    row = away("test.crontab", 1.5, now)
    [first, *_] = [fire for turn in turns(row, now, now) for fire in turn]
    Run.objects.filter(planned_at=first).update(attempts_allowed=2)
    worker = HandWorker("test.crontab")
    [claimed] = worker.claim(now=now)
    assert claimed.planned_at == first
    worker.finish(claimed, ERROR)
    failed = Run.objects.get(pk=claimed.id)
    assert failed.state == State.RETRY
    Run.objects.filter(pk=failed.pk).update(run_at=now + 30 * HOUR)  # a backoff longer than thirty fire times

    for hour in range(1, 30):
        later = now + hour * HOUR
        list(turns(row, later, later))
        work(worker, later)
    planned = row.runs.filter(state=State.SUCCEEDED).count()
    assert planned >= 29, "every other hour was run meanwhile"
    assert Run.objects.get(pk=failed.pk).state == State.RETRY

    promotion.promote(now + 31 * HOUR, now + 31 * HOUR, sweeping.latest_only())
    [again] = work(worker, now + 31 * HOUR)
    assert (again.id, again.attempt, again.planned_at) == (failed.pk, 2, first)
    assert Run.objects.get(pk=failed.pk).state == State.SUCCEEDED


def test_the_leader_finds_a_due_retry_that_no_job_worker_promoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """J-06, J-21: it is found by its index; the sweep promotes it when no job worker does."""
    now = database_now()
    row = away("test.crontab", 0.5, now)
    list(turns(row, now, now))
    row.runs.update(state=State.RETRY, run_at=now - timedelta(minutes=1), attempt=1, attempts_allowed=2)
    count = row.runs.count()

    assert Run.objects.waiting(now).filter(job=row).count() == count
    assert promotion.promote(now, now, sweeping.latest_only()) == count

    assert set(row.runs.values_list("state", flat=True)) <= {State.QUEUED}
