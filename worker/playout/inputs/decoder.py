"""Decodes one item with ffmpeg into frames and sound of the channel's format, and buffers them.

ffmpeg decodes ahead until the buffer is full and then waits. The director takes one frame at a time with its sound.
Sound is placed by its own time: late sound is dropped and missing sound is silence, so a badly mixed file never drifts.
"""

import contextlib
import subprocess
import threading
import time
from collections import deque
from typing import IO

from worker.media.ffmpeg import Binary
from worker.media.refusals import refusal_in
from worker.playout.inputs.decoder_process import (
    FIRST_PICTURE,
    FIRST_SOUND,
    Feed,
    Taken,
    explain,
    feed_stdin,
    open_process,
    says_no_stream,
)
from worker.playout.inputs.sound import Sound
from worker.playout.picture import SAMPLE_BYTES
from worker.playout.pipes import fill
from worker.process.redaction import redact
from worker.wire.picture import SAMPLE_RATE, Format

BUFFER_BYTES = 64 * 1024 * 1024
LEAST_FRAMES, MOST_FRAMES = 12, 60
AUDIO_BYTES = 60 * SAMPLE_RATE * SAMPLE_BYTES
READY_FRAMES = 4
# Sound may begin later than the picture. A ready picture waits this long to learn when.
SOUND_PATIENCE_SECONDS = 0.4
# Sound may also arrive after its picture: up to a second later in fragmented files and in encoders' streams. This much
# picture is held until its sound is there.
SKEW_SECONDS = 1.6
# The most frames that a live source holds beyond the sound it has.
LIVE_FRAMES = 20
# If ffmpeg never says when they begin, picture and sound count as beginning together after this time.
UNSAID_SECONDS = 1.0


