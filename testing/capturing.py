"""A capture media worker as a plain process, driven by a test without a control plane."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from testing.media import ffmpeg, free_port
from testing.processes import ROOT, children_of, command_of
from testing.waiting import wait_until
from worker.wire.codec import VERSION, VERSION_FIELD, encode
from worker.wire.configuration import Control, LaunchClock

TOKEN = "token-of-the-test"


@dataclass
class Worker:
    process: "subprocess.Popen[str]"
    port: int
    media: Path

    def ask(self, path: str = "/status", token: str = TOKEN, body: dict[str, Any] | None = None) -> Any:
        data = json.dumps({VERSION_FIELD: VERSION, **body}).encode() if body is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data)
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        return content if path.startswith("/preview") else json.loads(content)

    def status(self) -> dict[str, Any]:
        try:
            return dict(self.ask())
        except OSError:
            return {}

    def wait_for(self, **wanted: Any) -> dict[str, Any]:
        """Wait until the status has these values (a number is a minimum)."""

        def fits() -> dict[str, Any] | None:
            status = self.status()
            for name, value in wanted.items():
                found = status.get(name)
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    if found is None or found < value:
                        return None
                elif found != value:
                    return None
            return status

        try:
            return wait_until(fits, 40, f"status {wanted}")
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {self.status()}") from error

    def recorder_pid(self) -> int:
        """The pid of the ffmpeg that records (not the preview's)."""

        def found() -> list[int]:
            return [pid for pid in children_of(self.process.pid) if "tee" in command_of(pid)]

        return wait_until(found, 20, "an ffmpeg records")[0]

    def preview_pids(self) -> list[int]:
        return [pid for pid in children_of(self.process.pid) if "frame.jpg" in command_of(pid)]

    def stop(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        return self.wait_end()

    def wait_end(self, seconds: float = 30) -> dict[str, Any]:
        """Wait until it ends; returns the final status, the last line it printed."""
        out, _ = self.process.communicate(timeout=seconds)
        lines = out.strip().splitlines()
        try:
            return dict(json.loads(lines[-1])["final"])
        except (ValueError, KeyError, IndexError):
            return {"printed": out}

    def files(self) -> list[Path]:
        return sorted(self.media.glob("take/*-0*"))


@contextlib.contextmanager
def capture(media: Path, source: dict[str, Any], **config: Any) -> Iterator[Worker]:
    """Run a capture of `source` until the block ends."""
    port = free_port()
    environment = config.pop("environment", {})
    station_at = config.pop("station_at", None)  # None: it takes the time of the machine
    control = config.pop("control", encode(Control("test:1", 1, TOKEN, "127.0.0.1", port)))
    given = {"source": source, "folder": "take", "name": "one", "min_free_bytes": 1, **config}
    line = {VERSION_FIELD: VERSION, "control": control, "config": given}
    if station_at is not None:
        line["clock"] = encode(LaunchClock(station_at))
    process = subprocess.Popen(
        [sys.executable, "-m", "worker", "capture"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "AIRLOCK_MEDIA": str(media),
            "AIRLOCK_FFMPEG_FALLBACK": ffmpeg(),
            "PYTHONUNBUFFERED": "1",
            **environment,
        },
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(line) + "\n")
    process.stdin.flush()
    worker = Worker(process, port, media)
    try:
        yield worker
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def seconds_between(first: str, second: str) -> float:
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()
