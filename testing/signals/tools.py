"""The foreign programs of the signal matrix, from Debian's packages (.ci/install)."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

PROGRAMS = ("gst-launch-1.0", "srt-live-transmit", "nginx", "mediainfo", "mpv")
# Debian's own Python: it has the bindings of the RTSP server of GStreamer.
SYSTEM_PYTHON = "/usr/bin/python3"


def why_unavailable() -> str:
    """Why the matrix cannot run here; empty if it can."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    return f"{', '.join(missing)} not installed (see .ci/install)" if missing else ""


class Program:
    """A foreign program that can be started, frozen, killed and started again."""

    def __init__(self, *command: str | Path, log: Path) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self) -> None:
        """Kill it with all that it started: a device that loses its power closes no connection."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


@contextlib.contextmanager
def running(programs: Sequence[Program]) -> Iterator[None]:
    """Start the programs in order; kill them when the block ends."""
    try:
        for program in programs:
            program.start()
        yield
    finally:
        for program in reversed(programs):
            program.stop()
