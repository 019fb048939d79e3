"""The beginning of a recording, and the border with the recording of the same source that ends at that moment.

A source that two can read at once is read earlier, so that its next key frame is there in time. A port can have only
one reader: it is tried again and again until the other media worker releases it.
"""

from worker.media.sources import needs_port
from worker.process.station_clock import clock
from worker.wire.configuration import CaptureConfig

# ffmpeg usually needs this long until its first frame, so it is started this much before the beginning.
BEGIN_LEAD_SECONDS = 0.5
BORDER_LEAD_SECONDS = 3.0
BORDER_SECONDS = 5.0
BORDER_RETRY_SECONDS = 0.05
RETRY_SECONDS = (0.3, 0.5, 1.0, 2.0)


def lead_seconds(config: CaptureConfig) -> float:
    """How long before its beginning a recording opens the source."""
    if not config.follows:
        return BEGIN_LEAD_SECONDS
    return 0.0 if needs_port(config.source) else BORDER_LEAD_SECONDS


def retry_seconds(config: CaptureConfig, failures: int, *, has_parts: bool) -> float:
    """How long to wait before the source is opened again."""
    if config.follows and config.begins_at and not has_parts:
        since = (clock.moment() - config.begins_at).total_seconds()
        if since < BORDER_SECONDS:
            return BORDER_RETRY_SECONDS
    return RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
