"""Old and new code side by side: no job is switched off, and no run is lost, because one process lacks the code."""

import tomllib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from jobs.definitions import registration
from jobs.definitions.job_decorator import every, job, registry
from jobs.models import Job, JobWorker, Run, Scheduler
from jobs.runs import declarations, planning, process_records, queue, untaken
from jobs.runs.queue import enqueue
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert
from station.version import VERSION
from testing.fleet import HandWorker, later

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State, Fault = Run.State, Run.Fault
GRACE = settings.JOB_RETIRE_AFTER
SECOND = timedelta(seconds=1)


@pytest.fixture
def elsewhere() -> Iterator[Any]:
    """elsewhere(name, …): declare a job, let a job worker tell of it, and forget it: only that process has its code."""
    names: list[str] = []

    def make(name: str, **options: Any) -> tuple[Job, JobWorker]:
        job(name, **options)(lambda run: None)
        names.append(name)
        row = registration.upsert(registry.jobs[name])
        worker = process_records.register(heavy=1, light=1, only=[], now=database_now())
        registry.remove(name)
        return row, worker

    yield make
    for name in names:
        registry.remove(name)


def open_alerts(prefix: str) -> list[str]:
    return list(Alert.objects.filter(key__startswith=prefix, state="open").values_list("key", flat=True))


def test_a_leader_keeps_and_plans_a_job_that_only_another_process_declares(elsewhere: Any) -> None:
    """J-27: the row holds everything the planner needs."""
    row, _ = elsewhere("test.elsewhere", when=every(1.0), attempts=4, is_reentrant=False)
    now, term = database_now(), Term()

    planning.step(term, now)
    planning.step(term, now + 2 * SECOND)

    row.refresh_from_db()
    runs = list(row.runs.all())
    assert row.is_declared
    assert runs
    assert {(run.attempts_allowed, run.is_reentrant, run.is_exclusive) for run in runs} == {(4, False, True)}


def test_a_restart_retires_nothing_and_a_job_that_nobody_declares_any_more_is_retired(elsewhere: Any) -> None:
    """J-27: its waiting runs are cancelled with the reason, its running ones are told to stop, its history stays."""
    row, worker = elsewhere("test.leaving", attempts=1)
    registry.add(_spec("test.leaving"))
    waiting, running = enqueue("test.leaving"), enqueue("test.leaving")
    Run.objects.filter(pk=waiting.pk).update(priority=-1)
    hand = HandWorker("test.leaving")
    [claimed] = hand.claim()
    registry.remove("test.leaving")
    process_records.sign_off(worker, 0, database_now())

    declarations.sync(later(GRACE.total_seconds() - 60))
    row.refresh_from_db()
    assert row.is_declared, "the process may be restarting"

    declarations.sync(later(GRACE.total_seconds() + 60))
    row.refresh_from_db()
    waiting.refresh_from_db()
    running.refresh_from_db()
    assert not row.is_declared
    assert (waiting.state, waiting.cancel_reason) == (State.CANCELLED, declarations.RETIRED)
    assert (running.state, running.cancel_reason) == (State.RUNNING, declarations.RETIRED)
    assert hand.beat(claimed).cancelled == {claimed.token: declarations.RETIRED}

    JobWorker.objects.filter(pk=worker.pk).update(heartbeat_at=later(GRACE.total_seconds()), ended_at=None)
    declarations.sync(later(GRACE.total_seconds() + 120))
    row.refresh_from_db()
    assert row.is_declared, "a process that declares it is back"


def _spec(name: str) -> Any:
    from jobs.definitions.job_decorator import JobSpec

    return JobSpec(name=name, handler=lambda run: None, stale_seconds=120, attempts=1)


