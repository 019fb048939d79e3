"""Row locks of others: recognise them, find the rows that are free, and queue without locking a row.

A row that somebody else has locked is left for the next turn. Nobody can tell how long the other transaction lasts.
"""

from collections.abc import Collection
from enum import IntEnum

import psycopg.errors
from django.db import DatabaseError, connection, models

# Errors of a statement that gave up waiting. The session and the other rows are fine.
BUSY_FAULTS = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.QueryCanceled,
)
QUEUE_SECONDS = 5


class Queue(IntEnum):
    """What callers queue for, as the first key of an advisory lock; the second is the row's id."""

    NODE = 0x41495301
    PORT = 0x41495302
    RECORDER = 0x41495303
    JOB = 0x41495304
    INSTALLATION = 0x41495305


def is_busy(error: BaseException) -> bool:
    """True if the database works, but a lock of somebody else was in the way."""
    return isinstance(error, BUSY_FAULTS) or (
        isinstance(error, DatabaseError) and isinstance(error.__cause__, BUSY_FAULTS)
    )


def queue_for(queue: Queue, pk: int) -> None:
    """Wait for our turn until the end of this transaction. A row lock of a stranger does not make anybody wait here."""
    with connection.cursor() as cursor:
        cursor.execute(
            """WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', %s, true))
               SELECT pg_advisory_xact_lock(%s, %s) FROM patience""",
            [f"{QUEUE_SECONDS}s", int(queue), pk % 2**31],
        )


def free_rows(model: type[models.Model], pks: Collection[int]) -> set[int]:
    """Those of the rows that nobody has locked at this moment."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id FROM {table} WHERE id = ANY(%s) FOR NO KEY UPDATE SKIP LOCKED",  # noqa: S608  (our own table)
            [list(pks)],
        )
        return {row[0] for row in cursor.fetchall()}
