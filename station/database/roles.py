"""Limits on database sessions, by the kind of process: how long one waits for a lock, and how many there are.

Without limits, one transaction that stays open (a frozen process, `BEGIN; UPDATE` in psql, a machine that lost power)
makes every process wait that needs the same row. Each session we open carries its limits from the first statement on,
as start-up options of libpq. The threads of a process share a bounded pool of sessions.
"""

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connection, connections

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

LEADER = "leader"
STEPS = "steps"
WEB = "web"
WORKERS = "workers"
MIGRATIONS = "migrations"
POOL_WAIT_SECONDS = 10.0
POOL_RETRY_SECONDS = 0.1
POOL_PAUSE_SECONDS = 0.05
# The server notices that a client's machine is gone, also while a statement of it waits for a lock.
SERVER_SIDE = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "2",
    "client_connection_check_interval": "2s",
}


def session_options(role: str, given: str = "") -> str:
    """libpq's `options` for a session of this role. What the administrator gives in DATABASE_URL wins."""
    limits = settings.DATABASE_LIMITS[role]
    values = SERVER_SIDE | {
        "lock_timeout": _milliseconds(limits["lock"]),
        "statement_timeout": _milliseconds(limits["statement"]),
        "idle_in_transaction_session_timeout": _milliseconds(limits["idle"]),
    }
    return " ".join([*(f"-c {name}={value}" for name, value in values.items()), given]).strip()


def take_role(role: str) -> None:
    """Give Django's connections in this process the limits of the role, and a shared pool. Call it before any query."""
    database = connections.settings["default"]
    database["OPTIONS"] |= {
        "options": session_options(role, settings.DATABASE_OPTIONS),
        "application_name": f"airlock {role}",
    }
    sessions = int(settings.DATABASE_LIMITS[role]["sessions"])
    if sessions:
        database["CONN_MAX_AGE"] = 0  # a thread gives its session back to the pool
        database["OPTIONS"]["pool"] = pool_options(sessions)
    for each in connections.all(initialized_only=True):
        each.close()


def pool_options(sessions: int) -> dict[str, Any]:
    """A failed connection is tried again for as long as somebody waits, without growing pauses."""
    from psycopg_pool.base import AttemptWithBackoff  # only processes with a pool load it

    # It pauses between two idle sessions that it finds dead: by default 1, 2 and 4 s. After a restart of the server all
    # are dead, and a caller would get none in ten seconds.
    AttemptWithBackoff.INITIAL_DELAY, AttemptWithBackoff.DELAY_BACKOFF = POOL_PAUSE_SECONDS, 1.0
    return {
        "min_size": 1,
        "max_size": sessions,
        "timeout": POOL_WAIT_SECONDS,
        "reconnect_timeout": POOL_RETRY_SECONDS,
        "reconnect_failed": _try_again,
        "max_idle": 60,
        "num_workers": 1,
        "name": "airlock",
    }


def _try_again(pool: "ConnectionPool[Any]") -> None:
    """The server refused. Without this, who waits for a session waits until the time is up, though it is back."""
    if pool.get_stats().get("requests_waiting"):
        pool.check()  # it also adds a session to an empty pool


def release_session() -> None:
    """Give this thread's session back to the pool before it waits for a network. The next query takes one again."""
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()


def _milliseconds(seconds: float) -> str:
    return f"{int(seconds * 1000)}ms"
