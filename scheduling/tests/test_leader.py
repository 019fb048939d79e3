"""One scheduler leads, the others wait: real processes, signals and connections (R-01, R-02, R-03)."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import time, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from nodes.workloads import reconcile
from scheduling.leader.dispatch import Dispatcher
from scheduling.leader.election import Leader, read_status
from scheduling.leader.loop import GLANCE, Loop
from scheduling.models import Leadership, Recorder, Schedule
from station.clock import database_now
from station.database.notify import wake_scheduler
from station.database.sessions import PoolingRefused
from station.leader_term import Term
from testing.media import free_port
from testing.processes import manage
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

QUICK = {"LEADER_HEARTBEAT_SECONDS": "1", "LEADER_SILENCE_SECONDS": "10"}


def leader_pid() -> int:
    """The pid of the process that holds the lock, 0 if none does."""
    status = read_status()
    return int(status.holder.rpartition(" ")[2]) if status.is_locked and status.holder else 0


def wait_for_leader(*pids: int) -> int:
    return int(wait_until(lambda: leader_pid() if leader_pid() in pids else 0, 20, f"one of {pids} leads"))


def test_of_two_schedulers_one_leads_and_the_other_replaces_a_killed_leader(scheduler: Any) -> None:
    """R-02: kill -9; each leader raises the epoch."""
    processes = {process.pid: process for process in (scheduler(), scheduler())}
    first = wait_for_leader(*processes)
    wait_until(lambda: read_status().standbys == 1, 20, "the other scheduler is a standby")
    epoch = Leadership.objects.latest("epoch").epoch

    processes[first].kill()
    processes[first].wait()

    [other] = set(processes) - {first}
    wait_for_leader(other)
    assert Leadership.objects.latest("epoch").epoch == epoch + 1


def test_sigterm_hands_over(scheduler: Any) -> None:
    """R-02: the leader ends its turn, releases the lock and exits with 0; the standby gets the lock."""
    processes = {process.pid: process for process in (scheduler(), scheduler())}
    first = wait_for_leader(*processes)
    processes[first].terminate()
    assert processes[first].wait(90) == 0
    [other] = set(processes) - {first}
    wait_for_leader(other)


def test_a_standby_ends_at_once_on_sigterm(scheduler: Any) -> None:
    processes = {process.pid: process for process in (scheduler(), scheduler())}
    first = wait_for_leader(*processes)
    wait_until(lambda: read_status().standbys == 1, 20, "the other scheduler is a standby")
    [other] = set(processes) - {first}
    processes[other].terminate()
    assert processes[other].wait(60) == 0
    assert leader_pid() == first


def test_a_frozen_leader_loses_the_lock_and_does_nothing_when_it_wakes_up(scheduler: Any, tmp_path: Path) -> None:
    """R-02: SIGSTOP. PostgreSQL ends the silent session; the resumed process finds that it is no longer leader."""
    processes = {process.pid: process for process in (scheduler(**QUICK), scheduler(**QUICK))}
    first = wait_for_leader(*processes)
    wait_until(lambda: read_status().standbys == 1, 20, "the other scheduler is a standby")
    epoch = Leadership.objects.latest("epoch").epoch
    os.kill(first, signal.SIGSTOP)
    try:
        [other] = set(processes) - {first}
        wait_for_leader(other)
    finally:
        os.kill(first, signal.SIGCONT)
    wait_until(lambda: read_status().standbys == 1, 20, "the resumed scheduler is a standby")
    assert leader_pid() == other
    assert Leadership.objects.latest("epoch").epoch == epoch + 1


def test_a_terminated_backend_and_a_lost_database_never_end_the_loop(scheduler: Any) -> None:
    """R-03: it waits, connects again and continues."""
    process = scheduler()
    wait_for_leader(process.pid)
    for _ in range(3):
        epoch = Leadership.objects.latest("epoch").epoch
        with connection.cursor() as cursor:
            cursor.execute(
                """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()"""
            )
        # It notices at its next query: wake it, as an edit would.
        wake_scheduler()
        wait_until(lambda epoch=epoch: Leadership.objects.latest("epoch").epoch > epoch, 20, "it is leader again")
    assert process.poll() is None


def test_step_down_hands_over_without_ending_a_process(scheduler: Any) -> None:
    """`manage.py step_down`, which P-11 needs."""
    processes = {process.pid: process for process in (scheduler(), scheduler())}
    first = wait_for_leader(*processes)
    wait_until(lambda: read_status().standbys == 1, 20, "the other scheduler is a standby")
    result = manage("step_down")
    assert result.returncode == 0, result.stderr
    [other] = set(processes) - {first}
    assert f"pid {other} now leads" in result.stdout
    assert leader_pid() == other
    assert processes[first].poll() is None


def test_step_down_without_a_leader_says_so() -> None:
    result = manage("step_down")
    assert result.returncode == 1
    assert "No scheduler leads" in result.stderr


def test_the_status_is_printed_as_text_and_as_json(scheduler: Any) -> None:
    import json

    result = manage("scheduler_status")
    assert result.returncode == 1
    assert "No scheduler leads" in result.stdout

    process = scheduler()
    wait_for_leader(process.pid)
    result = manage("scheduler_status", "--json")
    answer = json.loads(result.stdout)
    assert (result.returncode, answer["is_leading"], answer["standbys"]) == (0, True, 0)
    assert f"pid {process.pid}" in answer["holder"]
    assert f"pid {process.pid}" in manage("scheduler_status").stdout


def test_once_does_nothing_while_another_scheduler_leads(scheduler: Any) -> None:
    process = scheduler()
    wait_for_leader(process.pid)
    result = manage("runscheduler", "--once", LEADER_LOCK_TRY_SECONDS="1")
    assert result.returncode == 1
    assert "Another scheduler leads" in result.stderr


@pytest.fixture
def pooler() -> Iterator[dict[str, str]]:
    """PgBouncer in transaction mode in front of the test server."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI=true requires pgbouncer (.ci/install installs it)")
        pytest.skip("no pgbouncer on this machine")
    params = connection.get_connection_params()
    port = free_port()
    socket = Path(params["host"])
    target = f"host={socket} dbname={params['dbname']} user={params['user']} port={params.get('port') or 5432}"
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": "transaction",
        "ignore_startup_parameters": "options",
    }
    lines = ["[databases]", f"pooled = {target}", "[pgbouncer]", *(f"{key} = {text}" for key, text in settings.items())]
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as config:
        config.write("\n".join(lines) + "\n")
        config.flush()
        Path(config.name).chmod(0o644)
        command = [program, config.name]
        if os.geteuid() == 0:  # it refuses to run as root, so it runs as the owner of the server's socket
            command[1:1] = ["-u", (socket / ".s.PGSQL.5432").owner()]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            yield {"host": "127.0.0.1", "port": str(port), "dbname": "pooled"}
        finally:
            process.terminate()
            process.wait(10)


