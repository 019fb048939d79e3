"""The process runtime: each media worker is a detached process with its own folder, found again after a restart.

The folder's name is the container's name. One rename creates it complete, so a second start of the same name finds it.
The media worker locks a file in it, so two can never run; `worker.launch` records its pid and its end.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import imageio_ffmpeg
from django.conf import settings

from nodes import failpoints
from nodes.runtimes.base import (
    Disk,
    Identity,
    Launch,
    NameTaken,
    Observed,
    OutcomeUnknown,
    Refused,
    Runtime,
    Status,
    Unreachable,
)
from worker.process.node_time import OFFSET_FILE, node_time
from worker.wire import codec
from worker.wire.launcher import ExitNote, ProcessId, ProcessIds

ALREADY_RUNNING = 73  # the exit code of worker.launch when the lock is held
LOG_TAIL_BYTES = 1024 * 1024
KEPT_NAMES = ("PATH", "HOME", "LANG", "TMPDIR", OFFSET_FILE)  # environment variables that the processes inherit
T = TypeVar("T")


class ProcessRuntime(Runtime):
    def __init__(self, installation: Callable[[], str], folder: Path, *, media_dir: str, is_here: bool = True) -> None:
        super().__init__(installation)
        self.is_here = is_here
        self.folder = folder
        self.media_dir = Path(media_dir)

    def _check_here(self) -> None:
        """Raise for a node of another machine: its processes are not visible here, which does not mean they ended."""
        if not self.is_here:
            raise Unreachable(
                "This node's processes run on another machine, in another container or with another data folder."
            )

    def ping(self) -> str:
        self._check_here()
        return f"processes, Python {sys.version_info.major}.{sys.version_info.minor}"

    def check_ready(self) -> None:
        self._check_here()
        if self.folder.parent.exists() and not os.access(self.folder.parent, os.W_OK):
            raise Refused(f"{self.folder.parent} cannot be written to.")

    def free_disk(self) -> Disk:
        self._check_here()
        try:
            self.media_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.media_dir):
                pass
            usage = shutil.disk_usage(self.media_dir)
        except OSError as error:
            raise Refused(f"The media folder cannot be used: {error}") from error
        return Disk(usage.free, usage.total, datetime.fromtimestamp(node_time(), UTC))

    def list_ours(self) -> list[Observed]:
        self._check_here()
        if not self.folder.is_dir():
            return []
        try:
            names = [path.name for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        except OSError as error:
            raise Refused(f"The folder of media workers cannot be read: {error}") from error
        found = [self.inspect(name) for name in sorted(names)]
        return [observed for observed in found if observed and self.is_ours(observed)]

    def inspect(self, name: str) -> Observed | None:
        self._check_here()
        home = self.folder / name
        if not home.is_dir():
            return None
        identity = _read(Identity, home / "labels.json")
        ids = _read(ProcessIds, home / "pids.json")
        if ids is None:
            return Observed(name, identity, Status.CREATED)
        ended = _read(ExitNote, home / "exit.json")
        # The launcher lives until it has recorded the media worker's end; until then it counts as running.
        if ended is None and (_is_alive(ids.boot, ids.worker) or _is_alive(ids.boot, ids.launcher)):
            return Observed(name, identity, Status.RUNNING)
        return Observed(name, identity, Status.EXITED, exit_code=ended.code if ended else None)

    def start(self, launch: Launch) -> Observed:
        self._check_here()
        self._create(launch)
        failpoints.reach(failpoints.START_AFTER_CREATE)
        observed = self.inspect(launch.name)
        if observed is None:
            raise OutcomeUnknown(f"{launch.name} was created but cannot be found.")
        self.check_ours(observed, launch)
        if observed.status is not Status.CREATED:
            return observed
        self._spawn(launch)
        return self.inspect(launch.name) or observed

    def stop(self, name: str, *, force: bool = False) -> None:
        observed = self.inspect(name)
        if observed is None:
            return
        self.check_ours(observed)
        ids = _read(ProcessIds, self.folder / name / "pids.json")
        if observed.status is Status.RUNNING and ids and _is_alive(ids.boot, ids.worker):
            # ffmpeg is set to die with its media worker, so this one signal ends both.
            with contextlib.suppress(ProcessLookupError):
                os.kill(ids.worker.pid, signal.SIGKILL if force else signal.SIGTERM)

    def remove(self, name: str) -> None:
        observed = self.inspect(name)
        if observed is None:
            return
        self.check_ours(observed)
        if observed.status is Status.RUNNING:
            raise Refused(f"{name} is still running.")
        doomed = self.folder / f".{name}.gone.{uuid4().hex[:8]}"
        try:
            (self.folder / name).rename(doomed)
        except FileNotFoundError:
            return
        shutil.rmtree(doomed, ignore_errors=True)

    def logs(self, name: str, lines: int = 100) -> str:
        self._check_here()
        path = self.folder / name / "log"
        try:
            with path.open("rb") as handle:
                handle.seek(0, os.SEEK_END)
                handle.seek(max(0, handle.tell() - LOG_TAIL_BYTES))
                text = handle.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _create(self, launch: Launch) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.folder / f".{launch.name}.new.{uuid4().hex[:8]}"
        draft.mkdir(mode=0o700)
        (draft / "labels.json").write_text(codec.dumps(launch.identity))
        try:
            draft.rename(self.folder / launch.name)
        except OSError:  # the folder exists already: `start` checks whether it is ours
            shutil.rmtree(draft)
            if not (self.folder / launch.name).is_dir():
                raise NameTaken(f"The name {launch.name} is used by a file.") from None

    def _spawn(self, launch: Launch) -> None:
        command = [sys.executable, "-m", "worker.launch", str(self.folder / launch.name), launch.program]
        try:
            launcher = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=settings.BASE_DIR,
                env=self._environment(),
            )
        except OSError as error:
            raise Refused(f"The process did not start: {error}") from error
        failpoints.reach(failpoints.START_AFTER_START)
        try:
            _, complaint = launcher.communicate(launch.config.encode() + b"\n", timeout=settings.NODE_CALL_SECONDS)
        except subprocess.TimeoutExpired as error:
            launcher.kill()
            launcher.communicate()
            raise OutcomeUnknown("The process did not start in time.") from error
        if launcher.returncode not in {0, ALREADY_RUNNING}:
            raise Refused(f"The process did not start: {complaint.decode(errors='replace').strip()[-300:]}")

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT_NAMES if name in os.environ}
        kept["AIRLOCK_MEDIA"] = str(self.media_dir)
        if settings.FFMPEG:
            kept["AIRLOCK_FFMPEG"] = settings.FFMPEG
        kept["AIRLOCK_FFMPEG_FALLBACK"] = imageio_ffmpeg.get_ffmpeg_exe()
        return kept


def _read(kind: type[T], path: Path) -> T | None:
    """None: it is not there (yet), or not written by a launcher."""
    try:
        return codec.loads(kind, path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, codec.WireError):
        return None


def _is_alive(boot: str, process: ProcessId) -> bool:
    """Is the same process still running? A zombie, or a later process with the same pid, does not count."""
    if boot != Path("/proc/sys/kernel/random/boot_id").read_text().strip():
        return False
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
    except OSError:
        return False
    fields = stat[stat.rindex(")") + 2 :].split()
    return fields[0] not in {"Z", "X"} and fields[19] == process.started
