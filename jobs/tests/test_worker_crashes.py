"""A job worker dies by kill -9: its runs go on within seconds, with all their attempts (J-28)."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.models import JobWorker, Run
from jobs.runs.queue import enqueue
from testing.processes import start_manage
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.crash, pytest.mark.alone]

LONG = 30.0


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Any]:
    """worker() starts a real job worker and returns its process and its record."""
    running: list[Any] = []

    def start() -> tuple[Any, JobWorker]:
        before = set(JobWorker.objects.values_list("pk", flat=True))
        log = tmp_path / f"worker-{len(running)}.log"
        running.append(start_manage("runworker", log=log, JOB_MODULES="testing.jobs", LOG_LEVEL="INFO"))
        row = wait_until(lambda: JobWorker.objects.exclude(pk__in=before).first(), 30, f"a job worker starts: {log}")
        wait_until(lambda: "The job worker starts" in log.read_text(), 30, "it is ready")
        return running[-1], row

    yield start
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait(30)


def begin(name: str, notes: Path) -> Run:
    """Queue a long run and wait until it has begun."""
    run = enqueue(name, {"path": str(notes), "seconds": LONG})
    wait_until(lambda: notes.exists() and f" {run.pk} " in notes.read_text(), 20, "it has begun")
    return run


def kill_and_measure(process: Any, notes: Path, run: Run, seconds: float) -> float:
    """Kill the job worker; the seconds until another one begins the run again."""
    count = notes.read_text().count(f"begin {run.pk} ")
    process.kill()
    killed = time.monotonic()
    process.wait()
    wait_until(
        lambda: notes.read_text().count(f"begin {run.pk} ") > count, seconds, "it goes on", pause=0.01, claim=True
    )
    return time.monotonic() - killed


def assert_free(run: Run) -> None:
    """The crash is on record and cost no attempt."""
    run.refresh_from_db()
    assert (run.state, run.attempt, run.attempts_left) == (Run.State.RUNNING, 2, run.attempts_allowed - 1)
    assert [error["code"] for error in run.errors] == [Run.Fault.WORKER_CRASHED]


@pytest.mark.parametrize("name", ["test.patient", "test.heavy"], ids=["in a thread", "in a process"])
def test_on_the_same_machine_another_job_worker_goes_on_within_two_seconds(
    name: str, worker: Any, tmp_path: Path
) -> None:
    """J-28: the kernel tells the other job worker of the death. No scheduler is needed."""
    notes = tmp_path / "notes.txt"
    first, _ = worker()
    run = begin(name, notes)
    worker()

    assert kill_and_measure(first, notes, run, 2.0) < 2.0

    assert_free(run)


def test_a_restarted_job_worker_goes_on_with_the_runs_of_its_dead_predecessor(worker: Any, tmp_path: Path) -> None:
    """J-28: the only job worker of a machine dies; its supervisor starts it again."""
    notes = tmp_path / "notes.txt"
    first, _ = worker()
    run = begin("test.patient", notes)
    first.kill()
    first.wait()
    worker()

    wait_until(lambda: notes.read_text().count("begin") == 2, 2.0, "it goes on as soon as it is up", claim=True)

    assert_free(run)


def test_on_another_machine_another_job_worker_goes_on_within_ten_seconds(
    worker: Any, scheduler: Any, tmp_path: Path
) -> None:
    """J-28: only the lease proves it there. The record of another machine stands for that machine."""
    notes = tmp_path / "notes.txt"
    scheduler(JOB_MODULES="testing.jobs")
    first, row = worker()
    JobWorker.objects.filter(pk=row.pk).update(place="another machine")
    run = begin("test.patient", notes)
    worker()
    claimed = Run.objects.get(pk=run.pk).heartbeat_at
    wait_until(lambda: Run.objects.get(pk=run.pk).heartbeat_at != claimed, 20, "its lease is renewed")

    assert kill_and_measure(first, notes, run, 10.0) < 10.0

    assert_free(run)
