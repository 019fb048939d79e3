"""Real `manage.py runworker` processes: killed, frozen, stopped, without a database, and with failing handlers."""

import json
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.models import JobWorker, Run
from jobs.runs import sweeping
from jobs.runs.queue import cancel, enqueue
from station.clock import database_now
from station.leader_term import Term
from testing.database import own_server
from testing.processes import is_alive, manage, start_manage
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.crash]

State, Fault = Run.State, Run.Fault
ENVIRONMENT = {"JOB_MODULES": "testing.jobs", "JOB_WORKER_STOP_SECONDS": "6"}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Any]:
    """worker() starts a real job worker; it is stopped at the end of the test."""
    running: list[Any] = []

    def start(*args: str) -> Any:
        before = set(JobWorker.objects.values_list("pk", flat=True))
        log = tmp_path / f"worker-{len(running)}.log"
        process = start_manage("runworker", *args, log=log, **ENVIRONMENT, LOG_LEVEL="INFO")
        process.log = log
        running.append(process)
        wait_until(lambda: JobWorker.objects.exclude(pk__in=before).exists(), 30, f"a job worker starts: {log}")
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(30)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes.txt"


def begun(notes: Path) -> list[list[str]]:
    """[word, run, attempt, pid, time] of every line."""
    return [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []


def wait_for(run: Run, *states: str, seconds: float = 30) -> Run:
    def is_there() -> bool:
        run.refresh_from_db()
        return run.state in states

    wait_until(is_there, seconds, f"run {run.pk} becomes {states}, it is {run.state}: {run.error}")
    return run


def rescue() -> None:
    """What the leader's sweep does every few seconds."""
    sweeping.bury(database_now())
    sweeping.rescue_stale(database_now())


def test_a_queued_run_is_taken_at_once_and_its_progress_is_seen(worker: Any, notes: Path) -> None:
    """J-09, J-14: NOTIFY wakes the job worker; heartbeats continue while it works; the result is stored at the end."""
    worker()
    run = enqueue("test.note", {"path": str(notes), "text": "hello", "seconds": 6.0})
    wait_until(lambda: Run.objects.get(pk=run.pk).progress_text == "on my way", 10, "progress is reported")
    first = Run.objects.get(pk=run.pk)
    wait_until(lambda: Run.objects.get(pk=run.pk).heartbeat_at > first.heartbeat_at, 10, "the lease is renewed")

    wait_for(run, State.SUCCEEDED)

    assert (run.result, run.progress_percent, run.attempt) == ({"text": "hello"}, 100, 1)
    assert [line[0] for line in begun(notes)] == ["begin", "end"]


def test_a_killed_job_worker_is_recorded_and_another_takes_over(worker: Any, notes: Path) -> None:
    """J-07, J-13, J-17: kill -9 is not a failure of the work; a reentrant run is repeated, others never."""
    first = worker()
    again = enqueue("test.note", {"path": str(notes), "text": "again", "seconds": 8.0})
    never = enqueue("test.once", {"path": str(notes), "text": "never", "seconds": 30.0})
    wait_until(lambda: len(begun(notes)) == 2, 20, "both have begun")
    first.kill()
    first.wait()
    worker()

    rescue()

    wait_for(never, State.FAILED)
    wait_for(again, State.SUCCEEDED)
    assert never.error_code == Fault.WORKER_CRASHED
    assert (again.attempt, again.errors[0]["code"]) == (2, "worker_crashed")
    assert sum(line[1] == str(never.pk) for line in begun(notes)) == 1
    assert JobWorker.objects.get(name__endswith=f"pid {first.pid}").ending == "crashed"


def test_a_frozen_job_worker_that_returns_learns_of_the_loss_and_its_result_is_ignored(
    worker: Any, notes: Path
) -> None:
    """J-08: another job worker claimed the run meanwhile; the explicit refusal stops the handler."""
    first = worker()
    run = enqueue("test.note", {"path": str(notes), "text": "x", "seconds": 14.0})
    wait_until(lambda: len(begun(notes)) == 1, 20, "it has begun")
    first.send_signal(signal.SIGSTOP)
    wait_until(lambda: Run.objects.stale(database_now()).exists(), 20, "its lease runs out")
    rescue()
    wait_for(run, State.RETRY, State.QUEUED)
    assert run.error_code == Fault.STALE_TIMEOUT
    second = worker()
    wait_for(run, State.RUNNING)
    first.send_signal(signal.SIGCONT)

    wait_for(run, State.SUCCEEDED, seconds=60)

    assert str(second.pid) in run.worker_name
    ends = [line for line in begun(notes) if line[0] == "end"]
    assert [line[3] for line in ends] == [str(second.pid)]
    assert "A lease is lost" in first.log.read_text()


@pytest.mark.parametrize("how", ["terminated", "restarted"])
def test_a_database_outage_during_a_run_loses_nothing(how: str, tmp_path: Path, notes: Path) -> None:
    """J-09, J-16: an outage is not a lost lease; the result waits until it can be written."""
    log = tmp_path / "own.log"
    with own_server() as server:
        own = {"DATABASE_URL": server.url, **ENVIRONMENT}
        assert manage("migrate", "-v0", **own).returncode == 0
        process = start_manage("runworker", log=log, **own)
        payload = json.dumps({"path": str(notes), "text": "x", "seconds": 8.0})
        assert manage("run_job", "test.note", "--payload", payload, **own).returncode == 0
        wait_until(lambda: len(begun(notes)) == 1, 30, "it has begun")
        if how == "restarted":
            server.stop()
            wait_until(lambda: len(begun(notes)) == 2, 60, "its work is done meanwhile")
            server.start()
        else:
            server.terminate_sessions()

        def is_done() -> bool:
            result = json.loads(manage("jobs", "--json", **own).stdout)
            return any(job["name"] == "test.note" and job["last_state"] == "succeeded" for job in result["jobs"])

        wait_until(is_done, 40, f"its end is stored: {log.read_text()[-2000:]}")
        assert [line[0] for line in begun(notes)] == ["begin", "end"]
        process.terminate()
        assert process.wait(30) == 0, log.read_text()


def test_every_failing_handler_leaves_a_readable_error_and_the_others_continue(worker: Any, notes: Path) -> None:
    """J-10, J-15: handlers that raise, exit, die, use up memory, return no JSON, hang, or ignore the stop request."""
    worker("--concurrency", "4")
    ways = {
        "raise": (Fault.HANDLER_ERROR, "ValueError: the tape is torn"),
        "exit": (Fault.HANDLER_CRASH, "exit code 3"),
        "sys.exit": (Fault.HANDLER_ERROR, "SystemExit: 4"),
        "segfault": (Fault.HANDLER_CRASH, "SIGSEGV"),
        "eat": (Fault.HANDLER_ERROR, "MemoryError"),
        "nonsense": (Fault.HANDLER_ERROR, "This cannot be stored as JSON"),
        "half": (Fault.HANDLER_ERROR, "This cannot be stored as JSON"),
    }
    runs = {text: enqueue("test.heavy", {"path": str(notes), "text": text}) for text in ways}
    hanging = enqueue("test.hang", {"path": str(notes)})
    stubborn = enqueue("test.stubborn", {"path": str(notes), "seconds": 8.0})
    good = enqueue("test.heavy", {"path": str(notes), "text": "fine"})

    for text, (code, words) in ways.items():
        run = wait_for(runs[text], State.FAILED, seconds=60)
        assert (run.error_code, run.attempt) == (code, 2), run.error
        assert words in run.error
    assert wait_for(hanging, State.FAILED).error_code == Fault.RUN_TIMEOUT
    assert wait_for(stubborn, State.FAILED).error_code == Fault.RUN_TIMEOUT
    assert wait_for(good, State.SUCCEEDED).result["pid"] > 0
    assert "Zx81Zx81Zx81" not in Run.objects.get(pk=runs["raise"].pk).error
    assert not any(is_alive(int(line[3])) for line in begun(notes) if line[1] == str(hanging.pk))


def test_a_cancelled_run_stops_wherever_it_runs(worker: Any, notes: Path) -> None:
    """J-25: a thread is asked to stop, a process is asked and then killed; both record who cancelled."""
    worker()
    light = enqueue("test.note", {"path": str(notes), "seconds": 60.0})
    deaf = enqueue("test.heavy", {"path": str(notes), "text": "hang"})
    wait_until(lambda: len(begun(notes)) == 2, 30, "both have begun")
    for run in (light, deaf):
        run.refresh_from_db()
        assert cancel(run, by="anna")

    for run in (light, deaf):
        wait_for(run, State.CANCELLED)
        assert (run.error_code, run.cancel_reason) == (Fault.CANCELLED, "cancelled by anna")
    pids = [int(line[3]) for line in begun(notes) if line[1] == str(deaf.pk)]
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 10, "its process is gone")


