"""Parts and gaps of one recording, kept beside the files so that a successor goes on where this worker ended."""

import os
import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from worker.wire import codec
from worker.wire.recording import (
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
    return to_milliseconds(datetime.now(UTC))


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
        """Make the folder and read what an earlier worker of the same recording left."""
        folder.mkdir(parents=True, exist_ok=True)
        journal = cls(folder, name, SUFFIXES[container])
        try:
            stored = codec.loads(RecordingJournal, journal.path.read_bytes())
            journal.parts = list(stored.parts)
            journal.silences = [gap for gap in stored.gaps if gap.reason == NO_SIGNAL]
        except FileNotFoundError:
            pass
        except codec.WireError:
            # Half-written by a failing disk: the media files are what counts, and their names are not reused.
            os.replace(journal.path, journal.path.with_suffix(".json.bad"))
        for part in list(journal.parts):
            journal.close_abandoned(part)
        return journal

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.json"

    def close_abandoned(self, part: Part) -> None:
        """A part its worker could not finish (it was killed): the file's last write tells when the picture ended."""
        if part.ended_at:
            return
        path = self.folder / part.file
        if not path.exists() or not path.stat().st_size:
            self.parts.remove(part)
            path.unlink(missing_ok=True)
            return
        found = path.stat()
        last = datetime.fromtimestamp(found.st_mtime, UTC)
        part.bytes, part.end_reason, part.ended_at = found.st_size, WORKER_DIED, to_milliseconds(last)
        part.first_frame_at = first = part.first_frame_at or part.started_at or to_milliseconds(last)
        part.seconds = round(max(part.seconds, (last - first).total_seconds()), 3)
        part.last_frame_at = to_milliseconds(first + timedelta(seconds=part.seconds))

    def begin(self, first_number: int, now: datetime) -> Part:
        """A new part under a number no file has yet; the file is created here, so nobody else can take it."""
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
        """An empty file under that number is ours; False if somebody has it already."""
        try:
            os.close(os.open(self.folder / self.file_of(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return False
        return True

    def give_back(self, number: int) -> None:
        """What was reserved and never written to."""
        if not self.has_bytes_in(number):
            (self.folder / self.file_of(number)).unlink(missing_ok=True)

    def cut(self, part: Part, frames: int, seconds: float, number: int, *, reason: str) -> Part:
        """The recording goes on in the (reserved) file of that number: the next frame is the first one there."""
        with self._measuring:
            self._measure(part, frames, seconds)
            at = part.last_frame_at or now_in_milliseconds()
            part.ended_at, part.end_reason = at, reason
            following = Part(number=number, file=self.file_of(number), started_at=at, first_frame_at=at)
            self.parts.append(following)
        self.save()
        return following

    def note_first_frame(self, part: Part, moment: datetime) -> None:
        """The part lives; whatever lies between it and the one before is a gap."""
        self._place(part, moment)
        self.save()

    def _place(self, part: Part, moment: datetime) -> None:
        """Its first frame, which cannot have come before the last one of an earlier part."""
        earlier = [other.last_frame_at for other in self.parts if other.number < part.number and other.last_frame_at]
        bounds = [part.started_at, *earlier] if part.started_at else earlier
        part.first_frame_at = to_milliseconds(max([moment, *bounds]))

    @property
    def gaps(self) -> list[Gap]:
        """Within parts and between them, in the order of time."""
        return find_gaps(list(self.parts), list(self.silences))

    def note_silence(self, part: Part, lost_at: datetime, back_at: datetime) -> None:
        """The picture was away within a part (ffmpeg stayed connected): that is a gap too."""
        self.silences.append(gap_between(to_milliseconds(lost_at), to_milliseconds(back_at), NO_SIGNAL))
        self.save()

    def measure(self, part: Part, frames: int, seconds: float, age_seconds: float | None = None) -> None:
        """How long it is, and, as it is known better by and by, how long ago it began.

        Asked by the main loop and by who answers /status: one at a time, or an old size could overwrite the last.
        """
        with self._measuring:
            if part.ended_at:
                return
            if age_seconds is not None and part.first_frame_at:
                self._place(part, datetime.now(UTC) - timedelta(seconds=age_seconds))
            self._measure(part, frames, seconds)

    def _measure(self, part: Part, frames: int, seconds: float) -> None:
        part.frames, part.seconds = frames, round(seconds, 3)
        if part.first_frame_at:
            # ffmpeg may have read ahead: a frame cannot have been recorded later than now.
            last = min(part.first_frame_at + timedelta(seconds=seconds), datetime.now(UTC))
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
        """Close a part. One that never got a frame is no part: its empty file goes. True if it was kept."""
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
        """Whole or not at all. A full disk must not end a recording, so it is no reason to stop here."""
        draft = self.path.with_suffix(".json.new")
        try:
            draft.write_text(codec.dumps(self.contents()))
            os.replace(draft, self.path)
        except OSError as error:
            print(f"journal not written: {error}", flush=True)

    def contents(self) -> RecordingJournal:
        """What the file holds and the status reports: copies, because the parts go on changing."""
        return RecordingJournal(tuple(replace(part) for part in list(self.parts)), tuple(self.gaps))
