"""The encoder of a channel: raw frames in, one MPEG transport stream out."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import IO

from worker.media.ffmpeg import Binary, words_of
from worker.playout.loaded_config import ChannelSetup
from worker.playout.pipes import Data, Pump, widen
from worker.process.parent_death import die_with
from worker.wire.picture import SAMPLE_RATE, Format

VIDEO_BYTES = 64 * 1024 * 1024
LEAST_FRAMES = 10
SOUND_BYTES = 4 * 1024 * 1024
CHUNK = 64 * 1024
STALL_SECONDS = 6.0
FIRST_STAMP_SECONDS = 10.0  # an output's clock is a little behind, and must not begin below zero
LONGEST_NAME = 40  # both names have to fit into one packet, also in UTF-8


def raw_inputs(picture: Format, video: int, sound: int) -> list[str]:
    """Two pipes without probing. With probing, ffmpeg waits for one pipe while we wait for it to read the other."""
    plain = ["-probesize", "32", "-analyzeduration", "0", "-thread_queue_size", "64"]
    size = f"{picture.width}x{picture.height}"
    first = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", size, "-framerate", picture.rate_text]
    second = ["-f", "s16le", "-ar", str(SAMPLE_RATE), "-ac", "2"]
    return [*first, *plain, "-i", f"pipe:{video}", *second, *plain, "-i", f"pipe:{sound}"]


def stream_outputs(config: ChannelSetup, begins_at: float) -> list[str]:
    """One key frame per second, so that a receiver has a picture within a second."""
    gop = str(round(config.format.rate))
    arguments = ["-map", "0:v:0", "-map", "1:a:0", "-c:v", "libx264", "-preset", "veryfast", "-profile:v", "high"]
    arguments += ["-pix_fmt", "yuv420p", "-g", gop, "-keyint_min", gop, "-sc_threshold", "0", "-bf", "2"]
    arguments += ["-x264-params", "rc-lookahead=10:sync-lookahead=0:nal-hrd=vbr", "-b:v", config.video_bitrate]
    arguments += ["-maxrate", config.video_bitrate, "-bufsize", config.video_bitrate]
    arguments += ["-c:a", "aac", "-b:a", config.audio_bitrate, "-max_muxing_queue_size", "1024"]
    arguments += [*_named("service_name", config.service_name), *_named("service_provider", config.service_provider)]
    # After a restart the time stamps continue.
    arguments += ["-output_ts_offset", f"{FIRST_STAMP_SECONDS + begins_at:.6f}", "-muxdelay", "0", "-muxpreload", "0"]
    return [*arguments, "-f", "mpegts", "-mpegts_flags", "+initial_discontinuity", "-flush_packets", "1", "pipe:1"]


def _named(field: str, text: str) -> list[str]:
    """For the service's description in the stream, which receivers show."""
    plain = "".join(char for char in text if char.isprintable())[:LONGEST_NAME]
    return ["-metadata", f"{field}={plain}"] if plain else []


class RawProcess:
    """An ffmpeg that reads raw frames from two pipes: the encoder, or a card.

    The thread that creates it must stay alive: the kernel ends ffmpeg with it.
    """

    def __init__(self, binary: Binary, picture: Format, outputs: list[str], *, has_stream: bool) -> None:
        self.frames_in = 0
        self.frames_out = 0
        self.spawned_at = time.monotonic()
        self.moved_at = self.spawned_at
        self.said: deque[str] = deque(maxlen=40)
        (video_r, video_w), (sound_r, sound_w), (progress_r, progress_w) = os.pipe(), os.pipe(), os.pipe()
        widen(video_w)
        command = [binary.path, "-hide_banner", "-nostats", "-nostdin", "-y", "-loglevel", "warning"]
        command += ["-progress", f"pipe:{progress_w}", "-stats_period", "0.5"]
        command += [*raw_inputs(picture, video_r, sound_r), *outputs]
        parent = os.getpid()
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if has_stream else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[video_r, sound_r, progress_w],
                env=binary.environment(),
                preexec_fn=lambda: die_with(parent, signal.SIGKILL),
            )
        except BaseException:  # also on Ctrl-C: close our descriptors, then raise
            for fd in (video_w, sound_w, progress_r):
                os.close(fd)
            raise
        finally:
            for fd in (video_r, sound_r, progress_w):
                os.close(fd)
        room = max(VIDEO_BYTES, LEAST_FRAMES * picture.frame_bytes)
        self._video, self._sound = Pump(video_w, room), Pump(sound_w, SOUND_BYTES)
        self._threads = [
            threading.Thread(target=self._read_progress, args=[progress_r], daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def put(self, frame: Data, sound: Data) -> bool:
        """Queue both or neither, so that picture and sound stay in sync. False: it cannot keep up, or has ended."""
        if not self._video.has_room(len(frame)) or not self._sound.has_room(len(sound)):
            return False
        self._video.put(frame)
        self._sound.put(sound)
        self.frames_in += 1
        return True

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def is_stuck(self) -> bool:
        """It gets frames, but no output comes out."""
        return self.frames_in > self.frames_out and time.monotonic() - self.moved_at > STALL_SECONDS

    def words(self) -> str:
        return words_of(self.said) or f"ffmpeg ended with {self.process.poll()}"

    def _read_progress(self, fd: int) -> None:
        with open(fd, "rb") as pipe:
            for raw in pipe:
                name, _, value = raw.decode(errors="replace").strip().partition("=")
                if name == "frame" and value.isdigit() and int(value) > self.frames_out:
                    self.frames_out, self.moved_at = int(value), time.monotonic()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr:
            self._hear(self.process.stderr)

    def _hear(self, stderr: IO[bytes]) -> None:
        for raw in stderr:
            self.said.append(raw.decode(errors="replace").rstrip())

    def end(self, grace_seconds: float = 2.0) -> None:
        """Let it finish, and kill it after the grace time."""
        self._video.close()
        self._sound.close()
        try:
            self.process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
        for thread in self._threads:
            thread.join(0.5)
        for pump in (self._video, self._sound):
            pump.join(0.5)


class Encoder(RawProcess):
    """`on_stream` gets every piece of the transport stream, on a separate thread."""

    def __init__(
        self, binary: Binary, config: ChannelSetup, begins_at: float, on_stream: Callable[[bytes], None]
    ) -> None:
        self.bytes_out = 0
        self._on_stream = on_stream
        super().__init__(binary, config.format, stream_outputs(config, begins_at), has_stream=True)
        reader = threading.Thread(target=self._read_stream, daemon=True)
        reader.start()
        self._threads.append(reader)

    def _read_stream(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            widen(stdout.fileno())
            while piece := os.read(stdout.fileno(), CHUNK):
                self.bytes_out += len(piece)
                self._on_stream(piece)
