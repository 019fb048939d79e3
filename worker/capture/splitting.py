"""Splits a recording by the clock (R-16): ffmpeg itself switches to the next file, without losing a frame.

ffmpeg writes the name and end time of each closed file to a pipe. The next number is always reserved ahead of time by
an empty file, so that two media workers on one storage never write to the same file.
"""

import contextlib
import os
import threading
import time
from collections import deque
from dataclasses import dataclass

from worker.capture.journal import Journal
from worker.media.ffmpeg import Ffmpeg
from worker.process.station_clock import clock
from worker.wire.parts_and_gaps import Part

SPLIT = "split"
# Otherwise a track that is mostly silent (subtitles, cues) holds back all others for up to 10 s.
INTERLEAVE = "max_interleave_delta=1000000"
MUXERS = {
    "mpegts": ("mpegts", ""),
    "fmp4": ("mp4", "movflags=frag_keyframe+empty_moov+default_base_moof"),
}


@dataclass(frozen=True)
class Take:
    """A file being recorded, the ffmpeg that writes it, and how much that ffmpeg wrote before this file."""

    part: Part
    ffmpeg: Ffmpeg
    frames_before: int = 0
    seconds_before: float = 0.0

    def measure(self, journal: Journal) -> None:
        """Update the length and start of the part in the journal."""
        ffmpeg, age = self.ffmpeg, self.ffmpeg.picture_age_seconds()
        journal.measure(
            self.part,
            max(0, ffmpeg.progress.frames - self.frames_before),
            max(0.0, ffmpeg.picture_seconds() - self.seconds_before),
            None if self.seconds_before else age,  # after a split the start is known: the end of the part before
            ffmpeg.last_frame_age_seconds() if ffmpeg.progress.outages else None,
        )


class Splitter:
    """The pipe of one ffmpeg that begins with `part`, and the number of its next file."""

    def __init__(self, journal: Journal, part: Part, every_seconds: int, offset_seconds: int) -> None:
        self.journal, self.every_seconds, self.offset_seconds = journal, every_seconds, offset_seconds
        self._next = part.number + 1
        self._is_held = self._is_taken = False
        self._ends: deque[float] = deque()
        reading, self.descriptor = os.pipe()
        self._reader = threading.Thread(target=self._read, args=[reading], daemon=True)
        self._reader.start()
        self._hold()

    def slave(self, part: Part, container: str) -> str:
        """The output for ffmpeg's tee: this part and the parts after it."""
        options = {
            "segment_time": str(self.every_seconds),
            "segment_atclocktime": "1",
            "segment_clocktime_offset": f"{self._clock_offset():.3f}",
            "segment_list": f"pipe:{self.descriptor}",
            "segment_list_type": "csv",
            "reset_timestamps": "1",
        }
        return segment_output(pattern_of(self.journal, part), part.number, container, options)

    def _clock_offset(self) -> float:
        """How far house time is ahead of the machine's clock, by which ffmpeg splits."""
        return (self.offset_seconds + clock.now() - time.time()) % self.every_seconds

    def close(self) -> None:
        """Close our writing end of the pipe; ffmpeg has its own."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    @property
    def can_go_on(self) -> bool:
        """False: another media worker has the next number, and ffmpeg would overwrite its file."""
        return not self._is_taken

    def go_over(self, take: Take) -> Take:
        """The take of the current file. The files before it are closed in the journal."""
        while self._ends and not self._is_taken and self.journal.has_bytes_in(self._next):
            take = self._cut(take, self._ends.popleft())
        if not self._is_held and not self._is_taken:
            self._hold()
        return take

    def end(self, take: Take) -> Take:
        """ffmpeg has ended: read the rest of the pipe, and delete the reserved file if it is empty."""
        self.close()
        self._reader.join(timeout=2)
        take = self.go_over(take)
        if self._is_held:
            self._is_held = False
            self.journal.give_back(self._next)
        return take

    def _cut(self, take: Take, end_seconds: float) -> Take:
        ffmpeg, progress = take.ffmpeg, take.ffmpeg.progress
        after = progress.out_seconds - end_seconds  # negative if the last progress is older than the split
        seconds = max(take.seconds_before, ffmpeg.picture_seconds() - after)
        frames = max(take.frames_before, progress.frames - round(after * (progress.fps or 25.0)))
        age = ffmpeg.last_frame_age_seconds()
        part = self.journal.cut(
            take.part,
            frames - take.frames_before,
            seconds - take.seconds_before,
            self._next,
            reason=SPLIT,
            age_seconds=age + after if progress.outages and age is not None else None,
        )
        self._next, self._is_held = self._next + 1, False
        self._hold()
        return Take(part, ffmpeg, frames, seconds)

    def _hold(self) -> None:
        """Reserve the next file. If the storage refuses, the next check tries again; the current file continues."""
        try:
            self._is_held = self.journal.reserve(self._next)
            self._is_taken = not self._is_held
        except OSError as error:
            print(f"The next file could not be reserved. error={error}", flush=True)

    def _read(self, descriptor: int) -> None:
        """Lines like `name-003.ts,12.080000,17.080000`. The name may contain anything; the numbers come last."""
        with open(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with contextlib.suppress(ValueError, IndexError):
                    self._ends.append(float(line.rsplit(",", 1)[1]))


def pattern_of(journal: Journal, part: Part) -> str:
    """The path of this part and those after it, as a pattern for ffmpeg."""
    path = str(journal.folder / journal.file_of(part.number)).replace("%", "%%")
    return path.removesuffix(f"-{part.number:03d}{journal.suffix}") + f"-%03d{journal.suffix}"


def segment_output(pattern: str, number: int, container: str, options: dict[str, str]) -> str:
    """The output for ffmpeg's tee that writes the file of this number, and further ones if the options say when."""
    muxer, more = MUXERS[container]
    options = {
        "f": "segment",
        **options,
        "segment_format": muxer,
        "segment_format_options": ":".join(filter(None, [more, "flush_packets=1", INTERLEAVE])),
        "segment_start_number": str(number),
    }
    # Unescaped twice: as one of the tee's outputs, and as one of its options.
    words = ":".join(f"{name}={escape_tee(escape_tee(value))}" for name, value in options.items())
    return f"[{words}:{INTERLEAVE}]{escape_tee(pattern)}"


def escape_tee(text: str) -> str:
    """Escape the special characters of ffmpeg's tee in a path or value."""
    return "".join(f"\\{char}" if char in "\\'|[]:" else char for char in text)
