"""A machine at the other end of a cable: a network namespace of the test's own, which can fall silent.

Silent means that packets vanish, as they do when power or a switch fails. Nothing is refused, nothing answers; who
waits for it waits for a time-out. That is what a killed process on the same machine cannot show.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

NOBODY = "02:00:00:00:00:01"  # a hardware address no card has


@dataclass(frozen=True)
class FarMachine:
    """`here` and `there` are the two ends of the cable; only this machine has a way there."""

    namespace: str
    cable: str
    here: str
    there: str

    @property
    def inside(self) -> list[str]:
        """What to put in front of a command that is to run there."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}"]

    def fall_silent(self) -> None:
        """Whatever is sent there reaches nobody; nobody says so."""
        _ip("neigh", "replace", self.there, "lladdr", NOBODY, "dev", self.cable, "nud", "permanent")
        _ip("-n", self.namespace, "neigh", "replace", self.here, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")

    def come_back(self) -> None:
        _ip("neigh", "del", self.there, "dev", self.cable)
        _ip("-n", self.namespace, "neigh", "del", self.here, "dev", "eth0")


@contextlib.contextmanager
def far_machine() -> Iterator[FarMachine]:
    """Its addresses exist on this machine only, and only while the block lasts."""
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