class Decoder:
    """Create it on the main thread: the kernel ends its ffmpeg when that thread ends."""

    def __init__(
        self,
        binary: Binary,
        picture: Format,
        feed: Feed,
        *,
        offset_seconds: float = 0.0,
        streams: str = "av",
        secrets: tuple[str, ...] = (),
    ) -> None:
        self.picture, self.feed = picture, feed
        self.streams = streams
        self.said: deque[str] = deque(maxlen=40)
        self.spawned_at = time.monotonic()
        self.changed_at = self.spawned_at
        self.frames_read = 0
        self._dropped = 0
        self._secrets = secrets
        self._most = max(LEAST_FRAMES, min(MOST_FRAMES, BUFFER_BYTES // picture.frame_bytes))
        self._most_skewed = max(self._most, picture.frames_in(SKEW_SECONDS) + (LIVE_FRAMES if feed.is_live else 0))
        self._frames: deque[bytearray] = deque()
        self._sound = Sound()
        self._first_picture: float | None = None
        self._first_sound: float | None = None
        self._ready_since: float | None = None
        self._first_frame_at: float | None = None
        self._open = set(streams)
        self._is_closed = False
        self._is_placed = False
        self._is_heard = False  # its stderr is read to the end
        self._changed = threading.Condition()
        self._spawn(binary, offset_seconds)

    def _spawn(self, binary: Binary, offset_seconds: float) -> None:
        self.process, pipes = open_process(binary, self.feed, self.picture, self.streams, offset_seconds)
        readers = {"v": self._read_frames, "a": self._read_sound}
        threads = [threading.Thread(target=readers[each], args=[read]) for each, read in pipes.items()]
        self._threads = [*threads, threading.Thread(target=self._listen), threading.Thread(target=self._feed)]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    # --- for the director -------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def is_ready(self) -> bool:
        """It can go on air with the next frame."""
        with self._changed:
            if "v" not in self.streams:
                return len(self._sound.data) > 0 or "a" not in self._open
            if not self._frames:
                return False
            if self._first_picture is None and not self._assume_start_times():
                return False
            if len(self._frames) < READY_FRAMES and "v" in self._open:
                return False
            if (self._sound.starts_at is not None and not self._lacks_sound()) or (
                "a" not in self._open and not self._sound.data
            ):
                return True
            self._ready_since = self._ready_since or time.monotonic()
            patience = SKEW_SECONDS if self.feed.is_live else SOUND_PATIENCE_SECONDS
            if time.monotonic() - self._ready_since <= patience:
                return False
            if self._first_sound is None and self._sound.data:  # slightly wrong timing is better than no sound
                self._first_sound = self._first_picture
                self._place_sound()
            return True

    def _assume_start_times(self) -> bool:
        """After UNSAID_SECONDS without start times from ffmpeg, assume 0. A guess is better than a skipped clip."""
        if self._first_frame_at is None or time.monotonic() - self._first_frame_at < UNSAID_SECONDS:
            return False
        self._first_picture = 0.0
        self._first_sound = self._first_sound or 0.0
        self._place_sound()
        return True

    @property
    def has_failed(self) -> bool:
        """It ended without any frame or sound."""
        with self._changed:
            nothing = not self.frames_read and not self._sound.data and not self._sound.clock
            return nothing and not self._open and self._is_heard

    @property
    def is_drained(self) -> bool:
        with self._changed:
            return not self._open and not self._frames

    @property
    def lacks_a_stream(self) -> bool:
        """The item has no sound or no picture. It can be opened again with the stream it has."""
        if self.streams != "av" or not self.has_failed:
            return False
        return says_no_stream(self.said)

    @property
    def buffered(self) -> int:
        return len(self._frames)

    @property
    def is_overfull(self) -> bool:
        """A live source that waits for its start, or runs faster than our clock, has too many frames."""
        return self.buffered > LIVE_FRAMES + self._skew_frames()

    def catch_up(self) -> None:
        """Drop frames down to what a live source needs."""
        self.drop(self.buffered - LIVE_FRAMES // 2 - self._skew_frames())

    def _skew_frames(self) -> int:
        """The number of buffered frames whose sound is not there yet."""
        with self._changed:
            most, ahead = self.picture.frames_in(SKEW_SECONDS), self._sound.ahead
            if "a" not in self._open or "v" not in self.streams:
                return 0
            if ahead is None:  # no sound yet; a source without sound is not waited for
                is_new = self._first_frame_at is None or time.monotonic() - self._first_frame_at < 2 * SKEW_SECONDS
                return most if is_new else 0
            return max(0, min(most, len(self._frames) - self.picture.frames_in(ahead / SAMPLE_RATE)))

    def _lacks_sound(self) -> bool:
        """The next frames have no sound yet, and it may still come."""
        if "a" not in self._open:
            return False
        ahead = self._sound.ahead
        return ahead is None or ahead < READY_FRAMES * self.picture.samples_of(0)

    def _limit(self) -> int:
        """How many frames are decoded ahead. A full picture pipe would stop ffmpeg from reading the sound."""
        return self._most_skewed if self.feed.is_live or self._lacks_sound() else self._most

    def idle_seconds(self) -> float:
        """Seconds since the last frame or sound."""
        return time.monotonic() - self.changed_at

    def words(self) -> str:
        return self.refusal() or explain(self.said) or f"ffmpeg ended with {self.process.poll()}"

    def refusal(self) -> str:
        """Why a live source refuses us, as far as ffmpeg says so."""
        return refusal_in(self.said, self.feed.kind) if self.feed.kind else ""

    def take(self, samples: int) -> Taken:
        """The next frame and its sound, or nothing yet, or the end."""
        with self._changed:
            if "v" not in self.streams:
                is_end = "a" not in self._open and not self._sound.data
                return Taken(None, self._sound.take(samples), is_end)
            if not self._frames:
                return Taken(None, b"", is_end="v" not in self._open)
            frame = self._frames.popleft()
            sound = self._sound.take(samples)
            self._changed.notify_all()
            return Taken(frame, sound)

    def drop(self, frames: int) -> None:
        """Drop up to this many frames with their sound, for a live source that runs faster than our clock."""
        for _ in range(frames):
            # At 29.97 frames a second, frames have different numbers of samples.
            if self.buffered <= READY_FRAMES or self.take(self.picture.samples_of(self._dropped)).frame is None:
                return
            self._dropped += 1

    # --- its threads ------------------------------------------------------------------------------------------------

    def _read_frames(self, fd: int) -> None:
        with open(fd, "rb", buffering=0) as pipe:
            while not self._is_closed:
                frame = bytearray(self.picture.frame_bytes)
                if not fill(pipe, memoryview(frame)):
                    break
                with self._changed:
                    while len(self._frames) >= self._limit() and not self._is_closed:
                        self._changed.wait(1.0)
                    self._frames.append(frame)
                    self.frames_read += 1
                    self.changed_at = time.monotonic()
                    self._first_frame_at = self._first_frame_at or self.changed_at
                    self._place_sound()
        self._close("v")

    def _read_sound(self, fd: int) -> None:
        with open(fd, "rb", buffering=0) as pipe:
            while not self._is_closed and (piece := pipe.read(65536)):
                with self._changed:
                    while len(self._sound.data) >= AUDIO_BYTES and not self._is_closed:
                        self._changed.wait(1.0)
                    self._sound.data += piece
                    self.changed_at = time.monotonic()
                    self._place_sound()
        self._close("a")

    def _close(self, stream: str) -> None:
        with self._changed:
            self._open.discard(stream)
            self._changed.notify_all()

    def _place_sound(self) -> None:
        """Once both start times are known, set where the sound begins on the picture's time line."""
        if self._sound.starts_at is not None or self._first_sound is None:
            return
        if "v" not in self.streams:
            self._sound.starts_at = self._sound.clock
        elif self._first_picture is not None:
            self._sound.starts_at = round((self._first_sound - self._first_picture) * SAMPLE_RATE)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr:
            self._hear(self.process.stderr)
        self._is_heard = True

    def _hear(self, stderr: IO[bytes]) -> None:
        for raw in stderr:
            is_info = b"showinfo" in raw or b" pts_time:" in raw
            if is_info and self._is_placed:
                continue  # ffmpeg prints one line per frame; only the first matters
            line = raw.decode(errors="replace").rstrip()
            picture, sound = FIRST_PICTURE.search(line), FIRST_SOUND.search(line)
            if picture or sound:
                with self._changed:
                    if picture and self._first_picture is None:
                        self._first_picture = float(picture.group(1))
                    if sound and self._first_sound is None:
                        self._first_sound = float(sound.group(1))
                    self._place_sound()
                self._is_placed = self._sound.starts_at is not None
            if not is_info:
                self.said.append(redact(line, *self._secrets))

    def _feed(self) -> None:
        feed_stdin(self.process, self.feed, lambda: self._is_closed)

    def end(self) -> None:
        """Kill ffmpeg and drop the buffer. Call it on the main thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self.is_running:
            self.process.kill()  # its output is not kept
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)  # a process that the kernel does not release must not block us
        for thread in self._threads:
            thread.join(timeout=0.5)
        self._frames.clear()
