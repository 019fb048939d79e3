"""The table of runs: planned once, claimed once, turns and limits kept, old runs deleted."""

import threading
from datetime import timedelta

import pytest
from django.db import connections
from django.db.models import F

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.definitions import registration
from jobs.definitions.payloads import BadPayload
from jobs.models import Job, JobCursor, Run, RunEvent
from jobs.runs import declarations, planning, promotion, queue
from jobs.runs.finishing import Failure
from jobs.runs.queue import AlreadyRunning, NotQueued, Order, UnknownJob, cancel, enqueue, enqueue_many
from jobs.runs.retention import delete_finished
from station.clock import database_now
from testing.fleet import HandWorker, later

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State, Fault = Run.State, Run.Fault
NOTE = {"path": "/dev/null"}
ERROR = Failure(Fault.HANDLER_ERROR, "the tape is torn")


def test_a_plan_is_made_once_however_often_it_is_planned() -> None:
    """J-01, J-24: UNIQUE(job, scope, plan time), and the cursor moves by compare-and-set."""
    now = database_now()
    declarations.sync(now)
    cursor = JobCursor.objects.get(job__name="test.crontab")
    JobCursor.objects.exclude(pk=cursor.pk).update(is_active=False)
    JobCursor.objects.filter(pk=cursor.pk).update(next_at=now)
    job_row = cursor.job

    made = [planning.plan(job_row, now, now, now + timedelta(seconds=10)) for _ in range(2)]
    JobCursor.objects.filter(pk=cursor.pk).update(next_at=now)  # as if another planner had not seen it move
    planning.plan(job_row, now, now, now + timedelta(seconds=10))

    assert made == [Run.objects.filter(job=job_row).count(), 0]
    assert Run.objects.filter(job=job_row).values("planned_at").distinct().count() == made[0]


def test_the_first_registration_makes_no_past_runs_and_a_backfill_makes_them_once() -> None:
    """J-05: explicit, with a preview, after current runs; repeating it adds nothing."""
    now = database_now()
    declarations.sync(now)
    row = Job.objects.get(name="test.crontab")
    assert not row.runs.exists()
    span = (now - timedelta(hours=5), now)
    moments = queue.backfill_moments(row, "", *span)

    made = queue.backfill(row, "", *span, by="anna")

    assert len(made) == len(moments) == 5
    assert queue.backfill(row, "", *span, by="anna") == []
    assert set(row.runs.values_list("trigger", "priority")) == {("backfill", queue.BACKFILL_PRIORITY)}
    with pytest.raises(NotQueued, match="shorter period"):
        queue.backfill_moments(row, "", now - timedelta(days=100), now)
    with pytest.raises(NotQueued, match="has no schedule"):
        queue.backfill_moments(queue.job_row("test.note"), "", *span)


@pytest.mark.django_db(transaction=True)
def test_of_many_claimers_one_wins() -> None:
    """J-07, J-14: attempt + 1, the token rotated; exactly one winner each."""
    pks = enqueue_many("test.noop", [Order() for _ in range(200)])
    taken: list[int] = []

    def take() -> None:
        worker = HandWorker("test.noop")
        try:
            for _ in range(60):
                taken.extend(run.id for run in worker.claim(7))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken) == sorted(pks)
    assert Run.objects.filter(state=State.RUNNING, attempt=1).values("token").distinct().count() == 200


def test_limits_hold_across_the_fleet_and_scopes_do_not_overlap() -> None:
    """J-18: a job's limit holds; an exclusive job runs once per scope; a job at its limit blocks no other."""
    enqueue_many("test.two_at_once", [Order(payload=NOTE) for _ in range(5)])
    enqueue("test.note", NOTE)
    a, b = HandWorker("test.two_at_once", "test.note"), HandWorker("test.two_at_once", "test.note")
    claimed = [*a.claim(9), *b.claim(9)]
    assert sorted(registry_name(run.job_id) for run in claimed) == ["test.note", *["test.two_at_once"] * 2]
    a.finish(next(run for run in claimed if registry_name(run.job_id) == "test.two_at_once"))
    assert len(b.claim(9)) == 1

    row, now = queue.job_row("test.often"), database_now()
    orders = [Order(scope=scope, planned_at=now - timedelta(seconds=n), run_at=now) for scope in "ab" for n in (1, 2)]
    queue.insert(row.name, orders, trigger="plan")
    c = HandWorker("test.often")
    first = c.claim(9)
    assert sorted(run.scope for run in first) == ["a", "b"]
    assert c.claim(9) == []
    c.finish(first[0])
    assert [run.scope for run in c.claim(9)] == [first[0].scope]


def registry_name(job_id: int) -> str:
    return Job.objects.get(pk=job_id).name


def test_by_hand_is_allowed_while_paused_refused_while_running_and_leaves_the_pointer() -> None:
    """J-19: it has its own trigger; an unknown job or scope is an error."""
    declarations.sync(database_now())
    row = Job.objects.get(name="test.crontab")
    before = row.cursors.get().next_at
    registration.pause(row, now=database_now(), by="anna")
    with pytest.raises(UnknownJob):
        queue.run_by_hand("test.nonesuch", by="anna")
    with pytest.raises(NotQueued, match="no scope called attic"):
        queue.run_by_hand("test.crontab", scope="attic", by="anna")

    run = queue.run_by_hand("test.crontab", by="anna")

    assert (run.trigger, run.requested_by, run.planned_at) == ("manual", "anna", None)
    with pytest.raises(AlreadyRunning, match="already queued"):
        queue.run_by_hand("test.crontab", by="anna")
    worker = HandWorker("test.crontab")
    [claimed] = worker.claim()
    with pytest.raises(AlreadyRunning, match="already running"):
        queue.run_by_hand("test.crontab", by="anna")
    worker.finish(claimed)
    assert row.cursors.get().next_at == before


