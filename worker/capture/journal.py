"""Parts and gaps of one recording, stored beside its files so that the next media worker can continue."""

import os
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from worker.process.station_clock import clock
from worker.wire import codec
from worker.wire.parts_and_gaps import (
    NO_SIGNAL,
    WORKER_DIED,
    Gap,
    Part,
    RecordingJournal,
    find_gaps,
    gap_between,
    to_milliseconds,
)

SUFFIXES = {"mpegts": ".ts", "fmp4": ".mp4"}


def now_in_milliseconds() -> datetime:
    return to_milliseconds(clock.moment())


def _seconds_since_write(path: Path) -> float:
    """By the clock of the file system, which may be another machine's."""
    try:
        with tempfile.TemporaryFile(dir=path.parent) as new:
            now = os.fstat(new.fileno()).st_mtime
    except OSError:  # a full disk
        now = time.time()
    return max(0.0, now - path.stat().st_mtime)


@dataclass
class Journal:
    folder: Path
    name: str
    suffix: str
    parts: list[Part] = field(default_factory=list)
    # Gaps within parts; those between parts follow from the parts.
    silences: list[Gap] = field(default_factory=list)
    _measuring: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def open(cls, folder: Path, name: str, container: str) -> "Journal":
        """Create the folder and read the journal of an earlier media worker of the same recording."""
        folder.mkdir(parents=True, exist_ok=True)
        journal = cls(folder, name, SUFFIXES[container])
        try:
            stored = codec.loads(RecordingJournal, journal.path.read_bytes())
            journal.parts = list(stored.parts)
            journal.silences = [gap for gap in stored.gaps if gap.reason == NO_SIGNAL]
        except FileNotFoundError:
            pass
        except codec.WireError:
            # A failing disk left half a file. The media files matter more, and their names are not reused.
            os.replace(journal.path, journal.path.with_suffix(".json.bad"))
        for part in list(journal.parts):
            journal.close_abandoned(part)
        return journal

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.json"

    def close_abandoned(self, part: Part) -> None:
        """Close a part whose media worker was killed: the last write to the file tells when the picture ended."""
        if part.ended_at:
            return
        path = self.folder / part.file
        if not path.exists() or not path.stat().st_size:
            self.parts.remove(part)
            path.unlink(missing_ok=True)
            return
        found = path.stat()
        last = clock.moment() - timedelta(seconds=_seconds_since_write(path))
        part.bytes, part.end_reason, part.ended_at = found.st_size, WORKER_DIED, to_milliseconds(last)
        part.first_frame_at = first = part.first_frame_at or part.started_at or to_milliseconds(last)
        part.seconds = round(max(part.seconds, (last - first).total_seconds()), 3)
        part.last_frame_at = to_milliseconds(first + timedelta(seconds=part.seconds))

    def begin(self, first_number: int, now: datetime) -> Part:
        """A new part with an unused number. Its file is created here, so that no other media worker can take it."""
        number = max([first_number - 1, *(part.number for part in self.parts)]) + 1
        while not self.reserve(number):
            number += 1
        part = Part(number=number, file=self.file_of(number), started_at=to_milliseconds(now))
        self.parts.append(part)
        self.save()
        return part

    def file_of(self, number: int) -> str:
        return f"{self.name}-{number:03d}{self.suffix}"

    def reserve(self, number: int) -> bool:
        """Create an empty file with that number. False if it exists already."""
        try:
            os.close(os.open(self.folder / self.file_of(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return False
        return True

    def give_back(self, number: int) -> None:
        """Delete a reserved file that was never written."""
        if not self.has_bytes_in(number):
            (self.folder / self.file_of(number)).unlink(missing_ok=True)

    def cut(
        self, part: Part, frames: int, seconds: float, number: int, *, reason: str, age_seconds: float | None = None
    ) -> Part:
        """Continue in the reserved file of that number, with the next frame, which arrived `age_seconds` ago."""
        with self._measuring:
            self._measure(part, frames, seconds, age_seconds)
            at = part.last_frame_at or now_in_milliseconds()
            part.ended_at, part.end_reason = at, reason
            following = Part(number=number, file=self.file_of(number), started_at=at, first_frame_at=at)
            self.parts.append(following)
        self.save()
        return following

    def note_first_frame(self, part: Part, moment: datetime) -> None:
        """Set the time of the first frame. The time since the part before is a gap."""
        self._place(part, moment)
        self.save()

    def _place(self, part: Part, moment: datetime) -> None:
        """The first frame cannot be earlier than the last frame of an earlier part."""
        earlier = [other.last_frame_at for other in self.parts if other.number < part.number and other.last_frame_at]
        bounds = [part.started_at, *earlier] if part.started_at else earlier
        part.first_frame_at = to_milliseconds(max([moment, *bounds]))

    def move_open_parts(self, seconds: float) -> None:
        """The clock was corrected by `seconds`: so are the times of the part that is being written."""
        moved = timedelta(seconds=seconds)
        with self._measuring:
            for part in self.parts:
                if part.ended_at is None:
                    part.started_at = part.started_at and to_milliseconds(part.started_at + moved)
                    part.first_frame_at = part.first_frame_at and to_milliseconds(part.first_frame_at + moved)

    @property
    def gaps(self) -> list[Gap]:
        """Gaps within and between parts, in order of time."""
        return find_gaps(list(self.parts), list(self.silences))

    def note_silence(self, part: Part, lost_at: datetime, back_at: datetime) -> None:
        """Note a gap within a part: ffmpeg stayed connected, but there was no picture."""
        self.silences.append(gap_between(to_milliseconds(lost_at), to_milliseconds(back_at), NO_SIGNAL))
        self.save()

    def measure(
        self,
        part: Part,
        frames: int,
        seconds: float,
        age_seconds: float | None = None,
        last_age_seconds: float | None = None,
    ) -> None:
        """Update the length of a part, and the time of its first frame, which becomes more precise with time.

        `last_age_seconds` is the time since its last frame, if that does not follow from its length.

        The main loop and /status call this on different threads. The lock keeps an old size from overwriting a new one.
        """
        with self._measuring:
            if part.ended_at:
                return
            if age_seconds is not None and part.first_frame_at:
                self._place(part, clock.moment() - timedelta(seconds=age_seconds))
            self._measure(part, frames, seconds, last_age_seconds)

    def _measure(self, part: Part, frames: int, seconds: float, last_age_seconds: float | None = None) -> None:
        part.frames, part.seconds = frames, round(seconds, 3)
        if part.first_frame_at:
            # ffmpeg may have read ahead: a frame cannot have been recorded later than now.
            now = clock.moment()
            last = min(part.first_frame_at + timedelta(seconds=seconds), now)
            if last_age_seconds is not None:
                last = max(part.first_frame_at, now - timedelta(seconds=last_age_seconds))
            part.last_frame_at = to_milliseconds(last)
        try:
            part.bytes = (self.folder / part.file).stat().st_size
        except FileNotFoundError:
            part.bytes = 0

    def has_bytes_in(self, number: int) -> bool:
        try:
            return (self.folder / self.file_of(number)).stat().st_size > 0
        except FileNotFoundError:
            return False

    def finish(self, part: Part, reason: str) -> bool:
        """Close a part. A part without any bytes is deleted. True if it was kept."""
        with self._measuring:
            part.ended_at = now_in_milliseconds()
            part.end_reason = reason
        path = self.folder / part.file
        kept = bool(part.bytes)
        if not kept:
            self.parts.remove(part)
            path.unlink(missing_ok=True)
        self.save()
        return kept

    def save(self) -> None:
        """Write the journal atomically. A full disk is only reported, because it must not end the recording."""
        draft = self.path.with_suffix(".json.new")
        try:
            draft.write_text(codec.dumps(self.contents()))
            os.replace(draft, self.path)
        except OSError as error:
            print(f"The journal could not be written. error={error}", flush=True)

    def contents(self) -> RecordingJournal:
        """The content for the file and the status. It consists of copies, because the parts keep changing."""
        return RecordingJournal(tuple(replace(part) for part in list(self.parts)), tuple(self.gaps))
