"""The table that is queue, lock and audit log: one winner, guarded ends, retries never lost, limits kept."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.db.models import F

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from scheduling.jobs import claiming, planning, queueing, sweeping, syncing
from scheduling.jobs.executing import Success
from scheduling.jobs.finishing import Failure
from scheduling.jobs.housekeeping import delete_finished
from scheduling.jobs.payloads import BadPayload
from scheduling.jobs.queueing import AlreadyRunning, NotQueued, Order, UnknownJob, cancel, enqueue, enqueue_many
from scheduling.models import Job, JobCursor, JobWorker, Run, RunEvent
from station.clock import database_now
from station.models import Alert
from testing.fleet import HandWorker, later

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State, Fault = Run.State, Run.Fault
NOTE = {"path": "/dev/null"}
ERROR = Failure(Fault.HANDLER_ERROR, "the tape is torn")


def test_a_plan_is_made_once_however_often_it_is_planned() -> None:
    """J-01, J-24: UNIQUE(job, scope, plan time), and the cursor moves by compare-and-set."""
    now = database_now()
    syncing.sync(now)
    cursor = JobCursor.objects.get(job__name="test.crontab")
    JobCursor.objects.exclude(pk=cursor.pk).update(is_active=False)
    JobCursor.objects.filter(pk=cursor.pk).update(next_at=now)
    job_row = cursor.job

    made = [planning.plan(job_row, now, now, now + timedelta(seconds=10)) for _ in range(2)]
    JobCursor.objects.filter(pk=cursor.pk).update(next_at=now)  # as if another planner had not seen it move
    planning.plan(job_row, now, now, now + timedelta(seconds=10))

    assert made == [Run.objects.filter(job=job_row).count(), 0]
    assert Run.objects.filter(job=job_row).values("planned_at").distinct().count() == made[0]


def test_the_first_registration_fills_nothing_in_and_a_backfill_does_it_once() -> None:
    """J-05: explicit, with a preview, behind what is current, and doing it twice does it once."""
    now = database_now()
    syncing.sync(now)
    row = Job.objects.get(name="test.crontab")
    assert not row.runs.exists()
    span = (now - timedelta(hours=5), now)
    moments = queueing.backfill_moments(row, "", *span)

    made = queueing.backfill(row, "", *span, by="anna")

    assert len(made) == len(moments) == 5
    assert queueing.backfill(row, "", *span, by="anna") == []
    assert set(row.runs.values_list("trigger", "priority")) == {("backfill", queueing.BACKFILL_PRIORITY)}
    with pytest.raises(NotQueued, match="shorter span"):
        queueing.backfill_moments(row, "", now - timedelta(days=100), now)
    with pytest.raises(NotQueued, match="does not fire by itself"):
        queueing.backfill_moments(queueing.job_row("test.note"), "", *span)


def test_a_retry_whose_pause_outlasts_the_cadence_is_never_lost() -> None:
    """J-06, J-21: it is found by its own index, whatever the cursor does."""
    run = enqueue("test.note", NOTE)
    worker = HandWorker("test.note")
    worker.finish(*worker.claim(), outcome=ERROR)
    Run.objects.filter(pk=run.pk).update(run_at=later(86400))
    assert worker.claim() == []

    [again] = worker.claim(now=later(86401))

    assert (again.id, again.attempt) == (run.pk, 2)


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


def test_the_token_guards_heartbeat_and_end() -> None:
    """J-08, J-16: 0 rows is a lost lease, and the result is ignored; state and result are one statement."""
    enqueue("test.note", NOTE)
    first, second = HandWorker("test.note"), HandWorker("test.note")
    [stale] = first.claim()
    assert first.beat(stale).lost == frozenset()
    Run.objects.update(leased_until_at=later(-1))
    sweeping.rescue_stale(database_now())
    [fresh] = second.claim(now=later(5))
    assert fresh.token != stale.token

    assert first.beat(stale).lost == {stale.token}
    assert first.finish(stale, Success({"by": "the dead"})) is False
    assert second.finish(fresh, Success({"by": "the living"})) is True

    run = Run.objects.get()
    assert (run.state, run.result, run.attempt) == (State.SUCCEEDED, {"by": "the living"}, 2)


@pytest.mark.parametrize(
    ("name", "state"), [("test.note", State.RETRY), ("test.once", State.FAILED)], ids=["re-entrant", "not re-entrant"]
)
def test_after_a_stale_lease_only_what_may_be_entered_again_is(name: str, state: str) -> None:
    """J-07: "not re-entrant" really means never run again after a stale lease, whatever its attempts."""
    run = enqueue(name, NOTE)
    Run.objects.update(attempts_allowed=9)
    worker = HandWorker(name)
    worker.claim()
    Run.objects.update(leased_until_at=later(-1))

    assert sweeping.rescue_stale(database_now()) == 1

    run.refresh_from_db()
    assert (run.state, run.error_code) == (state, Fault.STALE_TIMEOUT)
    assert len(worker.claim(now=later(60))) == (state == State.RETRY)


def test_failures_back_off_and_are_spent_with_every_error_kept() -> None:
    """J-10, J-11, J-13: a list of pauses by attempt, at most so many attempts, each error with attempt and time."""
    run = enqueue("test.heavy", NOTE)
    worker = HandWorker("test.heavy")
    worker.finish(*worker.claim(), outcome=ERROR)
    run.refresh_from_db()
    assert run.state == State.RETRY
    assert timedelta(0) < run.run_at - database_now() <= timedelta(seconds=0.2)
    worker.finish(*worker.claim(now=later(1)), outcome=ERROR)

    run.refresh_from_db()
    assert (run.state, run.attempts_left) == (State.FAILED, 0)
    assert [(error["attempt"], error["code"]) for error in run.errors] == [(1, "handler_error"), (2, "handler_error")]
    assert all(error["at"] and "tape" in error["text"] for error in run.errors)
    assert queueing.retry(run, by="anna")
    [again] = worker.claim()
    assert (again.attempt, again.attempts_left) == (3, 1)


def test_what_has_no_readable_lease_is_stale_and_one_bad_row_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """J-12, J-13: null or over the hard limit = expired; each row in its own savepoint, ordered by expiry."""
    enqueue_many("test.note", [Order(payload=NOTE) for _ in range(4)])
    HandWorker("test.note").claim(4)
    good, no_lease, no_token, over = Run.objects.order_by("pk")
    Run.objects.filter(pk=no_lease.pk).update(leased_until_at=None)
    Run.objects.filter(pk=no_token.pk).update(token=None)
    Run.objects.filter(pk=over.pk).update(deadline_at=later(-1))
    real = sweeping.write_verdict

    def explode(pk: int, *args: Any, **kwargs: Any) -> str | None:
        if pk == no_lease.pk:
            Run.objects.raw("SELECT broken")[0]
        return real(pk, *args, **kwargs)

    monkeypatch.setattr(sweeping, "write_verdict", explode)
    assert sweeping.rescue_stale(database_now()) == 2
    monkeypatch.setattr(sweeping, "write_verdict", real)
    assert sweeping.rescue_stale(database_now()) == 1
    good.refresh_from_db()
    assert good.state == State.RUNNING


def test_an_unreadable_payload_is_failed_at_once_and_blocks_nobody() -> None:
    """J-15: never stranded, never in the way."""
    bad = enqueue("test.note", NOTE)
    enqueue("test.note", NOTE)
    Run.objects.filter(pk=bad.pk).update(payload={"path": 7})
    worker = HandWorker("test.note")

    for run in worker.claim(2):
        worker.finish(run, worker.execute(run))

    bad.refresh_from_db()
    assert (bad.state, bad.error_code, bad.attempt) == (State.FAILED, Fault.BAD_PAYLOAD, 1)
    assert "Note.path must be str" in bad.error
    assert Run.objects.filter(state=State.SUCCEEDED).count() == 1


def test_poison_goes_no_further_after_three_dead_workers_in_a_row() -> None:
    """J-15, J-17: told apart from a failure of the work, counted, and ended."""
    run = enqueue("test.killer", NOTE)
    for _ in range(3):
        worker = HandWorker("test.killer")
        assert len(worker.claim(now=later(60))) == 1
        JobWorker.objects.filter(pk=worker.row.pk).update(pid=2**22 + 1)
        assert sweeping.bury(database_now()) == 1

    run.refresh_from_db()
    assert (run.state, run.error_code, run.attempt) == (State.FAILED, Fault.POISON, 3)
    assert [error["code"] for error in run.errors] == ["worker_crashed", "worker_crashed", "poison"]
    assert Alert.objects.filter(key__startswith="job_worker:").exists()
    assert JobWorker.objects.filter(ending="crashed").count() == 3


def test_limits_hold_across_the_fleet_and_scopes_do_not_overlap() -> None:
    """J-18: so many of a job at once; of an exclusive job one per scope; a full job blocks no other."""
    enqueue_many("test.two_at_once", [Order(payload=NOTE) for _ in range(5)])
    enqueue("test.note", NOTE)
    a, b = HandWorker("test.two_at_once", "test.note"), HandWorker("test.two_at_once", "test.note")
    claimed = [*a.claim(9), *b.claim(9)]
    assert sorted(registry_name(run.job_id) for run in claimed) == ["test.note", *["test.two_at_once"] * 2]
    a.finish(next(run for run in claimed if registry_name(run.job_id) == "test.two_at_once"))
    assert len(b.claim(9)) == 1

    row, now = queueing.job_row("test.often"), database_now()
    orders = [Order(scope=scope, planned_at=now - timedelta(seconds=n), run_at=now) for scope in "ab" for n in (1, 2)]
    queueing.insert(row.name, orders, trigger="plan")
    c = HandWorker("test.often")
    first = c.claim(9)
    assert sorted(run.scope for run in first) == ["a", "b"]
    assert c.claim(9) == []
    c.finish(first[0])
    assert [run.scope for run in c.claim(9)] == [first[0].scope]


def registry_name(job_id: int) -> str:
    return Job.objects.get(pk=job_id).name


def test_by_hand_is_allowed_while_paused_refused_while_running_and_leaves_the_pointer() -> None:
    """J-19: its own trigger kind; unknown is an error."""
    syncing.sync(database_now())
    row = Job.objects.get(name="test.crontab")
    before = row.cursors.get().next_at
    syncing.pause(row, now=database_now(), by="anna")
    with pytest.raises(UnknownJob):
        queueing.run_by_hand("test.nonesuch", by="anna")

    run = queueing.run_by_hand("test.crontab", by="anna")

    assert (run.trigger, run.requested_by, run.planned_at) == ("manual", "anna", None)
    with pytest.raises(AlreadyRunning, match="queued already"):
        queueing.run_by_hand("test.crontab", by="anna")
    worker = HandWorker("test.crontab")
    [claimed] = worker.claim()
    with pytest.raises(AlreadyRunning, match="running already"):
        queueing.run_by_hand("test.crontab", by="anna")
    worker.finish(claimed)
    assert row.cursors.get().next_at == before


def test_the_pointer_advances_whatever_happens_and_a_pause_keeps_the_place() -> None:
    """J-20: also after a failure; what was planned and not begun is planned again after the pause."""
    now = database_now()
    syncing.sync(now)
    row = Job.objects.get(name="test.crontab")
    JobCursor.objects.exclude(job=row).update(is_active=False)
    row.cursors.update(next_at=now - timedelta(seconds=1))
    planning.plan(row, now - timedelta(seconds=1), now, now + timedelta(hours=2))
    planned = sorted(row.runs.values_list("planned_at", flat=True))
    assert row.cursors.get().next_at > planned[-1]
    worker = HandWorker("test.crontab")
    worker.finish(*worker.claim(now=later(7200)), outcome=ERROR)
    begun = row.runs.get(state=State.FAILED).planned_at

    taken = syncing.pause(row, now=now, by="anna")

    assert taken == len(planned) - 1
    assert list(row.runs.values_list("planned_at", flat=True)) == [begun]
    assert row.cursors.get().next_at == min(set(planned) - {begun})
    assert planning.plan(row, row.cursors.get().next_at, now, now + timedelta(hours=2)) == 0
    syncing.resume(row, now=now, by="anna")
    planning.plan(Job.objects.get(pk=row.pk), row.cursors.get().next_at, now, now + timedelta(hours=2))
    assert sorted(row.runs.values_list("planned_at", flat=True)) == planned


def test_old_runs_go_in_batches_and_by_how_they_ended() -> None:
    """J-22: completed 24 h, failed 72 h for minor jobs; the audit of the others 14 days."""
    from scheduling.jobs import housekeeping
    from scheduling.jobs.declaring import MINOR, Keep

    row = queueing.job_row("test.noop")
    enqueue_many("test.noop", [Order() for _ in range(6)])
    worker = HandWorker("test.noop")
    runs = worker.claim(6)
    for number, run in enumerate(runs):
        worker.finish(run, None if number < 3 else ERROR)
    Run.objects.update(finished_at=F("finished_at") - timedelta(hours=25))
    old_batch, housekeeping.BATCH = housekeeping.BATCH, 2
    try:
        assert delete_finished(row, Keep()) == 0
        assert delete_finished(row, MINOR) == 3
        Run.objects.update(finished_at=F("finished_at") - timedelta(hours=48))
        assert delete_finished(row, MINOR) == 3
    finally:
        housekeeping.BATCH = old_batch
    assert RunEvent.objects.count() == 0


def test_cancelled_with_the_reason_when_the_owner_goes() -> None:
    """J-25: queued ones never run, running ones are told at their next heartbeat."""
    waiting = enqueue("test.note", NOTE, owner="asset:7", run_at=later(3600))
    other = enqueue("test.note", NOTE, owner="asset:8", run_at=later(3600))
    running = enqueue("test.note", NOTE, owner="asset:7")
    worker = HandWorker("test.note")
    [claimed] = worker.claim()

    assert queueing.cancel_of("asset:7", by="anna", reason="the asset is gone") == 2

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
    """J-14: FIFO within priority, fair between scopes, one key queued once."""
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


def test_what_is_wrong_is_refused_and_nothing_is_stored() -> None:
    """S-07 for the queue: unknown job, payload that does not fit."""
    with pytest.raises(UnknownJob):
        enqueue("test.nonesuch")
    with pytest.raises(BadPayload):
        enqueue("test.note", {"path": 3})
    with pytest.raises(BadPayload):
        enqueue("test.noop", {"surplus": 1})
    assert Run.objects.count() == 0


def test_a_later_plan_takes_the_place_of_one_that_nobody_began() -> None:
    """J-05, J-18: of a latest-only job never more than one waits per scope."""
    row, now = queueing.job_row("test.often"), database_now()
    orders = [Order(planned_at=now - timedelta(seconds=n), run_at=now - timedelta(seconds=n)) for n in (3, 2, 1)]
    for order in orders:
        queueing.insert(row.name, [order], trigger="plan", now=now - timedelta(seconds=10))
    claiming.promote(now, now, [row.pk])
    states = list(row.runs.order_by("planned_at").values_list("state", flat=True))
    assert states == [State.CANCELLED, State.CANCELLED, State.QUEUED]


def test_nobody_works_and_somebody_is_told() -> None:
    """The work that silently does not happen is the worst: an alert, and its end when a worker comes."""
    enqueue("test.noop")
    Run.objects.update(run_at=later(-120))
    sweeping.step(database_now())
    assert Alert.objects.get(key=sweeping.NO_WORKER).state == "open"
    HandWorker("test.noop")
    sweeping.step(database_now())
    assert Alert.objects.get(key=sweeping.NO_WORKER).state == "resolved"


def test_a_retry_is_never_superseded_and_a_cancel_is_never_forgotten() -> None:
    """J-06, J-25: what was tried before is history; what is to be cancelled is not tried again, however it ended."""
    row, now = queueing.job_row("test.often"), database_now()
    first, second = (Order(planned_at=now - timedelta(seconds=n), run_at=now - timedelta(seconds=n)) for n in (9, 1))
    [old] = queueing.insert(row.name, [first], trigger="plan")
    Run.objects.filter(pk=old).update(attempt=1, state=State.RETRY)
    queueing.insert(row.name, [second], trigger="plan", now=now - timedelta(seconds=20))
    claiming.promote(now, now, [row.pk])
    assert set(row.runs.values_list("state", flat=True)) == {State.QUEUED}
    assert syncing.pause(row, now=now, by="anna") == 1
    assert row.runs.get().pk == old

    run = enqueue("test.note", NOTE)
    worker = HandWorker("test.note")
    [claimed] = worker.claim()
    run.refresh_from_db()
    assert cancel(run, by="anna", reason="no longer needed")
    worker.finish(claimed, ERROR)
    run.refresh_from_db()
    assert (run.state, run.cancel_reason) == (State.CANCELLED, "no longer needed")


def test_a_stopped_worker_costs_no_attempt_and_a_key_that_is_taken_no_error() -> None:
    """J-11, J-14: a deploy fails nothing; a retry beside a successor under the same key is refused, not an error."""
    run = enqueue("test.noop", key="k")
    worker = HandWorker("test.noop")
    [claimed] = worker.claim()
    worker.finish(claimed, Failure(Fault.WORKER_STOPPED, "deploy"))
    run.refresh_from_db()
    assert (run.state, run.attempts_left) == (State.RETRY, 1)
    assert cancel(run, by="anna")
    enqueue("test.noop", key="k")
    assert queueing.retry(run, by="anna") is False


@pytest.mark.django_db(transaction=True)
def test_a_row_somebody_holds_is_neither_renewed_nor_lost_nor_waited_for() -> None:
    """J-09: a handler's open transaction stops neither the heartbeat of the others nor the leader."""
    from django.db import transaction

    enqueue_many("test.note", [Order(payload=NOTE) for _ in range(2)])
    worker = HandWorker("test.note")
    held, free = worker.claim(2)
    before = dict(Run.objects.values_list("pk", "heartbeat_at"))
    answers: list[Any] = []

    def beat_and_rescue() -> None:
        try:
            answers.append(worker.beat(held, free))
            answers.append(dict(Run.objects.values_list("pk", "heartbeat_at")))
            answers.append(sweeping.rescue_stale(later(3600)))
        finally:
            connections.close_all()

    with transaction.atomic():
        Run.objects.select_for_update().get(pk=held.id)
        thread = threading.Thread(target=beat_and_rescue)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()

    beat, after, rescued = answers
    assert (beat.lost, rescued) == (frozenset(), 1)
    assert after[held.id] == before[held.id]
    assert after[free.id] > before[free.id]
    assert Run.objects.get(pk=held.id).state == State.RUNNING
