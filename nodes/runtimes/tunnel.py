"""ssh:// nodes: an ssh process forwards the engine's socket to a local one.

The docker SDK has its own ssh support, but cannot attach to a container's standard input that way, which we need for
the config. With a forwarded socket everything works as on this machine. The ssh process ends with the process that
started it, is restarted when it has ended, and never asks for a password.

All calls to an engine share one ssh process, so a call that fails does not end it. It ends itself when the other side
is silent (ServerAliveInterval); if it hangs itself, it is replaced after SILENT_SECONDS in which no call succeeded.
"""

import os
import socket
import subprocess
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from nodes.runtimes.base import Unreachable
from worker.process.parent_death import die_with

REMOTE_SOCKET = "/var/run/docker.sock"
SILENT_SECONDS = 30.0
_lock = threading.Lock()
_locks: dict[str, threading.Lock] = {}  # one per address: a dead connection does not delay the others
_tunnels: dict[str, "Tunnel"] = {}


class Tunnel:
    """One forwarded socket."""

    def __init__(self, address: str, keys_dir: Path, seconds: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="airlock-ssh-"))
        self.socket = self.folder / "docker.sock"
        self._errors = tempfile.TemporaryFile("w+b")  # noqa: SIM115  (closed in close)
        self.process = subprocess.Popen(
            ssh_command(address, keys_dir, self.socket),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,  # a file, because a pipe that is not read would fill up and block ssh
            preexec_fn=partial(die_with, os.getpid()),
        )
        self._wait(seconds)
        self.answered_at = time.monotonic()

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                message = self.close()
                raise Unreachable(f"The ssh connection failed: {message or 'no answer in time'}")
            time.sleep(0.05)

    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> str:
        """End the ssh process; returns its last error line."""
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)
        self.folder.rmdir()
        self._errors.seek(0)
        said = self._errors.read()[-4096:]
        self._errors.close()
        lines = said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def ssh_command(address: str, keys_dir: Path, local: Path) -> list[str]:
    """The ssh command: not interactive, detects a dead connection within seconds, uses the node's ssh_config if any."""
    parts = urlsplit(address)
    command = ["ssh", "-N", "-T"]
    own_config = keys_dir / "ssh_config"
    if own_config.is_file():
        command += ["-F", str(own_config)]
    for option in ("BatchMode=yes", "ExitOnForwardFailure=yes", "ConnectTimeout=5", "ServerAliveInterval=3"):
        command += ["-o", option]
    command += ["-o", "ServerAliveCountMax=2", "-o", "StreamLocalBindUnlink=yes", "-L", f"{local}:{REMOTE_SOCKET}"]
    if parts.port:
        command += ["-p", str(parts.port)]
    if parts.username:
        command += ["-l", parts.username]
    return [*command, "--", parts.hostname or ""]


def local_socket(address: str, keys_dir: Path, seconds: float) -> Path:
    """The local socket that is forwarded to the engine at `address`."""
    with _lock_of(address):
        known = _tunnels.get(address)
        if known is not None and known.is_alive():
            return known.socket
        if known is not None:
            known.close()
        _tunnels.pop(address, None)
        try:
            _tunnels[address] = Tunnel(address, keys_dir, seconds)
        except FileNotFoundError as error:
            raise Unreachable("There is no ssh program on this machine.") from error
        return _tunnels[address].socket


def note_answer(address: str) -> None:
    """A call to this address succeeded."""
    known = _tunnels.get(address)
    if known is not None:
        known.answered_at = time.monotonic()


def note_failure(address: str) -> None:
    """A call to this address failed. If none has succeeded for long, the next call opens a new tunnel."""
    with _lock_of(address):
        known = _tunnels.get(address)
        if known is not None and time.monotonic() - known.answered_at > SILENT_SECONDS:
            _tunnels.pop(address).close()


def close_all() -> None:
    for address in list(_tunnels):
        with _lock_of(address):
            known = _tunnels.pop(address, None)
            if known is not None:
                known.close()


def _lock_of(address: str) -> threading.Lock:
    with _lock:
        return _locks.setdefault(address, threading.Lock())
