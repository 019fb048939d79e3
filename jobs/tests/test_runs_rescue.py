"""Failures of runs: stale leases, errors, poison, dead job workers. No run is lost or wrongly repeated."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.definitions import registration
from jobs.job_worker.handler_call import Success
from jobs.models import JobWorker, Run
from jobs.runs import promotion, queue, sweeping, untaken
from jobs.runs.finishing import Failure
from jobs.runs.queue import Order, cancel, enqueue, enqueue_many
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert
from testing.fleet import HandWorker, later

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State, Fault = Run.State, Run.Fault
NOTE = {"path": "/dev/null"}
ERROR = Failure(Fault.HANDLER_ERROR, "the tape is torn")


def test_a_retry_with_a_backoff_longer_than_the_interval_is_not_lost() -> None:
    """J-06, J-21: it is found by its index, independent of the cursor."""
    run = enqueue("test.note", NOTE)
    worker = HandWorker("test.note")
    worker.finish(*worker.claim(), outcome=ERROR)
    Run.objects.filter(pk=run.pk).update(run_at=later(86400))
    assert worker.claim() == []

    [again] = worker.claim(now=later(86401))

    assert (again.id, again.attempt) == (run.pk, 2)


def test_the_token_guards_heartbeat_and_end() -> None:
    """J-08, J-16: 0 updated rows mean a lost lease: the result is ignored. One statement writes state and result."""
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
def test_after_a_stale_lease_only_a_reentrant_run_is_repeated(name: str, state: str) -> None:
    """J-07: a run that is not reentrant is never repeated after a stale lease, however many attempts it has."""
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
    """J-10, J-11, J-13: a backoff per attempt, a limit of attempts, each error with attempt and time."""
    run = enqueue("test.heavy", NOTE)
    worker = HandWorker("test.heavy")
    before = database_now()
    worker.finish(*worker.claim(), outcome=ERROR)
    after = database_now()
    run.refresh_from_db()
    assert run.state == State.RETRY
    assert before < run.run_at - timedelta(seconds=0.2) < after
    worker.finish(*worker.claim(now=later(1)), outcome=ERROR)

    run.refresh_from_db()
    assert (run.state, run.attempts_left) == (State.FAILED, 0)
    assert [(error["attempt"], error["code"]) for error in run.errors] == [(1, "handler_error"), (2, "handler_error")]
    assert all(error["at"] and "tape" in error["text"] for error in run.errors)
    assert queue.retry(run, by="anna")
    [again] = worker.claim()
    assert (again.attempt, again.attempts_left) == (3, 1)


def test_a_run_without_a_readable_lease_is_stale_and_one_bad_row_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """J-12, J-13: null or over the hard limit means expired; each row in its own savepoint, ordered by expiry."""
    enqueue_many("test.note", [Order(payload=NOTE) for _ in range(4)])
    HandWorker("test.note").claim(4)
    good, no_lease, no_token, over = Run.objects.order_by("pk")
    Run.objects.filter(pk=good.pk).update(leased_until_at=later(3600))
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


def test_a_poison_run_fails_after_three_dead_job_workers_in_a_row() -> None:
    """J-15, J-17: it is counted separately from failures of the work."""
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


def test_an_alert_is_raised_when_runs_wait_and_no_job_worker_is_running() -> None:
    """The alert is resolved when a job worker starts."""
    enqueue("test.noop")
    Run.objects.update(run_at=later(-120))
    sweeping.step(Term(), database_now())
    assert Alert.objects.get(key=untaken.NO_WORKER).state == "open"
    HandWorker("test.noop")
    sweeping.step(Term(), database_now())
    assert Alert.objects.get(key=untaken.NO_WORKER).state == "resolved"


def test_a_retry_is_never_superseded_and_a_cancel_is_never_forgotten() -> None:
    """J-06, J-25: an attempted run is history and stays; a run with a request to cancel is not retried."""
    row, now = queue.job_row("test.often"), database_now()
    first, second = (Order(planned_at=now - timedelta(seconds=n), run_at=now - timedelta(seconds=n)) for n in (9, 1))
    [old] = queue.insert(row.name, [first], trigger="plan")
    Run.objects.filter(pk=old).update(attempt=1, state=State.RETRY)
    queue.insert(row.name, [second], trigger="plan", now=now - timedelta(seconds=20))
    promotion.promote(now, now, [row.pk])
    assert set(row.runs.values_list("state", flat=True)) == {State.QUEUED}
    assert registration.pause(row, now=now, by="anna") == 1
    assert row.runs.get().pk == old

    run = enqueue("test.note", NOTE)
    worker = HandWorker("test.note")
    [claimed] = worker.claim()
    run.refresh_from_db()
    assert cancel(run, by="anna", reason="no longer needed")
    worker.finish(claimed, ERROR)
    run.refresh_from_db()
    assert (run.state, run.cancel_reason) == (State.CANCELLED, "no longer needed")


def test_a_stopped_job_worker_costs_no_attempt_and_a_key_in_use_refuses_a_retry() -> None:
    """J-11, J-14: a deploy fails no run; a retry beside a live run with the same key is refused without an error."""
    run = enqueue("test.noop", key="k")
    worker = HandWorker("test.noop")
    [claimed] = worker.claim()
    worker.finish(claimed, Failure(Fault.WORKER_STOPPED, "deploy"))
    run.refresh_from_db()
    assert (run.state, run.attempts_left) == (State.RETRY, 1)
    assert cancel(run, by="anna")
    enqueue("test.noop", key="k")
    assert queue.retry(run, by="anna") is False


@pytest.mark.django_db(transaction=True)
def test_a_locked_row_is_neither_renewed_nor_lost_nor_waited_for() -> None:
    """J-09: a handler's open transaction blocks neither the other heartbeats nor the leader."""
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
