"""The station's time in a media worker: every time that it is given or reports is in this time (R-23).

The control plane sends the time with the configuration and corrects it when it polls. Between these the clock counts
seconds since the machine's boot. So a wrong or jumping clock of the node moves neither the end of a recording nor a
fixed start, even while the control plane is away.
"""

import time
from datetime import UTC, datetime

from worker.process.node_time import node_time
from worker.wire.commands import SetClock
from worker.wire.configuration import LaunchClock
from worker.wire.status import ClockReading

# The longest time from writing a configuration to reading it, while its container is created and started.
LAUNCH_SECONDS = 10.0


def boot_seconds() -> float:
    """Unlike the monotonic clock, it also counts while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class StationClock:
    """Safe to use from several threads: it consists of one number."""

    def __init__(self) -> None:
        self._boot_at = node_time() - boot_seconds()

    def now(self) -> float:
        """Seconds since 1970."""
        return self._boot_at + boot_seconds()

    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.now(), UTC)

    def begin(self, told: LaunchClock | None) -> None:
        """Set it at the start. The node's clock says how long the start took, unless that is not plausible."""
        if told is None:
            return
        written = told.station_at.timestamp()
        by_node = node_time() - told.node_offset_seconds
        now = by_node if written <= by_node <= written + LAUNCH_SECONDS else written
        self._boot_at = now - boot_seconds()

    def take(self, command: SetClock) -> float:
        """Correct it. Returns by how many seconds it was moved."""
        before, self._boot_at = self._boot_at, command.station_at.timestamp() - command.boot_seconds
        return self._boot_at - before

    def reading(self) -> ClockReading:
        booted = boot_seconds()
        return ClockReading(
            node_at=datetime.fromtimestamp(node_time(), UTC),
            station_at=datetime.fromtimestamp(self._boot_at + booted, UTC),
            boot_seconds=booted,
        )


clock = StationClock()
