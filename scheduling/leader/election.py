"""Leader election: a session advisory lock on a separate connection, an epoch, a heartbeat.

One of all schedulers is the leader. The lock ends with its connection, so a standby that queues for it follows a killed
leader within milliseconds. A standby waits in short tries (`lock_timeout`), because a waiting statement holds a
snapshot and would block VACUUM. A new leader inserts a row with the next epoch. It updates none, so no row lock can
keep it from leading. Writes of an older leader carry the older epoch and are refused. A frozen leader keeps its
connection and its lock, so its session has an `idle_session_timeout`: if it sends no query for some seconds, PostgreSQL
ends the session and so the lock. The lock only saves work: two leaders at once are harmless because of the guards in
the database.
"""

import logging
import os
import select
import socket
from dataclasses import dataclass
from datetime import datetime

import psycopg
from django.conf import settings
from django.db import connection as django_connection
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from scheduling.models import Leadership
from station.database.notify import CHANNEL, STEP_DOWN
from station.database.roles import LEADER
from station.database.sessions import connect, refuse_pooling

logger = logging.getLogger(__name__)

APPLICATION = "airlock scheduler"
LOCK = (0x41495220, 0x6C6F636B)  # "AIR ", "lock": two keys of the advisory lock, per database
LOCK_NOT_AVAILABLE = "55P03"
ANSWER_SECONDS = 10.0
EPOCH = "SELECT max(epoch) FROM scheduling_leadership"


class NotLeading(Exception):
    """The lock or the epoch is no longer ours."""


@dataclass(frozen=True)
class LeaderStatus:
    """The leader and the standbys, as the database knows them."""

    epoch: int
    holder: str
    taken_at: datetime | None
    is_locked: bool
    silent_seconds: float | None
    standbys: int
    worst_turn_seconds: float = 0.0  # of the last minute


