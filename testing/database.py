"""A PostgreSQL server for one test, which the test may stop and start; and a stranger in the test database."""

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from config.embedded_postgres import EmbeddedServer
from config.postgres_user import make_private, server_user


class OwnServer:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._server = EmbeddedServer(folder / "postgres")
        self._where: dict[str, Any] = self._server.django_settings()

    @property
    def url(self) -> str:
        return f"postgresql://{self._where['USER']}@/{self._where['NAME']}?host={self._where['HOST']}"

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    @property
    def host(self) -> str:
        return str(self._where["HOST"])

    def make_standby(self, folder: Path) -> "OwnServer":
        """A streaming standby of this server, started."""
        standby = OwnServer(folder)
        server = standby._server
        make_private(server.folder)
        make_private(server.pgdata, owner=server_user())
        source = ("-h", self.host, "-U", str(self._where["USER"]))
        server._run("pg_basebackup", *source, "-R", "-X", "stream", "-c", "fast", "-D", str(server.pgdata), timeout=120)
        standby.start()
        return standby

    def kill(self) -> None:
        """As a power cut: no time to flush or to tell anybody."""
        os.kill(int((self._server.pgdata / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def promote(self) -> None:
        self._server._run("pg_ctl", "promote", "-w", "-D", str(self._server.pgdata))

    def terminate_sessions(self) -> None:
        """End all connections at once."""
        with psycopg.connect(self.url, autocommit=True) as own:
            own.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"""
            )


@contextlib.contextmanager
def own_server() -> Iterator[OwnServer]:
    """In a folder of its own: pytest closes its folders to other users, and the server may run as another user."""
    with tempfile.TemporaryDirectory(prefix="airlock-database-") as folder:
        server = OwnServer(Path(folder) / "own")
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def stranger(*statements: str) -> Iterator[psycopg.Connection[Any]]:
    """A session that is no part of Airlock, with a transaction that stays open."""
    from station.database.sessions import connect

    own = connect("psql", "migrations")
    try:
        own.execute("SET idle_in_transaction_session_timeout = 0")
        own.autocommit = False
        for statement in statements:
            own.execute(statement)
        yield own
    finally:
        own.close()
