"""The two rescues of a running run, and how a dead job worker differs from failed work (J-13, J-17)."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.models import JobWorker, Run
from jobs.runs import sweeping
from jobs.runs.finishing import Failure
from jobs.runs.queue import Order, enqueue, enqueue_many
from jobs.statistics import read_figures
from station.clock import database_now
from testing.fleet import HandWorker, later

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State, Fault = Run.State, Run.Fault
NOTE = {"path": "/dev/null"}
NO_SUCH_PROCESS = 2**22 + 1


def test_the_hard_limit_ends_a_run_that_still_sends_heartbeats() -> None:
    """J-13: deadline rescue: the lease is valid and the job worker is alive, but the run took too long."""
    run = enqueue("test.note", NOTE)
    worker = HandWorker("test.note")
    [claimed] = worker.claim()
    worker.beat(claimed)
    Run.objects.update(deadline_at=later(-1))
    assert Run.objects.get().leased_until_at > database_now()  # type: ignore[operator]

    assert sweeping.rescue_stale(database_now()) == 1

    run.refresh_from_db()
    assert (run.state, run.error_code) == (State.RETRY, Fault.STALE_TIMEOUT)
    assert worker.beat(claimed).lost == {claimed.token}, "its job worker learns of the loss"


def test_a_silent_job_worker_elsewhere_counts_as_dead_after_ninety_seconds() -> None:
    """J-13: heartbeat rescue; on another machine only the missing heartbeat shows it."""
    enqueue("test.note", NOTE)
    worker = HandWorker("test.note")
    worker.claim()
    elsewhere = {"place": "another machine", "pid": NO_SUCH_PROCESS}
    JobWorker.objects.update(heartbeat_at=later(-80), **elsewhere)
    assert sweeping.bury(database_now()) == 0

    JobWorker.objects.update(heartbeat_at=later(-91))
    Run.objects.update(leased_until_at=later(-1))
    assert sweeping.bury(database_now()) == 1
    assert sweeping.rescue_stale(database_now()) == 1

    assert JobWorker.objects.get().ending == JobWorker.Ending.CRASHED
    assert Run.objects.get().error_code == Fault.WORKER_CRASHED


def test_five_hundred_a_pass_the_longest_expired_first() -> None:
    """J-13: a pass is bounded, and the next one continues; each error stores attempt and time."""
    enqueue_many("test.note", [Order(payload=NOTE) for _ in range(510)])
    worker = HandWorker("test.note")
    while worker.claim(200):
        pass
    Run.objects.update(leased_until_at=later(-10))
    newest = list(Run.objects.order_by("-pk").values_list("pk", flat=True)[:10])
    Run.objects.filter(pk__in=newest).update(leased_until_at=later(-1))

    assert sweeping.rescue_stale(database_now()) == 500

    assert sorted(Run.objects.filter(state=State.RUNNING).values_list("pk", flat=True)) == sorted(newest)
    assert sweeping.rescue_stale(database_now()) == 10
    for error in (run.errors[-1] for run in Run.objects.all()[:20]):
        assert error["attempt"] == 1
        assert error["at"]
        assert error["code"] == Fault.STALE_TIMEOUT


@pytest.fixture
def both() -> dict[str, Run]:
    """One run whose work failed, one whose job worker died; neither has attempts left."""
    runs = {name: enqueue(name, NOTE) for name in ("test.note", "test.once")}
    Run.objects.update(attempts_allowed=1)
    worker = HandWorker("test.note", "test.once")
    claimed = {run.id: run for run in worker.claim(2)}
    worker.finish(claimed[runs["test.note"].pk], Failure(Fault.HANDLER_ERROR, "torn"))
    JobWorker.objects.update(pid=NO_SUCH_PROCESS)
    sweeping.bury(database_now())
    for run in runs.values():
        run.refresh_from_db()
    return runs


def test_a_dead_job_worker_is_counted_apart_from_failed_work(both: dict[str, Run]) -> None:
    """J-17: in the figures that the command, the pages and /metrics show."""
    failed, crashed = both["test.note"], both["test.once"]
    assert (failed.state, failed.error_code, failed.is_worker_fault) == (State.FAILED, Fault.HANDLER_ERROR, False)
    assert (crashed.state, crashed.error_code, crashed.is_worker_fault) == (State.FAILED, Fault.WORKER_CRASHED, True)
    figures = {job.name: (job.failed, job.worker_crashed) for job in read_figures().jobs}
    assert (figures["test.note"], figures["test.once"]) == ((1, 0), (0, 1))


def test_a_dead_job_worker_has_another_colour_than_failed_work(both: dict[str, Run], admin_user: Any) -> None:
    """J-17: amber instead of red, with its own label, in the badge and in the list of runs."""
    from jobs.badges import outcome_badge

    failed, crashed = (outcome_badge(run.state, run.error_code) for run in both.values())
    assert "badge-red" in failed or "red" in failed
    assert "amber" in crashed
    assert "the job worker died" in crashed
    client = Client()
    client.force_login(admin_user)
    listed = client.get(reverse("admin:jobs_run_changelist")).content.decode()
    assert failed in listed
    assert crashed in listed
