"""Transport streams made for a test, and a sender that sends them as an encoder does: in real time, with pauses,
bursts and restarts."""

import contextlib
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from testing.media import environment, ffmpeg

DATAGRAM_BYTES = 7 * 188
PICTURE = "testsrc2=size=160x90:rate=25"
_LENGTH = re.compile(r"Duration: (\d+):(\d+):([\d.]+)")


def make_stream(
    folder: Path, seconds: int, *, starts_at: float = 0.0, more: tuple[str, ...] = (), picture: str = PICTURE
) -> bytes:
    """A stream of constant bit rate whose clock begins at `starts_at` seconds."""
    path = folder / f"stream-{time.monotonic_ns()}.ts"
    command = [ffmpeg(), "-loglevel", "error", "-f", "lavfi", "-i", picture]
    command += ["-f", "lavfi", "-i", "sine=frequency=1000:sample_rate=48000", "-t", str(seconds)]
    command += ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "12", "-pix_fmt", "yuv420p"]
    command += ["-b:v", "200k", "-maxrate", "200k", "-bufsize", "100k", "-c:a", "aac", "-b:a", "64k"]
    command += [*more, "-muxrate", "600k", "-muxdelay", "0", "-output_ts_offset", str(starts_at), "-f", "mpegts"]
    subprocess.run([*command, str(path)], env=environment(), check=True, timeout=60, stdin=subprocess.DEVNULL)
    content = path.read_bytes()
    path.unlink()
    return content


@dataclass(frozen=True)
class Piece:
    """A stream to send, after a pause; its first `burst_seconds` at once."""

    content: bytes
    seconds: float
    pause_seconds: float = 0.0
    burst_seconds: float = 0.0


@dataclass
class Sent:
    """When each piece began and ended, in seconds since the epoch."""

    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def sending(port: int, *pieces: Piece, rtp: bool = False, host: str = "127.0.0.1") -> Iterator[Sent]:
    """Send the pieces one after the other in the background. Each piece is a new RTP sender."""
    sent, stop = Sent(), threading.Event()

    def run() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            for piece in pieces:
                stop.wait(piece.pause_seconds)
                sent.began.append(time.time())
                _send(out, (host, port), piece, stop, rtp=rtp)
                sent.ended.append(time.time())
        sent.is_over.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join()


def _send(out: socket.socket, to: tuple[str, int], piece: Piece, stop: threading.Event, *, rtp: bool) -> None:
    number = int.from_bytes(os.urandom(2), "big")
    sender = os.urandom(4)
    began = time.monotonic()
    for start in range(0, len(piece.content), DATAGRAM_BYTES):
        due = start / len(piece.content) * piece.seconds - piece.burst_seconds
        if stop.wait(max(0.0, began + due - time.monotonic())):
            return
        header = b"\x80\x21" + (number & 0xFFFF).to_bytes(2, "big") + bytes(4) + sender if rtp else b""
        number += 1
        with contextlib.suppress(ConnectionRefusedError):
            out.sendto(header + piece.content[start : start + DATAGRAM_BYTES], to)


def describe(path: Path) -> str:
    """What ffmpeg prints about a file."""
    command = [ffmpeg(), "-hide_banner", "-i", str(path)]
    done = subprocess.run(command, env=environment(), capture_output=True, timeout=60, check=False)
    return done.stderr.decode(errors="replace")


def length_of(path: Path) -> float:
    """The length of a file in seconds, by its own time stamps."""
    found = _LENGTH.search(describe(path))
    assert found, describe(path)
    hours, minutes, seconds = found.groups()
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
