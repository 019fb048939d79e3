"""The status of a recording, from the state of its main loop."""

import time
from typing import TYPE_CHECKING

from worker.media.disk_space import free_bytes
from worker.process.station_clock import clock
from worker.wire.status import CaptureStatus

if TYPE_CHECKING:
    from worker.capture.recording_loop import Capture


def status_of(capture: "Capture", parts_after: int) -> CaptureStatus:
    take = capture.take
    if take and take.ffmpeg.has_content:
        take.measure(capture.journal)
    journal = capture.journal.contents()
    idle = take.ffmpeg.picture_idle_seconds() if take else None
    return CaptureStatus(
        owner=capture.control.owner,
        generation=capture.control.generation,
        state=capture.state,
        signal=capture.has_signal(),
        frames=sum(part.frames for part in journal.parts),
        bytes=sum(part.bytes for part in journal.parts),
        seconds=round(sum(part.seconds for part in journal.parts), 3),
        last_frame_age_seconds=round(idle, 2) if idle is not None else None,
        first_frame_at=next((part.first_frame_at for part in journal.parts if part.first_frame_at), None),
        first_byte_at=capture.first_byte_at,
        started_at=capture.started_at,
        ends_at=capture.ends_at,
        folder=capture.config.folder,
        loop_age_seconds=round(time.monotonic() - capture.looked_at, 1) if capture.state != "done" else 0.0,
        restarts=capture.restarts,
        error=capture.error,
        free_bytes=free_bytes(capture.journal.folder),
        parts=tuple(part for part in journal.parts if part.number > parts_after),
        gaps=journal.gaps,
        clock=clock.reading(),
    )
