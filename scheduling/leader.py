"""Leadership: a session advisory lock on a connection of its own, an epoch, a heartbeat.

Of all schedulers one leads. The lock lives and dies with its connection, so a killed leader is followed within
milliseconds by the standby that queues for it. A standby waits in short tries (`lock_timeout`), because a waiting
statement holds a snapshot and would keep VACUUM from cleaning up. Winning raises the epoch; whatever an older leader
still does carries an older epoch and is refused by compare-and-set. A leader that is frozen keeps its connection and
its lock: the standby sees its heartbeat grow old and terminates its backend. The lock saves work; the guards in the
database, not the lock, make two leaders harmless.
"""

import logging
import os
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import psycopg
from django.conf import settings
from django.db import connection as django_connection
from psycopg.pq import ExecStatus

from scheduling.wakeup import CHANNEL, STEP_DOWN

logger = logging.getLogger(__name__)

LOCK = (0x41495220, 0x6C6F636B)  # "AIR ", "lock": two keys of the advisory lock, per database
LOCK_NOT_AVAILABLE = "55P03"
DATABASE_FAULTS = (psycopg.OperationalError, psycopg.InterfaceError)


class PoolingRefused(Exception):
    """The connection is not ours alone: a pooler hands it on between transactions."""


class NotLeading(Exception):
    """The lock or the epoch is no longer ours."""


@dataclass(frozen=True)
class LeaderStatus:
    """What the database knows about who leads."""

    epoch: int
    holder: str
    backend_pid: int | None
    taken_at: datetime | None
    heartbeat_at: datetime | None
    is_locked: bool
    age_seconds: float | None
    waiting: int

    @property
    def is_stale(self) -> bool:
        return self.age_seconds is None or self.age_seconds > settings.LEADER_STALE_SECONDS


def connect(name: str) -> "psycopg.Connection[tuple[object, ...]]":
    """A connection past Django's: nobody closes it between requests, nobody shares it."""
    params = django_connection.get_connection_params()
    keep = {"dbname", "user", "password", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "service"}
    keep |= {"connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"}
    chosen = {key: value for key, value in params.items() if key in keep}
    connection = psycopg.connect(**chosen, autocommit=True, application_name=name)
    # The server's side of the same watch: it drops a client whose machine is gone.
    connection.execute("SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2")
    return connection