class Leader:
    """Holds the connection, the lock and the epoch of this process. Not shared between threads."""

    def __init__(self) -> None:
        self.holder = f"{socket.gethostname()} pid {os.getpid()}"
        self.epoch = 0
        self.wants_to_step_down = False
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._prepared: dict[str, bytes] = {}
        self._has_notices = False

    @property
    def is_leading(self) -> bool:
        return bool(self.epoch)

    def fileno(self) -> int:
        assert self._connection is not None
        return self._connection.fileno()

    def open(self) -> None:
        """Connect, and check that no pooler shares the connection. Raises psycopg errors or PoolingRefused."""
        if self._connection is not None and not self._connection.closed:
            return
        connection = connect(APPLICATION, LEADER)
        try:
            refuse_pooling(connection, LEADER)
            connection.execute(f"SET lock_timeout = '{int(settings.LEADER_LOCK_TRY_SECONDS * 1000)}ms'")
            connection.execute("SET statement_timeout = 0")  # it would end the wait for the lock, and our place in line
        except BaseException:  # Ctrl-C too must not leave the connection open
            connection.close()
            raise
        connection.add_notify_handler(lambda notice: self._note(notice.payload.encode()))
        self._connection, self._prepared = connection, {}

    def close(self) -> None:
        self.epoch = 0
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def try_to_lead(self, wake_fd: int) -> bool:
        """Queue for the lock for a short time; True if we got it. Input at `wake_fd` ends the wait."""
        pgconn = self._alive().pgconn
        pgconn.send_query(f"SELECT pg_advisory_lock({LOCK[0]}, {LOCK[1]})".encode())
        results = self._results(wake_fd)
        if results is None:
            self.close()  # the server stops waiting when it notices
            return False
        if any(_state(result) == LOCK_NOT_AVAILABLE for result in results):
            return False
        _raise_faults(results)
        self._become_leader()
        return True

    def _become_leader(self) -> None:
        connection = self._alive()
        connection.execute(f"LISTEN {CHANNEL}")
        row = connection.execute(
            f"""INSERT INTO scheduling_leadership (epoch, holder, taken_at)
                VALUES (COALESCE(({EPOCH}), 0) + 1, %s, clock_timestamp()) RETURNING epoch""",  # noqa: S608
            [self.holder],
        ).fetchone()
        assert row is not None
        connection.execute("RESET statement_timeout")
        # From here on, a frozen or stuck leader loses its session, and so the lock.
        connection.execute(f"SET idle_session_timeout = '{int(settings.LEADER_SILENCE_SECONDS * 1000)}ms'")
        self.epoch = int(str(row[0]))
        logger.info("Became leader. epoch=%s holder=%s", self.epoch, self.holder)

    def ask(self, question: str) -> tuple[str | None, ...]:
        """Read one row on this connection and check the epoch. The query is also the leader's heartbeat.

        After NotLeading or a database error the caller must stop at once.
        """
        pgconn = self._alive().pgconn
        if question not in self._prepared:
            name = f"question_{len(self._prepared)}".encode()
            _raise_faults([pgconn.prepare(name, f"SELECT ({EPOCH}), {question}".encode())])
            self._prepared[question] = name
        pgconn.send_query_prepared(self._prepared[question], None)
        results = self._results() or []
        _raise_faults(results)
        epoch, *answers = (results[0].get_value(0, column) for column in range(results[0].nfields))
        if epoch is None or int(epoch) != self.epoch:
            raise NotLeading(f"Another leader has replaced this one (epoch {self.epoch}).")
        return tuple(None if answer is None else answer.decode() for answer in answers)

    def report_turns(self, count: int, worst_seconds: float) -> None:
        """Publish how long the turns of the last minute took, for /metrics."""
        self._alive().execute(
            """UPDATE scheduling_leadership
               SET turns = turns + %s, worst_turn_seconds = %s, turns_at = clock_timestamp()
               WHERE epoch IN (SELECT epoch FROM scheduling_leadership WHERE epoch = %s FOR NO KEY UPDATE SKIP LOCKED)
            """,
            [count, worst_seconds, self.epoch],
        )

    def take_notices(self) -> bool:
        """Read the notifications; True if there were any since the last call."""
        pgconn = self._alive().pgconn
        pgconn.consume_input()
        while (notice := pgconn.notifies()) is not None:
            self._note(notice.extra)
        has_notices, self._has_notices = self._has_notices, False
        return has_notices

    def _note(self, payload: bytes) -> None:
        self._has_notices = True
        self.wants_to_step_down = self.wants_to_step_down or payload.decode() == STEP_DOWN

    def _results(self, wake_fd: int | None = None) -> list[PGresult] | None:
        """All results of the query that was sent. None if `wake_fd` became readable first.

        It uses select itself: psycopg's wait polls ten times a second, which costs an idle process CPU time.
        """
        pgconn = self._alive().pgconn
        watched = [pgconn.socket] if wake_fd is None else [pgconn.socket, wake_fd]
        results: list[PGresult] = []
        while True:
            while pgconn.is_busy():
                readable, _, _ = select.select(watched, [], [], ANSWER_SECONDS if wake_fd is None else None)
                if not readable:
                    raise psycopg.OperationalError(f"no answer from the database for {ANSWER_SECONDS} s")
                if wake_fd in readable:
                    return None
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                return results
            results.append(result)

    def step_down(self) -> None:
        """Release the lock; a standby gets it at once."""
        if not self.is_leading:
            return
        epoch, self.epoch, self.wants_to_step_down = self.epoch, 0, False
        connection = self._alive()
        connection.execute(
            """UPDATE scheduling_leadership SET released_at = clock_timestamp() WHERE epoch IN
               (SELECT epoch FROM scheduling_leadership WHERE epoch = %s FOR NO KEY UPDATE SKIP LOCKED)""",
            [epoch],
        )
        connection.execute(f"UNLISTEN {CHANNEL}")
        connection.execute("SET idle_session_timeout = 0")
        connection.execute("SET statement_timeout = 0")
        connection.execute("SELECT pg_advisory_unlock(%s, %s)", LOCK)
        logger.info("Stepped down as leader. epoch=%s", epoch)

    def _alive(self) -> "psycopg.Connection[tuple[object, ...]]":
        if self._connection is None or self._connection.closed:
            raise psycopg.OperationalError("the leader's connection is closed")
        return self._connection


def read_status() -> LeaderStatus:
    """Read the leader from the lock, and its last query from its session."""
    with django_connection.cursor() as cursor:
        cursor.execute(
            """SELECT a.pid, EXTRACT(EPOCH FROM clock_timestamp() - a.query_start)::float
               FROM pg_locks l JOIN pg_stat_activity a USING (pid)
               WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %s AND l.objid = %s
               AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())""",
            LOCK,
        )
        holder = cursor.fetchone()
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()",
            [APPLICATION],
        )
        sessions = (cursor.fetchone() or [0])[0]
    row = Leadership.objects.first() or Leadership(epoch=0, worst_turn_seconds=0.0)
    standbys = max(0, sessions - (holder is not None))
    silent = holder[1] if holder else None
    return LeaderStatus(
        row.epoch, row.holder, row.taken_at, holder is not None, silent, standbys, row.worst_turn_seconds
    )


def _state(result: PGresult) -> str:
    return (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()


def _raise_faults(results: list[PGresult]) -> None:
    for result in results:
        if result.status not in {ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK}:
            raise psycopg.OperationalError(result.error_message.decode(errors="replace").strip())
