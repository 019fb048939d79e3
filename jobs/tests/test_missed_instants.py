"""No instant is missed: a run that becomes due between a job worker's claim and its question is claimed at once."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.job_worker.main_loop import Worker
from jobs.models import JobWorker, Run
from jobs.runs import claiming, promotion
from jobs.runs.queue import enqueue
from station.clock import database_now
from testing.processes import start_manage
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

State = Run.State


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A job worker whose turns the test takes."""
    made = Worker(concurrency=1, only=["test.noop"])
    made.open()
    yield made
    made.ask_to_stop()
    made.close()


def test_a_run_due_between_claim_and_question_is_claimed_in_the_next_turn(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-26: claim and question use one reading of the clock, so that every instant is before one or after the other."""
    worker.turn()
    run = enqueue("test.noop", run_at=database_now() + timedelta(seconds=0.6))
    promotion.promote(database_now(), database_now() + timedelta(seconds=2))
    ask = claiming.look
    questions: list[claiming.Look] = []

    def held(*args: Any) -> claiming.Look:
        while database_now() < run.run_at:
            time.sleep(0.005)
        questions.append(ask(*args))
        return questions[-1]

    monkeypatch.setattr(claiming, "look", held)
    assert worker.turn() == 0.0, "it sleeps although a run is due"
    assert len(questions) == 1, "the run was claimed in the held turn: the test held it at the wrong point"
    worker.turn()
    run.refresh_from_db()
    assert run.state in {State.RUNNING, State.SUCCEEDED}


def test_a_clock_that_is_set_back_hides_no_instant(worker: Worker) -> None:
    """J-26: the question starts at the earlier of the claim's reading and the database's."""
    worker.turn()
    enqueue("test.noop", run_at=database_now() + timedelta(seconds=5))
    promotion.promote(database_now(), database_now() + timedelta(seconds=9))
    assert claiming.look([], database_now() + timedelta(minutes=10)).instant == Run.objects.get().run_at


@pytest.mark.alone
@pytest.mark.crash
def test_job_workers_held_before_every_question_start_every_run_on_time(tmp_path: Path) -> None:
    """J-26 with real processes: each run used to wait for the next tick, up to 15 s."""
    logs = [tmp_path / f"worker-{number}.log" for number in range(2)]
    processes = [
        start_manage("runworker", "--jobs", "test.noop", log=log, JOB_MODULES="testing.jobs,testing.held_question")
        for log in logs
    ]
    try:
        wait_until(lambda: JobWorker.objects.count() == 2, 30, f"the job workers start: {logs[0].read_text()}")
        first = database_now() + timedelta(seconds=3)
        for number in range(12):
            enqueue("test.noop", run_at=first + timedelta(seconds=0.73 * number))
        wait_until(lambda: Run.objects.filter(state=State.SUCCEEDED).count() == 12, 60, "every run happens")
    finally:
        for process in processes:
            process.terminate()
        assert [process.wait(30) for process in processes] == [0, 0]
    late = [(run.claimed_at - run.run_at).total_seconds() for run in Run.objects.all() if run.claimed_at]
    assert max(late) < 1.0, late
