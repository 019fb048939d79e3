"""Database sessions outside Django, which are not shared and not closed between requests."""

import psycopg
from django.db import connection as django_connection


class PoolingRefused(Exception):
    """The connection goes through a pooler that gives it to other clients between transactions."""


def connect(name: str) -> "psycopg.Connection[tuple[object, ...]]":
    """Open a session with Django's connection parameters."""
    params = django_connection.get_connection_params()
    keep = {"dbname", "user", "password", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "service"}
    keep |= {"connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"}
    chosen = {key: value for key, value in params.items() if key in keep}
    connection = psycopg.connect(**chosen, autocommit=True, application_name=name)
    # Keepalives on the server's side too: it drops a client whose machine is gone.
    connection.execute("SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2")
    return connection


def refuse_pooling(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Raise PoolingRefused behind a pooler in transaction mode, where session locks and LISTEN silently do nothing.

    Two clients of such a pooler share a backend, or one changes its backend while the other is in a transaction.
    """
    first = connection.execute("SELECT pg_backend_pid()").fetchone()
    with connect("airlock pooling check") as other, other.transaction():
        others = other.execute("SELECT pg_backend_pid()").fetchone()
        second = connection.execute("SELECT pg_backend_pid()").fetchone()
    if first != second or first == others:
        raise PoolingRefused(
            "The database connection goes through a pooler in transaction mode, which breaks session locks. "
            "Point the scheduler's DATABASE_URL at PostgreSQL itself, or at a pooler in session mode."
        )
