"""The database of a chaos run: a primary, and a standby that takes its place once."""

import time
from pathlib import Path

import psycopg

from config.postgres_user import EmbeddedServerError
from testing.database import OwnServer

START_SECONDS = 30.0
SYNC_SECONDS = 15.0


class DatabasePair:
    """Replication is synchronous: what was confirmed before the promotion is there after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.primary = OwnServer(folder / "first")
        self.primary.start()
        self.standby: OwnServer | None = None
        base, _, _ = self.primary.url.partition("?")
        # The hosts of both, before the second exists. Unix sockets need no port.
        second = self.primary.host.replace(str(folder / "first"), str(folder / "second"))
        self.url = f"{base}?host={self.primary.host},{second}&target_session_attrs=read-write"

    def add_standby(self) -> None:
        # The standby copies this setting, and connects again soon after the primary was away.
        self._set("wal_retrieve_retry_interval", "200ms")
        self.standby = self.primary.make_standby(self.folder / "second")
        assert self.standby.host in self.url
        self._set("synchronous_standby_names", "*")
        self.wait_for_sync()

    def restart(self, pause: float) -> None:
        self.primary.stop()
        time.sleep(pause)
        self._start()

    def crash(self, pause: float) -> None:
        self.primary.kill()
        time.sleep(pause)
        self._start()

    def fail_over(self, pause: float) -> None:
        """Kill the primary for good and promote the standby, which must have everything that was confirmed."""
        assert self.standby is not None
        self.wait_for_sync()
        self.primary.kill()
        time.sleep(pause)
        self.standby.promote()
        self.primary, self.standby = self.standby, None

    def wait_for_sync(self) -> None:
        deadline = time.monotonic() + SYNC_SECONDS
        while not self._is_in_sync():
            if time.monotonic() > deadline:
                raise AssertionError("the standby does not follow the primary")
            time.sleep(0.1)

    def stop(self) -> None:
        for server in (self.standby, self.primary):
            if server is not None:
                server.stop()

    def _start(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.primary.start()
                return
            except EmbeddedServerError:  # child processes of a killed server may still be ending
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _set(self, name: str, value: str) -> None:
        with psycopg.connect(self.primary.url, autocommit=True) as own:
            own.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            own.execute("SELECT pg_reload_conf()")

    def _is_in_sync(self) -> bool:
        try:
            with psycopg.connect(self.primary.url, autocommit=True) as own:
                row = own.execute("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()
                return bool(row and row[0])
        except psycopg.OperationalError:
            return False
