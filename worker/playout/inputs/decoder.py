"""One item on its way in: an ffmpeg that turns whatever it is into frames and sound of the channel's format.

It decodes ahead until its buffer is full and then waits; the director takes frame after frame, and with each the sound
that belongs to it. Sound is placed by its own time: what comes late is left out, what is missing is silence, so a
starved or badly mixed file never drifts.
"""

import contextlib
import os
import subprocess
import threading
import time
from collections import deque
from typing import IO

from worker.media.ffmpeg import Binary
from worker.media.sandbox import Cage
from worker.playout.inputs.decoder_process import (
    FIRST_PICTURE,
    FIRST_SOUND,
    Feed,
    Taken,
    command_for,
    explain,
    feed_stdin,
    says_no_stream,
    start_ffmpeg,
)
from worker.playout.inputs.sound import Sound
from worker.playout.picture import SAMPLE_BYTES
from worker.playout.pipes import fill, widen
from worker.process.redaction import redact
from worker.wire.picture import SAMPLE_RATE, Format

BUFFER_BYTES = 64 * 1024 * 1024
LEAST_FRAMES, MOST_FRAMES = 12, 60
AUDIO_BYTES = 60 * SAMPLE_RATE * SAMPLE_BYTES
READY_FRAMES = 4
# Sound may begin later than the picture; this long a ready picture waits to learn when.
SOUND_PATIENCE_SECONDS = 0.4
# Sound may also lie behind the picture it belongs to: a second in fragmented files, as much in what encoders send. So
# much picture is held until its sound is there.
SKEW_SECONDS = 1.6
# Beyond the sound that is there, a live source holds so many frames at most.
LIVE_FRAMES = 20
# Should nothing of that be understood: after so long picture and sound are taken to begin together.
UNSAID_SECONDS = 1.0


class Decoder:
    """Create it from the main thread: the kernel ends its ffmpeg with that thread."""

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
        self._is_heard = False  # it has said its last word
        self._changed = threading.Condition()
        self._spawn(binary, offset_seconds)

    def _spawn(self, binary: Binary, offset_seconds: float) -> None:
        cage = None if self.feed.reads is None else Cage(reads=self.feed.reads, runs=binary.path)
        pipes = {each: os.pipe() for each in self.streams}
        for read, _ in pipes.values():
            widen(read)
        writing = {each: write for each, (_, write) in pipes.items()}
        command = command_for(binary, self.feed, self.picture, writing, offset_seconds)
        try:
            self.process = start_ffmpeg(binary, command, cage, list(writing.values()))
        except BaseException:
            for read, _ in pipes.values():
                os.close(read)
            raise
        finally:
            if cage is not None:
                cage.close()
            for write in writing.values():
                os.close(write)
        readers = {"v": self._read_frames, "a": self._read_sound}
        threads = [threading.Thread(target=readers[each], args=[read]) for each, (read, _) in pipes.items()]
        self._threads = [*threads, threading.Thread(target=self._listen), threading.Thread(target=self._feed)]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    # --- what the director asks -------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def is_ready(self) -> bool:
        """It can go on air this very frame."""
        with self._changed:
            if "v" not in self.streams:
                return len(self._sound.data) > 0 or "a" not in self._open
            if not self._frames:
                return False
            if self._first_picture is None and not self._is_unsaid():
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
            if self._first_sound is None and self._sound.data:  # rather a little off than a clip without its sound
                self._first_sound = self._first_picture
                self._place_sound()
            return True

    def _is_unsaid(self) -> bool:
        """There are pictures, but no word of when the first one is. Rather a guess than a clip that is passed over."""
        if self._first_frame_at is None or time.monotonic() - self._first_frame_at < UNSAID_SECONDS:
            return False
        self._first_picture = 0.0
        self._first_sound = self._first_sound or 0.0
        self._place_sound()
        return True

    @property
    def has_failed(self) -> bool:
        """It ended and never gave anything."""
        with self._changed:
            nothing = not self.frames_read and not self._sound.data and not self._sound.clock
            return nothing and not self._open and self._is_heard

    @property
    def is_drained(self) -> bool:
        with self._changed:
            return not self._open and not self._frames

    @property
    def lacks_a_stream(self) -> bool:
        """It has no sound, or no picture; with what it has it can be opened again."""
        if self.streams != "av" or not self.has_failed:
            return False
        return says_no_stream(self.said)

    @property
    def buffered(self) -> int:
        return len(self._frames)

    @property
    def is_overfull(self) -> bool:
        """A live source that waits for its turn, or runs ahead of our clock, has more than is good."""
        return self.buffered > LIVE_FRAMES + self._skew_frames()

    def catch_up(self) -> None:
        """Back to what a live source needs."""
        self.drop(self.buffered - LIVE_FRAMES // 2 - self._skew_frames())

    def _skew_frames(self) -> int:
        """How many frames have come whose sound has not."""
        with self._changed:
            most, ahead = self.picture.frames_in(SKEW_SECONDS), self._sound.ahead
            if "a" not in self._open or "v" not in self.streams:
                return 0
            if ahead is None:  # not heard of yet; a source that stays silent is not waited for
                is_new = self._first_frame_at is None or time.monotonic() - self._first_frame_at < 2 * SKEW_SECONDS
                return most if is_new else 0
            return max(0, min(most, len(self._frames) - self.picture.frames_in(ahead / SAMPLE_RATE)))

    def _lacks_sound(self) -> bool:
        """What comes next has no sound yet, and may still get it."""
        if "a" not in self._open:
            return False
        ahead = self._sound.ahead
        return ahead is None or ahead < READY_FRAMES * self.picture.samples_of(0)

    def _limit(self) -> int:
        """So many frames are decoded ahead. A full picture pipe would keep ffmpeg from reading the sound, too."""
        return self._most_skewed if self.feed.is_live or self._lacks_sound() else self._most

    def idle_seconds(self) -> float:
        """How long nothing has come out of it."""
        return time.monotonic() - self.changed_at

    def words(self) -> str:
        return explain(self.said) or f"ffmpeg ended with {self.process.poll()}"

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
        """Leave out up to so many frames with their sound: a live source that runs ahead of our clock."""
        for _ in range(frames):
            # Of 29.97 frames a second, not every one has as many samples as the other.
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
        """As soon as both beginnings are known: where on the picture's time line the sound begins."""
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
                continue  # a line per frame, of which only the first was wanted
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
        """Nothing more of it is wanted. From the main thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self.is_running:
            self.process.kill()  # nothing it writes is kept
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)  # one that the kernel does not let go is not worth waiting for
        for thread in self._threads:
            thread.join(timeout=0.5)
        self._frames.clear()
