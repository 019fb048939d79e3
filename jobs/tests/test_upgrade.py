"""An upgrade with real processes: schedulers and job workers of an older and a newer release side by side."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job, JobWorker, Run, Scheduler
from jobs.runs.declarations import RETIRED
from testing.processes import manage, start_manage
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.crash]

State = Run.State
OLDER, NEWER = "testing.older_jobs", "testing.newer_jobs"


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Any]:
    """worker(modules) starts a real job worker with that code."""
    running: list[Any] = []

    def start(modules: str) -> Any:
        count = JobWorker.objects.count()
        log = tmp_path / f"worker-{len(running)}.log"
        running.append(start_manage("runworker", log=log, JOB_MODULES=modules))
        wait_until(lambda: JobWorker.objects.count() > count, 30, f"a job worker starts: {log}")
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.terminate()
            process.wait(30)


def stop(process: Any) -> None:
    process.terminate()
    assert process.wait(30) == 0


def test_an_older_leader_plans_what_only_newer_processes_declare_until_none_is_left(
    worker: Any, scheduler: Any
) -> None:
    """J-27: the job is neither switched off by the leader that lacks it, nor by the restart of who declares it."""
    newer = worker(NEWER)
    wait_until(lambda: Job.objects.filter(name="test.added").exists(), 20, "it is in the table")
    older = scheduler(JOB_MODULES=OLDER)
    row = Job.objects.get(name="test.added")
    wait_until(lambda: row.runs.filter(state=State.SUCCEEDED).count() >= 3, 30, "the older leader plans it")
    assert "test.added" not in Scheduler.objects.get().declares

    stop(newer)
    older.kill()
    older.wait()
    older = scheduler(JOB_MODULES=OLDER)
    wait_until(lambda: Scheduler.objects.count() == 2, 30, "another older scheduler starts")
    count = row.runs.count()
    wait_until(lambda: row.runs.count() > count, 40, "it leads, and plans on while nobody declares the job")
    assert Job.objects.get(pk=row.pk).is_declared

    stop(older)
    scheduler(JOB_MODULES=OLDER, JOB_RETIRE_AFTER_MINUTES="0.01")
    wait_until(lambda: not Job.objects.get(pk=row.pk).is_declared, 40, "it is retired when the time is up")
    wait_until(lambda: not Run.objects.live().filter(job=row).exists(), 20, "its runs are cancelled")
    assert row.runs.filter(cancel_reason=RETIRED).exists()


def test_an_older_job_worker_leaves_a_run_that_it_cannot_read_to_a_newer_one(worker: Any) -> None:
    """J-15: the web was upgraded first. The run waits, and costs no attempt."""
    worker(OLDER)
    payload = json.dumps({"path": "/dev/null", "frames": 7})
    result = manage("run_job", "test.changed", "--payload", payload, JOB_MODULES=NEWER)
    assert result.returncode == 0, result.stderr
    run = Run.objects.get()
    wait_until(lambda: Run.objects.get(pk=run.pk).errors, 20, "the older one tried it")

    worker(NEWER)

    wait_until(lambda: Run.objects.get(pk=run.pk).state == State.SUCCEEDED, 40, "the newer one does it")
    run.refresh_from_db()
    assert run.result == "newer code"
    assert {error["code"] for error in run.errors} == {Run.Fault.BAD_PAYLOAD}