def test_a_poison_run_kills_three_job_workers_and_no_more(worker: Any, notes: Path) -> None:
    """J-15, J-17 with real deaths."""
    run = enqueue("test.killer", {"path": str(notes)})
    for count in (1, 2, 3):
        process = worker()
        wait_until(lambda process=process: process.poll() is not None, 30, "it dies")
        wait_until(lambda count=count: len(begun(notes)) == count, 10, "it has begun the run")
        sweeping.step(Term(), database_now())
    wait_for(run, State.FAILED)
    assert run.error_code == Fault.POISON
    healthy = worker()
    other = enqueue("test.note", {"path": str(notes), "text": "after"})
    wait_for(other, State.SUCCEEDED)
    assert healthy.poll() is None


def test_a_stopped_job_worker_finishes_short_runs_and_gives_long_runs_back(worker: Any, notes: Path) -> None:
    """SIGTERM: no run is lost and nothing is left running."""
    process = worker()
    long = enqueue("test.note", {"path": str(notes), "seconds": 60.0})
    heavy = enqueue("test.heavy", {"path": str(notes), "text": "hang"})
    wait_until(lambda: len(begun(notes)) == 2, 30, "the long runs have begun")
    short = enqueue("test.note", {"path": str(notes), "seconds": 1.0})
    wait_until(lambda: len(begun(notes)) >= 3, 30, "all have begun")
    process.terminate()
    assert process.wait(30) == 0, process.log.read_text()
    assert wait_for(short, State.SUCCEEDED)
    for run in (long, heavy):
        run.refresh_from_db()
        assert (run.state, run.error_code) == (State.RETRY, Fault.WORKER_STOPPED)
    assert JobWorker.objects.get().ending == "clean"


