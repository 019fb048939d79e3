"""A test picture with numbered frames, so that a test can tell which frames are missing from a recording."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from testing.media import environment, ffmpeg

BITS, BOX = 14, 20
RATE = 25


def pattern() -> str:
    """A test picture with a strip on top: one box per bit, white for one."""
    boxes = [f"drawbox=x=0:y=0:w={BITS * BOX}:h={BOX}:c=black:t=fill"]
    boxes += [
        f"drawbox=x={bit * BOX}:y=0:w={BOX}:h={BOX}:c=white:t=fill:enable='mod(floor(n/{2**bit})\\,2)'"
        for bit in range(BITS)
    ]
    return f"testsrc2=size=320x180:rate={RATE}," + ",".join(boxes)


@dataclass
class Sender:
    """Sends in real time; knows when its first frame went out."""

    process: "subprocess.Popen[bytes]"
    offsets: list[float] = field(default_factory=list)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            name, _, value = raw.decode().strip().partition("=")
            if name == "frame" and value.isdigit() and int(value) > RATE:
                self.offsets.append(time.time() - int(value) / RATE)

    @property
    def began_at(self) -> float:
        """When frame 0 was sent, in seconds since the epoch. The minimum: progress is read late, never early."""
        return min(self.offsets)


@contextlib.contextmanager
def counted_sender(port: int, seconds: int = 300) -> Iterator[Sender]:
    """Send MPEG-TS over UDP to a port of this machine, whether anything listens or not."""
    command = [ffmpeg(), "-loglevel", "error", "-nostdin", "-nostats", "-progress", "pipe:1", "-stats_period", "0.25"]
    command += ["-re", "-f", "lavfi", "-i", pattern(), "-f", "lavfi", "-i", "sine=frequency=1000:sample_rate=48000"]
    command += ["-t", str(seconds), "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "12"]
    command += ["-pix_fmt", "yuv420p", "-b:v", "800k", "-c:a", "aac", "-f", "mpegts"]
    command += [f"udp://127.0.0.1:{port}?pkt_size=1316"]
    process = subprocess.Popen(
        command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    sender = Sender(process)
    thread = threading.Thread(target=sender._listen, daemon=True)
    thread.start()
    try:
        yield sender
    finally:
        process.kill()
        process.wait()
        thread.join(5)
        assert process.stdout is not None
        process.stdout.close()


def numbers_in(path: Path) -> list[int]:
    """The numbers of all frames of a file, in order, read from the picture."""
    strip = f"crop={BITS * BOX}:{BOX // 2}:0:{BOX // 4},scale={BITS}:1:flags=area,format=gray"
    command = [ffmpeg(), "-loglevel", "error", "-nostdin", "-i", str(path), "-map", "0:v:0", "-vf", strip]
    command += ["-fps_mode", "passthrough", "-f", "rawvideo", "-"]
    raw = subprocess.run(command, env=environment(), capture_output=True, timeout=120, check=True).stdout
    frames = [raw[start : start + BITS] for start in range(0, len(raw), BITS)]
    return [sum(1 << bit for bit, level in enumerate(frame) if level > 128) for frame in frames]