def test_many_runs_of_a_retired_job_are_cancelled_in_batches(elsewhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """J-27: the leader comes back for the rest within a second."""
    monkeypatch.setattr(declarations, "BATCH", 3)
    row, worker = elsewhere("test.leaving", attempts=1)
    registry.add(_spec("test.leaving"))
    queue.enqueue_many("test.leaving", [queue.Order() for _ in range(7)])
    registry.remove("test.leaving")
    worker.delete()
    term, now = Term(), database_now()
    declarations.sync(now)
    assert not row.runs.filter(state=State.CANCELLED).exists(), "newer processes, which know the job, may come next"
    Run.objects.update(created_at=now - 2 * GRACE)

    again = planning.step(term, now)
    assert again is not None
    assert again <= now + SECOND
    assert row.runs.filter(state=State.CANCELLED).count() == 3
    planning.step(term, now)
    planning.step(term, now)

    assert set(row.runs.values_list("state", flat=True)) == {State.CANCELLED}


def test_every_taking_of_the_lead_syncs_and_so_does_every_minute(
    elsewhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-27."""
    syncs: list[Any] = []
    real = declarations.sync
    monkeypatch.setattr(declarations, "sync", lambda now, synced: (syncs.append(now), real(now, synced)))
    term, now = Term(), database_now()
    planning.step(term, now)
    again = planning.step(term, now)
    assert len(syncs) == 1
    assert again is not None
    assert again <= now + timedelta(seconds=60)

    planning.step(Term(), now)
    assert len(syncs) == 2, "another term"
    term.memory(declarations.Synced).at -= 61
    planning.step(term, now)
    assert len(syncs) == 3, "a minute later"
    assert Scheduler.objects.get().version == VERSION


def test_scopes_that_only_other_code_can_name_continue_and_raise_an_alert_if_that_lasts(elsewhere: Any) -> None:
    """J-27: the alert names who declares the job."""
    _, worker = elsewhere("test.scopes", when=every(60.0), scopes=lambda: ["a", "b"])
    row = Job.objects.get(name="test.scopes")
    for scope in ("a", "b"):
        row.cursors.create(scope=scope, next_at=database_now())
    synced, now = declarations.Synced(), database_now()

    declarations.sync(now, synced)
    assert not open_alerts(declarations.UNPLANNED), "an upgrade passes through this"
    synced.lacking = {name: since - 121 for name, since in synced.lacking.items()}
    declarations.sync(now, synced)

    assert open_alerts(declarations.UNPLANNED) == ["job_unplanned:test.scopes"]
    assert worker.name in Alert.objects.get(key="job_unplanned:test.scopes").text
    assert row.cursors.filter(is_active=True).count() == 2
    planning.step(Term(), later(60))
    assert set(row.runs.values_list("scope", flat=True)) == {"a", "b"}
    declarations.sync(later(GRACE.total_seconds() + 60), synced)
    assert not open_alerts(declarations.UNPLANNED)


def test_runs_that_no_live_job_worker_takes_raise_an_alert_that_resolves() -> None:
    """J-27: job workers run, but with other --jobs, or without the job in their code."""
    enqueue("test.noop")
    Run.objects.update(run_at=later(-120))
    other = process_records.register(heavy=1, light=1, only=["test.note"], now=database_now())
    untaken.tell_of_untaken_runs(database_now())
    assert open_alerts(untaken.UNTAKEN) == ["job_untaken:test.noop"]
    text = Alert.objects.get(key="job_untaken:test.noop").text
    assert "1 are waiting" in text
    assert f"{other.name} ({VERSION}, only test.note)" in text

    JobWorker.objects.filter(pk=other.pk).update(only_jobs=["test.note", "test.noop"])
    untaken.tell_of_untaken_runs(database_now())
    assert not open_alerts(untaken.UNTAKEN)

    JobWorker.objects.filter(pk=other.pk).update(only_jobs=[], declares={"test.note": ""})
    untaken.tell_of_untaken_runs(database_now())
    assert open_alerts(untaken.UNTAKEN) == ["job_untaken:test.noop"], "its code lacks the job"
    Run.objects.all().delete()
    untaken.tell_of_untaken_runs(database_now())
    assert not open_alerts(untaken.UNTAKEN)


def test_the_version_is_that_of_the_package_and_each_process_tells_it(admin_user: Any) -> None:
    """Shown on the pages of job workers and schedulers, and by `manage.py jobs`."""
    project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text())
    assert project["project"]["version"] == VERSION
    process_records.tell_scheduler(database_now())
    HandWorker("test.noop")
    client = Client()
    client.force_login(admin_user)
    for page in ("admin:jobs_jobworker_changelist", "admin:jobs_scheduler_changelist"):
        assert VERSION in client.get(reverse(page)).content.decode()


def test_a_scheduler_has_one_record_that_ends_with_it() -> None:
    """J-27: a heartbeat updates it; a row that somebody has locked is not waited for."""
    process_records.tell_scheduler(database_now())
    process_records.tell_scheduler(later(60))
    row = Scheduler.objects.get()
    assert row.declares.keys() == registry.jobs.keys()
    assert row.heartbeat_at > row.started_at
    process_records.sign_off_scheduler(later(61))
    assert Scheduler.objects.get().ended_at is not None