def test_the_child_processes_of_a_killed_job_worker_die_with_it(worker: Any, notes: Path) -> None:
    """J-10: kill -9 of the job worker leaves no process running."""
    process = worker()
    enqueue("test.heavy", {"path": str(notes), "text": "hang"})
    wait_until(lambda: len(begun(notes)) == 1, 30, "it has begun")
    child = int(begun(notes)[0][3])
    assert is_alive(child)
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(child), 10, "its process dies with it")


@pytest.mark.alone
def test_scheduled_runs_start_on_time_through_scheduler_and_job_worker(worker: Any, scheduler: Any) -> None:
    """J-01, J-04, J-24 end to end: planned ahead by the leader, claimed on time, once each."""
    worker("--jobs", "test.often")
    scheduler(JOB_MODULES="testing.jobs")
    runs = Run.objects.filter(job__name="test.often", state=State.SUCCEEDED)
    wait_until(lambda: runs.count() >= 5, 40, "it fires every second")
    late = [run.claimed_at - run.planned_at for run in runs]
    assert all(timedelta(0) <= each < timedelta(seconds=2) for each in late), late
    moments = [run.planned_at for run in runs.order_by("planned_at")]
    assert moments == sorted(set(moments))


def test_the_commands_print_results_and_clear_refusals(worker: Any, notes: Path) -> None:
    """J-19, J-23: run_job with --wait, jobs as text and as JSON, and refusals."""
    result = manage("jobs", JOB_MODULES="testing.jobs")
    assert "No job worker is running. Start one: manage.py runworker" in result.stdout
    process = worker()
    payload = json.dumps({"path": str(notes), "text": "by hand", "seconds": 0.7})
    result = manage("run_job", "test.note", "--payload", payload, "--wait", JOB_MODULES="testing.jobs")
    assert (result.returncode, json.loads(result.stdout.splitlines()[-1])) == (0, {"text": "by hand"}), result.stderr
    payload = json.dumps({"path": str(notes), "text": "raise"})
    result = manage("run_job", "test.heavy", "--payload", payload, "--wait", JOB_MODULES="testing.jobs")
    assert result.returncode == 1
    assert "handler_error" in result.stderr
    for arguments, words in (
        (["test.nonesuch"], "no job called test.nonesuch"),
        (["test.note", "--payload", "{"], "not JSON"),
        (["test.note", "--payload", '{"path": 7}'], "Note.path must be str"),
    ):
        result = manage("run_job", *arguments, JOB_MODULES="testing.jobs")
        assert result.returncode == 1
        assert words in result.stderr
    assert "no job called nonesuch" in manage("runworker", "--jobs", "nonesuch").stderr
    listed = json.loads(manage("jobs", "--json", JOB_MODULES="testing.jobs").stdout)
    assert any(str(process.pid) in each["name"] and each["is_alive"] for each in listed["workers"])
    assert "test.note: only when queued" in manage("jobs", JOB_MODULES="testing.jobs").stdout


def test_a_slow_run_delays_no_other(worker: Any, notes: Path) -> None:
    """J-18: a slow job does not block others."""
    worker("--concurrency", "1")
    for _ in range(4):
        enqueue("test.note", {"path": str(notes), "seconds": 120.0})
    wait_until(lambda: len(begun(notes)) == 4, 20, "the slow ones have begun")
    wait_for(enqueue("test.noop"), State.SUCCEEDED, seconds=60)
    assert [line[0] for line in begun(notes)] == ["begin"] * 4, "all slow runs are still running"
