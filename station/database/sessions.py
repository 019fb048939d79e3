"""Database sessions past Django's: nobody closes them between requests, nobody shares them."""

import psycopg
from django.db import connection as django_connection


class PoolingRefused(Exception):
    """The connection is not ours alone: a pooler hands it on between transactions."""


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
