"""Notes the time without a picture inside a part that ffmpeg keeps writing, as a gap of the recording."""

import time
from datetime import datetime, timedelta

from worker.capture.journal import Journal
from worker.capture.splitting import Take
from worker.media.ffmpeg import Ffmpeg
from worker.process.station_clock import clock
from worker.wire.parts_and_gaps import MIN_GAP_SECONDS, Part

# The sound continued this much longer than the picture, so the file is longer than its picture. If both end at the same
# moment, they differ by less.
WENT_ON_SECONDS = 1.0


class PictureLoss:
    """`is_whole` sources lose nothing on the way: what comes late is not missing (HLS, RTMP, RTSP).

    A raw source (a card) has no time of its own: whatever it does not deliver is missing.
    """

    def __init__(self, journal: Journal, *, is_whole: bool, is_raw: bool) -> None:
        self._journal = journal
        self._is_whole, self._is_raw = is_whole, is_raw
        self._lost_at: datetime | None = None
        self._went_on = False
        self._noted = 0

    def forget(self) -> None:
        self._lost_at, self._went_on, self._noted = None, False, 0

    def note_outages(self, part: Part, ffmpeg: Ffmpeg) -> None:
        """Write down the times in which nothing at all arrived."""
        for outage in ffmpeg.progress.outages[self._noted :]:
            self._noted += 1
            length = outage.to_at - outage.from_at
            missed = min(length, outage.slipped_seconds) if self._is_whole else length
            if missed >= MIN_GAP_SECONDS:
                back_at = clock.moment() - timedelta(seconds=time.monotonic() - outage.to_at)
                self._journal.note_silence(part, back_at - timedelta(seconds=missed), back_at)

    def note_lost(self, ffmpeg: Ffmpeg) -> None:
        idle = ffmpeg.picture_idle_seconds()
        self._went_on = self._went_on or idle - ffmpeg.idle_seconds() > WENT_ON_SECONDS
        if self._lost_at is None:
            self._lost_at = clock.moment() - timedelta(seconds=idle)

    def note_back(self, part: Part, idle_seconds: float) -> bool:
        """Write down the gap, if something else continued. True if the picture was lost before."""
        if self._lost_at is None:
            return False
        if self._went_on or self._is_raw:
            self._journal.note_silence(part, self._lost_at, clock.moment() - timedelta(seconds=idle_seconds))
        self._lost_at, self._went_on = None, False
        return True

    def note_end(self, take: Take | None, ffmpeg: Ffmpeg) -> None:
        """The part ends without a picture although something else continued (the sound, a card's bars): a gap too."""
        if take:
            self.note_outages(take.part, ffmpeg)
        went_on = ffmpeg.picture_idle_seconds() - ffmpeg.idle_seconds() > WENT_ON_SECONDS
        if take and self._lost_at is not None and went_on:
            self._journal.note_silence(take.part, self._lost_at, clock.moment())
        self._lost_at = None
