"""Notes the time without a picture inside a part that ffmpeg keeps writing, as a gap of the recording."""

from datetime import datetime, timedelta

from worker.capture.journal import Journal
from worker.capture.splitting import Take
from worker.media.ffmpeg import Ffmpeg
from worker.process.station_clock import clock
from worker.wire.parts_and_gaps import Part

# The sound continued this much longer than the picture, so the file is longer than its picture. If both end at the same
# moment, they differ by less.
WENT_ON_SECONDS = 1.0


class PictureLoss:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lost_at: datetime | None = None

    def forget(self) -> None:
        self._lost_at = None

    def note_lost(self, idle_seconds: float) -> None:
        if self._lost_at is None:
            self._lost_at = clock.moment() - timedelta(seconds=idle_seconds)

    def note_back(self, part: Part, idle_seconds: float) -> bool:
        """Write down the gap. True if the picture was lost before."""
        if self._lost_at is None:
            return False
        self._journal.note_silence(part, self._lost_at, clock.moment() - timedelta(seconds=idle_seconds))
        self._lost_at = None
        return True

    def note_end(self, take: Take | None, ffmpeg: Ffmpeg) -> None:
        """The part ends without a picture although something else continued (the sound, a card's bars): a gap too."""
        went_on = ffmpeg.picture_idle_seconds() - ffmpeg.idle_seconds() > WENT_ON_SECONDS
        if take and self._lost_at is not None and went_on:
            self._journal.note_silence(take.part, self._lost_at, clock.moment())
        self._lost_at = None