def test_a_pooler_in_transaction_mode_is_refused_with_a_message(pooler: dict[str, str], monkeypatch: Any) -> None:
    """R-02: session locks would silently have no effect."""
    params = {**connection.get_connection_params(), **pooler}
    monkeypatch.setattr(connection, "get_connection_params", lambda: params)
    leader = Leader()

    def refuses() -> bool:
        import psycopg

        try:
            leader.open()
        except PoolingRefused as refusal:
            return "pooler in transaction mode" in str(refusal)
        except psycopg.OperationalError:
            return False  # it is not up yet
        raise AssertionError("it was not refused")

    wait_until(refuses, 10, f"the pooler answers: {pooler}")


def test_an_idle_leader_asks_again_only_after_a_commit(
    settings: Any, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-01: a tick of an idle leader only reads the snapshot; the next tick finds any commit."""
    settings.SCHEDULER_STEPS = ["scheduling.rules.planning.step"]
    questions: list[str] = []
    loop = Loop()
    loop.leader.open()
    try:
        assert loop.leader.try_to_lead(loop._wake_r)
        term = Term(loop.leader.epoch)
        ask = loop.leader.ask
        monkeypatch.setattr(loop.leader, "ask", lambda question: questions.append(question) or ask(question))

        def tick() -> list[str]:
            questions.clear()
            loop._tick_at = 0.0
            loop.turn(term)
            return list(questions)

        # Other databases of this server are busy meanwhile, and their commits count too.
        wait_until(lambda: tick() == [GLANCE], 20, "a tick without a question", pause=0.0)
        recorder = Recorder.objects.create(name="Studio", project=project, source_type="test")
        due_at = database_now() + timedelta(hours=1)
        values = {"kind": "daily", "first_on": due_at.date(), "start_time": time(20), "length": timedelta(hours=1)}
        Schedule.objects.create(name="News", recorder=recorder, created_by="test", plan_due_at=due_at, **values)
        assert tick() == [GLANCE, loop._question]
        assert loop._due == {"scheduling.rules.planning.step": due_at}
        wait_until(lambda: tick() == [GLANCE], 20, "a tick without a question", pause=0.0)
        assert loop._due == {"scheduling.rules.planning.step": due_at}
        questions.clear()
        Recorder.objects.update(name="Studio 2")  # a commit, as those of other databases
        loop.turn(term)  # not a tick: the answer would not be used
        assert questions == [GLANCE]
    finally:
        loop.leader.close()


def test_a_notification_that_arrives_with_an_answer_is_not_lost(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-01: a commit just after the query is not in its answer, so the leader asks again at once."""
    settings.SCHEDULER_STEPS = ["scheduling.rules.planning.step"]
    loop = Loop()
    loop.leader.open()
    try:
        assert loop.leader.try_to_lead(loop._wake_r)
        term = Term(loop.leader.epoch)
        loop.turn(term)
        loop._tick_at = 0.0
        ask = loop.leader.ask

        def ask_and_hear(question: str) -> tuple[str | None, ...]:
            answer = ask(question)
            loop.leader._has_notices = True
            return answer

        with monkeypatch.context() as interrupted:
            interrupted.setattr(loop.leader, "ask", ask_and_hear)
            loop.turn(term)
        assert loop.seconds_to_sleep() == 0.0
    finally:
        loop.leader.close()


def test_a_term_that_cannot_begin_leaves_no_dispatcher_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database may fail in the first query of a term: the dispatcher's thread ends with it."""
    terms: list[Term] = []

    def fails(term: Term) -> int:
        terms.append(term)
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(reconcile, "void_older_leases", fails)
    with pytest.raises(OperationalError):
        Loop()._lead()

    [term] = terms
    dispatcher = term.kept(Dispatcher)
    assert term.is_over
    assert dispatcher is not None
    assert not dispatcher._thread.is_alive()