def test_the_pointer_advances_whatever_happens_and_a_pause_keeps_the_place() -> None:
    """J-20: also after a failure; planned runs that have not started are planned again after the pause."""
    now = database_now()
    declarations.sync(now)
    row = Job.objects.get(name="test.crontab")
    JobCursor.objects.exclude(job=row).update(is_active=False)
    row.cursors.update(next_at=now - timedelta(seconds=1))
    planning.plan(row, now - timedelta(seconds=1), now, now + timedelta(hours=2))
    planned = sorted(row.runs.values_list("planned_at", flat=True))
    assert row.cursors.get().next_at > planned[-1]
    worker = HandWorker("test.crontab")
    worker.finish(*worker.claim(now=later(7200)), outcome=ERROR)
    begun = row.runs.get(state=State.FAILED).planned_at

    taken = registration.pause(row, now=now, by="anna")

    assert taken == len(planned) - 1
    assert list(row.runs.values_list("planned_at", flat=True)) == [begun]
    assert row.cursors.get().next_at == min(set(planned) - {begun})
    assert planning.plan(row, row.cursors.get().next_at, now, now + timedelta(hours=2)) == 0
    registration.resume(row, now=now, by="anna")
    planning.plan(Job.objects.get(pk=row.pk), row.cursors.get().next_at, now, now + timedelta(hours=2))
    assert sorted(row.runs.values_list("planned_at", flat=True)) == planned


def test_old_runs_are_deleted_in_batches_and_by_their_result() -> None:
    """J-22: minor jobs keep succeeded runs 24 h and failed ones 72 h; the others keep runs 14 days."""
    from jobs.definitions.job_decorator import MINOR, Keep
    from jobs.runs import retention

    row = queue.job_row("test.noop")
    enqueue_many("test.noop", [Order() for _ in range(6)])
    worker = HandWorker("test.noop")
    runs = worker.claim(6)
    for number, run in enumerate(runs):
        worker.finish(run, None if number < 3 else ERROR)
    Run.objects.update(finished_at=F("finished_at") - timedelta(hours=25))
    old_batch, retention.BATCH = retention.BATCH, 2
    try:
        assert delete_finished(row, Keep()) == 0
        assert delete_finished(row, MINOR) == 3
        Run.objects.update(finished_at=F("finished_at") - timedelta(hours=48))
        assert delete_finished(row, MINOR) == 3
    finally:
        retention.BATCH = old_batch
    assert RunEvent.objects.count() == 0


def test_runs_are_cancelled_with_the_reason_when_their_owner_is_deleted() -> None:
    """J-25: queued runs never start; running ones learn it at their next heartbeat."""
    waiting = enqueue("test.note", NOTE, owner="asset:7", run_at=later(3600))
    other = enqueue("test.note", NOTE, owner="asset:8", run_at=later(3600))
    running = enqueue("test.note", NOTE, owner="asset:7")
    worker = HandWorker("test.note")
    [claimed] = worker.claim()

    assert queue.cancel_of("asset:7", by="anna", reason="the asset is gone") == 2

    waiting.refresh_from_db()
    other.refresh_from_db()
    assert (waiting.state, waiting.cancel_reason, other.state) == (
        State.CANCELLED,
        "the asset is gone",
        State.SCHEDULED,
    )
    assert worker.beat(claimed).cancelled == {claimed.token: "the asset is gone"}
    worker.finish(claimed, Failure(Fault.CANCELLED, "the asset is gone"))
    running.refresh_from_db()
    assert (running.state, running.error_code) == (State.CANCELLED, Fault.CANCELLED)
    assert cancel(running, by="anna") is False


def test_scopes_take_turns_and_priority_goes_first() -> None:
    """J-14: FIFO within a priority, fair between scopes, one live run per key."""
    enqueue_many("test.noop", [Order(scope="big") for _ in range(50)])
    enqueue_many("test.noop", [Order(scope="small") for _ in range(3)])
    urgent = enqueue("test.noop", scope="big", priority=5)
    worker = HandWorker("test.noop")
    order = [run for _ in range(7) for run in worker.claim(1)]
    assert order[0].id == urgent.pk
    assert [run.scope for run in order[1:]].count("small") == 3
    bigs = [run.id for run in order[1:] if run.scope == "big"]
    assert bigs == sorted(bigs)

    first = enqueue("test.noop", key="nightly")
    assert enqueue("test.noop", key="nightly").pk == first.pk
    Run.objects.filter(pk=first.pk).update(state=State.SUCCEEDED)
    assert enqueue("test.noop", key="nightly").pk != first.pk


def test_an_invalid_order_is_refused_and_nothing_is_stored() -> None:
    """S-07 for the queue: an unknown job, a payload that does not fit."""
    with pytest.raises(UnknownJob):
        enqueue("test.nonesuch")
    with pytest.raises(BadPayload):
        enqueue("test.note", {"path": 3})
    with pytest.raises(BadPayload):
        enqueue("test.noop", {"surplus": 1})
    assert Run.objects.count() == 0


def test_a_later_planned_run_replaces_one_that_has_not_started() -> None:
    """J-05, J-18: a latest-only job never has more than one waiting run per scope."""
    row, now = queue.job_row("test.often"), database_now()
    orders = [Order(planned_at=now - timedelta(seconds=n), run_at=now - timedelta(seconds=n)) for n in (3, 2, 1)]
    for order in orders:
        queue.insert(row.name, [order], trigger="plan", now=now - timedelta(seconds=10))
    promotion.promote(now, now, [row.pk])
    states = list(row.runs.order_by("planned_at").values_list("state", flat=True))
    assert states == [State.CANCELLED, State.CANCELLED, State.QUEUED]
