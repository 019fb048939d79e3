"""`manage.py up`: starts a working Airlock with one command. `make run` calls it."""

import errno
import fcntl
import json
import logging
import os
import shlex
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.demo.data import Login, ensure_demo
from config.embedded_postgres import keep_running
from config.supervisor import Child, Supervisor

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104  (only compared with)
READY_SECONDS = 60


class Command(BaseCommand):
    help = "Start database, web, scheduler and job worker of this folder, and keep them running until Ctrl-C."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Where to listen (default: this machine only).")
        parser.add_argument("--port", type=int, default=8000, help="1 to 65535")
        parser.add_argument("--no-demo", action="store_true", help="Create no demo data.")

    def handle(self, *args: Any, **options: Any) -> None:
        host, port = options["host"], options["port"]
        if not 1 <= port <= 65535:
            raise CommandError(f"{port} is not a port: choose one from 1 to 65535.")
        url = f"http://{'localhost' if host in LOOPBACK or host in EVERYWHERE else host}:{port}/"
        lock = take_folder(settings.DATA_DIR, url)
        check_port(host, port)
        self.stdout.write("Preparing the database …")
        call_command("migrate", verbosity=0, interactive=False)
        call_command("check", verbosity=0)
        logging.getLogger("whitenoise").setLevel(logging.WARNING)
        call_command("collectstatic", verbosity=0, interactive=False)
        login = None if options["no_demo"] else ensure_demo()
        supervisor = Supervisor(children(host, port), look_after=keep_running)
        announcer = threading.Thread(target=self._announce, args=[url, login], daemon=True)
        announcer.start()
        supervisor.run()
        self.stdout.write(
            "\nStopping web, scheduler and job worker. Recordings and channels keep running;"
            " the next `make run` finds them again."
        )
        supervisor.end()
        lock.close()

    def _announce(self, url: str, login: Login | None) -> None:
        """Print the address and the login as soon as the web process answers."""
        while not wait_until_up(url):
            self.stderr.write(f"The web process does not answer at {url} yet. Its messages above say why.")
        lines = ["", f"  Airlock is up: {url}"]
        if login and login.password:
            lines += [f"  Log in as {login.username} with the password {login.password}"]
            lines += ["  (shown only this once; only a hash of it is stored)"]
        elif login:
            folder = shlex.quote(str(settings.DATA_DIR))
            again = f"DATA_DIR={folder} {sys.executable} manage.py changepassword {login.username}"
            lines += [f"  Log in as {login.username}. Forgotten the password? {again}"]
        lines += ["  Ctrl-C stops web, scheduler, job worker and database; recordings and channels keep running.", ""]
        self.stdout.write("\n".join(lines))
        self.stdout.flush()


def take_folder(data_dir: Path, url: str) -> IO[str]:
    """Lock the data folder: one `up` per folder. The lock ends with the process, even if it is killed."""
    data_dir.mkdir(parents=True, exist_ok=True)
    handle = (data_dir / "up.lock").open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        known = json.loads(handle.read() or "{}")
        raise CommandError(
            f"Airlock is already running from this folder (process {known.get('pid', '?')}, {known.get('url', '?')}). "
            "Stop it first, or choose another folder with DATA_DIR=…"
        ) from None
    handle.seek(0)
    handle.truncate()
    handle.write(json.dumps({"pid": os.getpid(), "url": url}))
    handle.flush()
    return handle


def check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            advice = "Choose another address: make run HOST=127.0.0.1"
            if error.errno == errno.EADDRINUSE:
                advice = f"Choose another: make run PORT={port + 1 if port < 65535 else 8000}"
            elif error.errno == errno.EACCES:
                advice = "Ports below 1024 are for root: make run PORT=8000"
            raise CommandError(f"Port {port} on {host} cannot be used: {error.strerror}. {advice}") from error


def children(host: str, port: int) -> list[Child]:
    """The web (gunicorn with threads), the scheduler and a job worker, with the same settings as this process."""
    environment = {**os.environ, "DATA_DIR": str(settings.DATA_DIR)}
    if host in LOOPBACK and "HTTPS" not in os.environ:
        environment["HTTPS"] = "false"  # the browser is on this machine
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    web = [sys.executable, "-m", "gunicorn", "config.wsgi", "--bind", bind, "--worker-class", "gthread"]
    web += ["--workers", "2", "--threads", "8", "--timeout", "60", "--graceful-timeout", "10", "--log-level", "warning"]
    scheduler = [sys.executable, str(settings.BASE_DIR / "manage.py"), "runscheduler"]
    worker = [sys.executable, str(settings.BASE_DIR / "manage.py"), "runworker"]
    commands = {"web": web, "scheduler": scheduler, "job worker": worker}
    return [Child(name, command, environment, settings.BASE_DIR) for name, command in commands.items()]


def wait_until_up(url: str) -> bool:
    deadline = time.monotonic() + READY_SECONDS
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy cannot reach this machine
    while time.monotonic() < deadline:
        try:
            with direct.open(f"{url}healthz", timeout=2) as answer:
                if answer.status == 200:
                    return True
        except OSError:
            time.sleep(0.2)
    return False
