"""A PostgreSQL server for one test, which the test may stop and start."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from config.embedded_postgres import EmbeddedServer


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

    def terminate_sessions(self) -> None:
        """End all connections at once."""
        with psycopg.connect(self.url, autocommit=True) as own:
            own.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"""
            )


@contextlib.contextmanager
def own_server(folder: Path) -> Iterator[OwnServer]:
    server = OwnServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
