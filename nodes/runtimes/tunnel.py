"""ssh:// nodes: one ssh process that lends us the engine's socket as a local one.

The docker SDK can speak over ssh by itself, but not attach to a container's standard input that way, and that is how
our config goes in. Behind a forwarded socket everything works as on this machine. The ssh dies with the process that
started it, is started again when it has died, and asks nobody for a password.
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
_lock = threading.Lock()
_locks: dict[str, threading.Lock] = {}  # one dead line does not keep the others waiting
_tunnels: dict[str, "Tunnel"] = {}


class Tunnel:
    """One forwarded socket."""

    def __init__(self, address: str, keys_dir: Path, seconds: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="airlock-ssh-"))
        self.socket = self.folder / "docker.sock"
        self._words = tempfile.TemporaryFile("w+b")  # noqa: SIM115  (closed in close)
        self.process = subprocess.Popen(
            ssh_command(address, keys_dir, self.socket),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._words,  # a file: nobody reads a pipe, and a full one would stop ssh
            preexec_fn=partial(die_with, os.getpid()),
        )
        self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                words = self.close()
                raise Unreachable(f"ssh did not get through: {words or 'no answer in time'}")
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
        """End it; returns the last thing ssh said."""
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)
        self.folder.rmdir()
        self._words.seek(0)
        said = self._words.read()[-4096:]
        self._words.close()
        lines = said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def ssh_command(address: str, keys_dir: Path, local: Path) -> list[str]:
    """Never interactive, notices a dead line within seconds; a node may bring its own ssh_config."""
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
    """The socket on this machine that leads to the engine behind `address`."""
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


def close_all() -> None:
    for address in list(_tunnels):
        forget(address)


def forget(address: str) -> None:
    """The line to this address does not work: dig a new one next time."""
    with _lock_of(address):
        known = _tunnels.pop(address, None)
        if known is not None:
            known.close()


def _lock_of(address: str) -> threading.Lock:
    with _lock:
        return _locks.setdefault(address, threading.Lock())
