"""JOB_FLEET_LIMIT: the number of runs at a time over all jobs and job workers; 0 is no limit (J-18)."""

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.models import JobWorker, Run
from jobs.runs.queue import Order, enqueue_many
from testing.fleet import HandWorker
from testing.processes import start_manage
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

State = Run.State
NOTE = {"path": "/dev/null"}
NAMES = ("test.noop", "test.note", "test.two_at_once")


def test_the_limit_counts_every_job_of_every_job_worker(settings: Any) -> None:
    """J-18: runs of jobs with and without their own limit count; a freed place is used again."""
    settings.JOB_FLEET_LIMIT = 3
    enqueue_many("test.noop", [Order() for _ in range(4)])
    enqueue_many("test.two_at_once", [Order(payload=NOTE) for _ in range(4)])
    a, b = HandWorker(*NAMES), HandWorker(*NAMES)

    claimed = a.claim(2)

    assert len(claimed) == 2
    claimed += b.claim(9)
    assert len(claimed) == 3, "one place was left, though b has room for nine"
    assert b.claim(9) == a.claim(9) == []
    a.finish(claimed[0])
    assert len(b.claim(9)) == 1
    settings.JOB_FLEET_LIMIT = 0
    assert len(b.claim(9)) == 2, "a job's own limit still holds"
    assert Run.objects.filter(state=State.RUNNING, job__name="test.two_at_once").count() == 2


def test_many_claimers_at_once_never_pass_the_limit(settings: Any) -> None:
    """J-18: each counts running runs while no other can claim; every run is still executed."""
    settings.JOB_FLEET_LIMIT = 3
    count = len(enqueue_many("test.noop", [Order() for _ in range(60)]))
    count += len(enqueue_many("test.two_at_once", [Order(payload=NOTE) for _ in range(30)]))
    seen: list[int] = []
    done: list[int] = []
    began = time.monotonic()

    def work() -> None:
        worker = HandWorker(*NAMES)
        try:
            while len(done) < count and time.monotonic() - began < 120:
                mine = worker.claim(4)
                seen.append(Run.objects.filter(state=State.RUNNING).count())
                for run in mine:
                    worker.finish(run)
                    done.append(run.id)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(done) == len(set(done)) == count
    assert max(seen) == 3


def test_without_a_limit_a_claim_makes_no_extra_query(settings: Any) -> None:
    """J-18: the fast path has one query for candidates and one statement that claims them."""
    enqueue_many("test.noop", [Order() for _ in range(4)])
    worker = HandWorker("test.noop")

    def statements() -> list[str]:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert len(worker.claim()) == 1
        return [query["sql"] for query in captured if "pg_advisory" in query["sql"] or "COUNT(" in query["sql"]]

    assert statements() == []
    settings.JOB_FLEET_LIMIT = 10
    assert len(statements()) == 2


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Any]:
    """fleet(3, JOB_FLEET_LIMIT="2") starts three real job workers."""
    running: list[Any] = []

    def start(count: int, **extra: str) -> list[Any]:
        for number in range(count):
            log = tmp_path / f"worker-{number}.log"
            environment = {"JOB_MODULES": "testing.jobs", "JOB_WORKER_STOP_SECONDS": "6", **extra}
            running.append(start_manage("runworker", log=log, **environment))
        wait_until(lambda: JobWorker.objects.filter(ended_at=None).count() == count, 60, "all job workers are up")
        return running

    yield start
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in running:
        process.wait(60)


@pytest.mark.crash
def test_real_job_workers_keep_the_limit_and_wake_each_other(fleet: Any, tmp_path: Path) -> None:
    """J-18: the handlers' notes show never more than two at a time; an end in one process starts a run in another."""
    notes = tmp_path / "notes.txt"
    # The regular poll would hide a missing wake-up, so it is switched off for this test.
    fleet(3, JOB_FLEET_LIMIT="2", JOB_WORKER_TICK_SECONDS="3600")

    enqueue_many("test.note", [Order(payload={"path": str(notes), "seconds": 0.3}) for _ in range(14)])

    wait_until(lambda: Run.objects.filter(state=State.SUCCEEDED).count() == 14, 60, "all are done")
    lines = [line.split() for line in notes.read_text().splitlines()]
    moments = sorted((float(line[4]), 1 if line[0] == "begin" else -1) for line in lines)
    at_once = list(itertools.accumulate(step for _, step in moments))
    assert len(moments) == 28
    assert max(at_once) == 2
