"""Outputs without a channel: a fan that gets a test stream in real time, and what receivers get from it."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator

from testing.media import environment, ffmpeg
from testing.transport_stream import picture_times
from worker.playout.outputs.fan_out import Fan
from worker.playout.outputs.shaping import Rate, rate_for

VIDEO_BITS, SOUND_BITS = 800_000.0, 128_000.0
PATTERN = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-f", "lavfi", "-i", "sine=sample_rate=48000"]
CODECS = ["-c:v", "libx264", "-preset", "veryfast", "-g", "25", "-bf", "2", "-pix_fmt", "yuv420p", "-b:v", "800k"]
CODECS += ["-maxrate", "800k", "-bufsize", "800k", "-c:a", "aac", "-b:a", "128k", "-muxdelay", "0", "-muxpreload", "0"]
CODECS += ["-output_ts_offset", "10"]
NAMES = ["-metadata", "service_name=Main", "-metadata", "service_provider=House"]


def encoded(seconds: float) -> bytes:
    """A stream like the encoder's, at once."""
    command = [ffmpeg(), "-loglevel", "error", "-nostdin", *PATTERN, "-t", str(seconds), *CODECS, *NAMES]
    done = subprocess.run([*command, "-f", "mpegts", "pipe:1"], env=environment(), capture_output=True, check=True)
    return done.stdout


def rate(constant: float | None = None) -> Rate:
    return rate_for(VIDEO_BITS, SOUND_BITS, constant)


class Channel:
    """The fan of a channel on air, and the time of its newest frame."""

    def __init__(self) -> None:
        self.fan = Fan()
        self.newest: float | None = None

    def take(self, piece: bytes) -> None:
        times = picture_times(piece)
        if times:
            self.newest = max(times)


@contextlib.contextmanager
def on_air() -> Iterator[Channel]:
    command = [ffmpeg(), "-loglevel", "error", "-nostdin", "-re", *PATTERN[:4], "-re", *PATTERN[4:], *CODECS, *NAMES]
    command += ["-flush_packets", "1", "-f", "mpegts", "pipe:1"]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE)
    channel = Channel()
    channel.fan.join(channel.take)

    def run() -> None:
        assert process.stdout is not None
        while piece := os.read(process.stdout.fileno(), 65536):
            channel.fan.put(piece)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield channel
    finally:
        process.kill()
        thread.join(5)
        process.communicate()


class SrtReceiver:
    """An ffmpeg that calls (or listens) and passes on what it gets, unchanged."""

    def __init__(self, program: str, port: int, *more: str, mode: str = "caller") -> None:
        url = "&".join([f"srt://127.0.0.1:{port}?mode={mode}", *more])
        command = [program, "-hide_banner", "-loglevel", "warning", "-probesize", "32", "-f", "data", "-i", url]
        self.process = subprocess.Popen(
            [*command, "-map", "0:0", "-c", "copy", "-flush_packets", "1", "-f", "data", "pipe:1"],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.got = bytearray()
        self.said = bytearray()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        pairs = [(self.process.stdout.fileno(), self.got), (self.process.stderr.fileno(), self.said)]
        self._threads = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in pairs]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(fd: int, into: bytearray) -> None:
        while piece := os.read(fd, 65536):
            into += piece

    @property
    def stream(self) -> bytes:
        whole = bytes(self.got)
        return whole[: len(whole) // 188 * 188]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(5)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
