"""Database sessions outside Django, which are not shared and not closed between requests."""

import psycopg
from django.conf import settings
from django.db import connection as django_connection

from station.database.roles import session_options

# Parameters of get_connection_params that are Django's, not libpq's.
DJANGO_ONLY = {"cursor_factory", "context", "prepare_threshold"}


class PoolingRefused(Exception):
    """The connection goes through a pooler that gives it to other clients between transactions."""


def connect(name: str, role: str) -> "psycopg.Connection[tuple[object, ...]]":
    """Open a session with every libpq parameter of Django's connection, and the limits of the role."""
    params = django_connection.get_connection_params()
    chosen = {key: value for key, value in params.items() if key not in DJANGO_ONLY}
    chosen |= {"options": session_options(role, settings.DATABASE_OPTIONS), "application_name": name}
    return psycopg.connect(**chosen, autocommit=True)


def refuse_pooling(connection: "psycopg.Connection[tuple[object, ...]]", role: str) -> None:
    """Raise PoolingRefused behind a pooler in transaction mode, where session locks and LISTEN silently do nothing.

    Two clients of such a pooler share a backend, or one changes its backend while the other is in a transaction.
    """
    first = connection.execute("SELECT pg_backend_pid()").fetchone()
    with connect("airlock pooling check", role) as other, other.transaction():
        others = other.execute("SELECT pg_backend_pid()").fetchone()
        second = connection.execute("SELECT pg_backend_pid()").fetchone()
    if first != second or first == others:
        raise PoolingRefused(
            "The database connection goes through a pooler in transaction mode, which breaks session locks. "
            "Point the scheduler's DATABASE_URL at PostgreSQL itself, or at a pooler in session mode."
        )
