"""A remote machine for tests: a network namespace behind a virtual cable that can lose all packets.

Packets vanish as they do when the power or a switch fails: no connection is refused, nothing answers, and callers run
into their time-outs. A killed process on the same machine cannot show that.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

NOBODY = "02:00:00:00:00:01"  # a hardware address that no network card has


@dataclass(frozen=True)
class FarMachine:
    """`here` and `there` are the addresses of the two ends; only this machine can reach them."""

    namespace: str
    cable: str
    here: str
    there: str

    @property
    def inside(self) -> list[str]:
        """The prefix of a command that is to run there."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}"]

    def fall_silent(self) -> None:
        """Lose all packets in both directions, without an error."""
        _ip("neigh", "replace", self.there, "lladdr", NOBODY, "dev", self.cable, "nud", "permanent")
        _ip("-n", self.namespace, "neigh", "replace", self.here, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")

    def come_back(self) -> None:
        _ip("neigh", "del", self.there, "dev", self.cable)
        _ip("-n", self.namespace, "neigh", "del", self.here, "dev", "eth0")


@contextlib.contextmanager
def far_machine() -> Iterator[FarMachine]:
    """Create the namespace and the cable; they exist until the block ends."""
    number = os.getpid() % 60
    machine = FarMachine(f"airlock-{os.getpid()}", f"al{os.getpid()}", f"10.213.{number}.1", f"10.213.{number}.2")
    _ip("netns", "add", machine.namespace)
    try:
        _ip("link", "add", machine.cable, "type", "veth", "peer", "name", "eth0", "netns", machine.namespace)
        _ip("addr", "add", f"{machine.here}/30", "dev", machine.cable)
        _ip("link", "set", machine.cable, "up")
        _ip("-n", machine.namespace, "addr", "add", f"{machine.there}/30", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", machine.namespace, "link", "set", device, "up")
        yield machine
    finally:
        _ip("link", "del", machine.cable, check=False)
        _ip("netns", "del", machine.namespace)


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, timeout=30)
