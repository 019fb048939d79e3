"""A whole Airlock as a newcomer runs it: `manage.py up` in a folder of its own."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from testing.media import free_port
from testing.processes import ROOT
from testing.waiting import wait_until

NOT_INHERITED = {
    "DATABASE_URL",
    "DATA_DIR",
    "SECRET_KEY",
    "SEALING_KEYS",
    "INSTALLATION_KEY",
    "HTTPS",
    "EMAIL_URL",
    "DJANGO_SETTINGS_MODULE",
}


@dataclass
class Airlock:
    data_dir: Path
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/"

    @property
    def log(self) -> Path:
        return self.data_dir.parent / f"{self.data_dir.name}.log"

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        # Several run at the same time, and their media workers need ports, too.
        kept["CONTROL_PORT_FROM"] = str(10_000 + self.port % 50 * 100)
        return {**kept, "DATA_DIR": str(self.data_dir), "PYTHONUNBUFFERED": "1", "LOG_LEVEL": "INFO"}

    def start(self, *more: str) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", str(self.port), *more],
                env=self.environment(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
            )
        try:
            wait_until(self.is_announced, 240, f"Airlock is up; its log: {self.log}")
        except AssertionError:
            self.stop(signal.SIGTERM)  # otherwise it would disturb the next test
            raise

    def is_announced(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.text()
        return f"Airlock is up: {self.url}" in self.text() and self.is_healthy()

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def password(self) -> str:
        found = re.search(r"with the password (\S+)", self.text())
        assert found, self.text()
        return found.group(1)

    def manage(self, *args: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "manage.py", *args]
        return subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=240, check=False, cwd=ROOT
        )

    def stop(self, number: int = signal.SIGINT) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(120)
