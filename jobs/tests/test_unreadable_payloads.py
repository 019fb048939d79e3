"""A payload that a job worker cannot read waits for newer code; it fails only if nobody can read it."""

from dataclasses import dataclass

import pytest

import testing.jobs
from jobs.definitions.payloads import load, reader
from jobs.models import JobWorker, Run
from jobs.runs import queue, untaken
from jobs.runs.queue import enqueue
from station.clock import database_now
from station.models import Alert
from testing.fleet import HandWorker, later

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State, Fault = Run.State, Run.Fault


def test_a_payload_that_cannot_be_read_is_left_to_a_job_worker_that_reads_it_differently() -> None:
    """J-15: it costs no attempt; job workers with the same code do not take it again."""
    run = enqueue("test.note", {"path": "/dev/null"})
    Run.objects.update(payload={"frames": 7})
    old, newer = HandWorker("test.note"), HandWorker("test.note")
    JobWorker.objects.filter(pk=newer.row.pk).update(declares={"test.note": "newer"})

    [claimed] = old.claim()
    old.finish(claimed, old.execute(claimed))

    run.refresh_from_db()
    assert (run.state, run.error_code, run.attempts_left) == (State.RETRY, Fault.BAD_PAYLOAD, run.attempts_allowed)
    assert run.unreadable_by == reader(testing.jobs.Note)
    assert old.claim(now=later(3600)) == []
    assert Run.objects.filter(pk=run.pk, state=State.QUEUED).exists()

    JobWorker.objects.filter(pk=newer.row.pk).update(ended_at=database_now())
    untaken.tell_of_untaken_runs(later(70))
    [alert] = Alert.objects.filter(key__startswith=untaken.UNTAKEN, state="open")
    assert alert.key == "job_untaken:test.note", "the one that could read it is gone"
    run.refresh_from_db()
    assert queue.cancel(run, by="anna")
    assert queue.retry(run, by="anna")
    assert len(old.claim()) == 1, "a person may let the old code try again"


def test_a_run_that_waits_for_an_upgrade_is_left_to_the_newer_job_worker_as_soon_as_it_is_there() -> None:
    """J-15: otherwise the old one may claim it first each time, with ever longer pauses."""
    run = enqueue("test.note", {"path": "/dev/null"})
    Run.objects.update(payload={"frames": 7})
    old = HandWorker("test.note")
    [first] = old.claim()
    old.finish(first, old.execute(first))
    newer = HandWorker("test.note")
    JobWorker.objects.filter(pk=newer.row.pk).update(declares={"test.note": "newer"})

    [second] = old.claim(now=later(60))
    old.finish(second, old.execute(second))

    run.refresh_from_db()
    assert run.unreadable_by == reader(testing.jobs.Note)
    assert run.run_at <= database_now(), "at once"

    Run.objects.filter(pk=run.pk).update(errors=[*run.errors, {**run.errors[-1], "reader": "newer"}], unreadable_by="")
    [third] = old.claim(now=later(60))
    old.finish(third, old.execute(third))
    run.refresh_from_db()
    assert run.unreadable_by == "", "the newer one could not read it either: it is not passed on again"
    assert run.run_at > database_now()


def test_a_payload_that_nobody_can_read_fails_after_a_quarter_of_an_hour() -> None:
    """J-15: until then it waits for an upgrade of the job workers, and blocks no other run."""
    bad = enqueue("test.note", {"path": "/dev/null"})
    enqueue("test.note", {"path": "/dev/null"})
    Run.objects.filter(pk=bad.pk).update(payload={"path": 7})
    worker = HandWorker("test.note")
    for run in worker.claim(2):
        worker.finish(run, worker.execute(run))
    bad.refresh_from_db()
    assert (bad.state, bad.error_code, bad.attempts_left) == (State.RETRY, Fault.BAD_PAYLOAD, bad.attempts_allowed)
    assert Run.objects.filter(state=State.SUCCEEDED).count() == 1

    [again] = worker.claim(now=later(60))
    long_ago = (later(-16 * 60)).isoformat()
    again.errors[0]["at"] = long_ago
    worker.finish(again, worker.execute(again))

    bad.refresh_from_db()
    assert (bad.state, bad.error_code) == (State.FAILED, Fault.BAD_PAYLOAD)
    assert "Note.path must be str" in bad.error


@dataclass(frozen=True)
class Inner:
    name: str


@dataclass(frozen=True)
class Outer:
    inner: Inner
    all: list[Inner]


def test_fields_of_newer_code_are_ignored() -> None:
    """J-15: also inside of lists and of other dataclasses. They are refused when somebody queues them by hand."""
    stored = {"inner": {"name": "a", "new": 1}, "all": [{"name": "b", "new": 2}], "new": {}}
    assert load(stored, Outer) == Outer(Inner("a"), [Inner("b")])