def refuse_pooling(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    """With a pooler in transaction mode, session locks and LISTEN silently do nothing: better not to start.

    Two clients of such a pooler share a backend, or one of them gets another while the other is in a transaction.
    """
    first = connection.execute("SELECT pg_backend_pid()").fetchone()
    with connect("airlock pooling check") as other, other.transaction():
        others = other.execute("SELECT pg_backend_pid()").fetchone()
        second = connection.execute("SELECT pg_backend_pid()").fetchone()
    if first != second or first == others:
        raise PoolingRefused(
            "The database is reached through a pooler in transaction mode, which breaks session locks. "
            "Point DATABASE_URL of the scheduler at PostgreSQL itself, or at a pool in session mode."
        )


class Leader:
    """Holds the connection, the lock and the epoch of this process. Not shared between threads."""

    def __init__(self) -> None:
        self.holder = f"{socket.gethostname()} pid {os.getpid()}"
        self.epoch = 0
        self.wants_to_step_down = False
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    @property
    def is_leading(self) -> bool:
        return bool(self.epoch)

    def fileno(self) -> int:
        assert self._connection is not None
        return self._connection.fileno()

    def open(self) -> None:
        """Connect and check that the connection is really ours. Raises psycopg errors or PoolingRefused."""
        if self._connection is not None and not self._connection.closed:
            return
        connection = connect("airlock scheduler")
        try:
            refuse_pooling(connection)
            connection.execute(f"SET lock_timeout = '{int(settings.LEADER_LOCK_TRY_SECONDS * 1000)}ms'")
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def close(self) -> None:
        self.epoch = 0
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def try_to_lead(self, wake_fd: int) -> bool:
        """Queue for the lock for a moment; True if it is ours. Something readable at `wake_fd` ends the wait."""
        connection = self._alive()
        pgconn = connection.pgconn
        pgconn.send_query(f"SELECT pg_advisory_lock({LOCK[0]}, {LOCK[1]})".encode())
        # Our own select: psycopg's wait looks up ten times a second, which an idle standby need not.
        while pgconn.is_busy():
            readable, _, _ = select.select([pgconn.socket, wake_fd], [], [])
            if wake_fd in readable:
                self.close()  # the server gives up waiting when it notices
                return False
            pgconn.consume_input()
        has_lock = False
        while (result := pgconn.get_result()) is not None:
            has_lock = has_lock or result.status == ExecStatus.TUPLES_OK
            if result.status == ExecStatus.FATAL_ERROR:
                state = (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode()
                if state != LOCK_NOT_AVAILABLE:
                    raise psycopg.OperationalError(result.error_message.decode(errors="replace").strip())
        if not has_lock:
            return False
        self._take_office()
        return True

    def _take_office(self) -> None:
        connection = self._alive()
        connection.execute(f"LISTEN {CHANNEL}")
        row = connection.execute(
            """INSERT INTO scheduling_leadership AS l (id, epoch, holder, backend_pid, taken_at, heartbeat_at)
               VALUES (1, 1, %s, pg_backend_pid(), clock_timestamp(), clock_timestamp())
               ON CONFLICT (id) DO UPDATE SET epoch = l.epoch + 1, holder = excluded.holder, released_at = NULL,
               backend_pid = excluded.backend_pid, taken_at = excluded.taken_at, heartbeat_at = excluded.heartbeat_at
               RETURNING epoch""",
            [self.holder],
        ).fetchone()
        assert row is not None
        # From here on a heartbeat that only the disk has not seen yet is good enough.
        connection.execute("SET synchronous_commit = off")
        self.epoch = int(str(row[0]))
        logger.info("Leading. epoch=%s holder=%s", self.epoch, self.holder)

    def beat(self) -> None:
        """Prove the lock on its own connection; NotLeading or a database error means: stop at once."""
        rows = self._alive().execute(
            "UPDATE scheduling_leadership SET heartbeat_at = clock_timestamp() WHERE id = 1 AND epoch = %s",
            [self.epoch],
        )
        if rows.rowcount != 1:
            raise NotLeading(f"epoch {self.epoch} is over")

    def take_notices(self) -> bool:
        """Read what NOTIFY brought; True if there was anything."""
        notices = list(self._alive().notifies(timeout=0))
        if any(notice.payload == STEP_DOWN for notice in notices):
            self.wants_to_step_down = True
        return bool(notices)

    def step_down(self) -> None:
        """Let go of the lock; a standby has it in the same moment."""
        if not self.is_leading:
            return
        epoch, self.epoch, self.wants_to_step_down = self.epoch, 0, False
        connection = self._alive()
        connection.execute(
            "UPDATE scheduling_leadership SET released_at = clock_timestamp() WHERE id = 1 AND epoch = %s", [epoch]
        )
        connection.execute(f"UNLISTEN {CHANNEL}")
        connection.execute("SELECT pg_advisory_unlock(%s, %s)", LOCK)
        connection.execute("RESET synchronous_commit")
        logger.info("Stepped down. epoch=%s", epoch)

    def evict_if_frozen(self) -> bool:
        """As a standby: end the backend of a leader whose heartbeat has grown old. True if one was ended."""
        status = read_status(self._alive().execute)
        if not status.is_locked or not status.is_stale or status.backend_pid is None:
            return False
        row = (
            self._alive()
            .execute(
                """SELECT pg_terminate_backend(pid) FROM pg_locks
               WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())""",
                LOCK,
            )
            .fetchone()
        )
        if row and row[0]:
            logger.error(
                "The leader is frozen; its connection was ended. holder=%s heartbeat_age=%.1f",
                status.holder,
                status.age_seconds or 0.0,
            )
        return bool(row and row[0])

    def _alive(self) -> "psycopg.Connection[tuple[object, ...]]":
        if self._connection is None or self._connection.closed:
            raise psycopg.OperationalError("the leader's connection is closed")
        return self._connection


def read_status(execute: Callable[..., object]) -> LeaderStatus:
    """Who leads, by the row and by the lock itself."""
    cursor: object = execute(
        """SELECT epoch, holder, backend_pid, taken_at, heartbeat_at,
                  EXTRACT(EPOCH FROM clock_timestamp() - heartbeat_at)::float,
                  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
                  (SELECT count(*) FROM pg_stat_activity
                   WHERE application_name = 'airlock scheduler' AND datname = current_database())
           FROM scheduling_leadership WHERE id = 1""",
        LOCK,
    )
    row = cursor.fetchone()  # type: ignore[attr-defined]
    if row is None:
        return LeaderStatus(0, "", None, None, None, False, None, 0)
    epoch, holder, backend_pid, taken_at, heartbeat_at, age, locks, schedulers = row
    return LeaderStatus(
        epoch, holder, backend_pid, taken_at, heartbeat_at, bool(locks), age, max(0, schedulers - bool(locks))
    )
