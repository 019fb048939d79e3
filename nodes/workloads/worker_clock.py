"""Checks the clocks that a media worker reports: corrects its station time, notes the offset of its node (R-23).

A correction sets the right time at once: at the start, and for a recording always, because the scheduler ends it by the
same clock. A channel that is on air is moved in small steps, so that a database clock that jumps for a while does not
move its fixed starts far.
"""

import logging
from datetime import timedelta

from nodes.machines import node_clock
from nodes.machines.node_clock import Span, StationReading, offset_of
from nodes.models import Node, Workload
from nodes.workloads.media_worker_client import WorkerRefused, WorkerSilent, tell
from station.sealing import CannotOpen
from worker.wire.commands import SetClock
from worker.wire.status import ClockReading, WorkerStatus

logger = logging.getLogger(__name__)

# About one frame. A smaller error is left as it is.
TOLERATED_SECONDS = 0.05
# On air. More than a machine's clock drifts from poll to poll while its time service adjusts it (chrony: 8 %).
STEP_SECONDS = 0.1


def check_clock(
    workload: Workload, reading: ClockReading | None, call: Span, station: StationReading, *, is_start: bool = False
) -> None:
    """`reading` came with the answer to `call`. An older media worker sends none."""
    if reading is None:
        return
    error = offset_of(reading.station_at, call, station)
    if error.is_over(TOLERATED_SECONDS):
        is_on_air = workload.is_fenced and not is_start
        step = max(-STEP_SECONDS, min(STEP_SECONDS, error.seconds)) if is_on_air else error.seconds
        _correct(workload, reading, step)
    node_clock.note(workload.node, offset_of(reading.node_at, call, station), station.now)


def is_clock_fine(node: Node, reading: ClockReading | None, call: Span, station: StationReading) -> bool:
    """Is there nothing to correct and nothing new to store?"""
    if reading is None:
        return True
    if offset_of(reading.station_at, call, station).is_over(TOLERATED_SECONDS):
        return False
    return not node_clock.is_news(node, offset_of(reading.node_at, call, station), station.now)


def _correct(workload: Workload, reading: ClockReading, ahead_seconds: float) -> None:
    try:
        tell(
            workload,
            SetClock(reading.boot_seconds, reading.station_at - timedelta(seconds=ahead_seconds)),
            WorkerStatus,
        )
        logger.debug("The clock of a media worker was corrected. workload=%s by=%.3f", workload.name, -ahead_seconds)
    except (WorkerSilent, WorkerRefused, CannotOpen) as fault:  # the next poll tries again
        logger.warning("The clock of a media worker was not corrected. workload=%s error=%s", workload.name, fault)
