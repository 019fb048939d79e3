"""One receiver of a listening SRT output: its ffmpeg, which listens on this machine only, and its feed."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from urllib.parse import parse_qsl, urlencode, urlsplit

from worker.media.ffmpeg import Binary
from worker.playout.outputs import srt_packets
from worker.playout.outputs.arguments import PASSED_ON, srt_arguments
from worker.playout.outputs.fan_out import Fan
from worker.playout.outputs.paced_feed import PacedFeed
from worker.playout.outputs.senders import preset_of
from worker.playout.outputs.shaping import DATAGRAM_PACKETS, NULL_PACKET, Rate, Shaper
from worker.playout.pipes import Pump
from worker.process.parent_death import die_with
from worker.wire.configuration import Output

HOST = "127.0.0.1"
# A caller repeats its first packet four times a second; one that has not agreed with us after this time is gone.
CONNECT_SECONDS = 5.0
SILENT_SECONDS = 6.0
QUEUE_SECONDS = 2.0
GOODBYE_SECONDS = 0.3
MOST_LAST_PACKETS = 2000


class Caller:
    """Create it on a thread that stays alive: the kernel ends ffmpeg with it."""

    def __init__(self, binary: Binary, fan: Fan, output: Output, secrets: tuple[str, ...], rate: Rate) -> None:
        self.fan, self.rate = fan, rate
        self.is_connected = self.is_over = False
        self._came_at = self._heard_at = time.monotonic()
        port = _free_port()
        self.back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.back.connect((HOST, port))
        self.back.setblocking(False)
        self._feed: PacedFeed | None = None
        try:
            self._process, write = _listen(binary, output, rate, port)
        except BaseException:  # also on Ctrl-C: close our descriptor, then raise
            self.back.close()
            raise
        self._pump = Pump(write, int(rate.bits_per_second / 8 * QUEUE_SECONDS), drops_oldest=True)
        self._pump.put(NULL_PACKET * DATAGRAM_PACKETS)  # ffmpeg listens when it has read something

    def forward(self, packet: bytes) -> None:
        """From the receiver to its ffmpeg. Before ffmpeg listens this fails, and the receiver asks again."""
        self._heard_at = time.monotonic()
        if srt_packets.kind_of(packet) == srt_packets.SHUTDOWN:
            self.is_over = True
        with contextlib.suppress(OSError):
            self.back.send(packet)

    def connect(self) -> None:
        """They have agreed: the stream begins, with the last key frame."""
        self.is_connected = True
        self._feed = PacedFeed(self.fan, Shaper(self.rate), lambda data, stamp: self._pump.put(data), has_recent=True)
        self._feed.start()

    @property
    def bytes_sent(self) -> int:
        return self._pump.written

    @property
    def has_ended(self) -> bool:
        now = time.monotonic()
        if not self.is_connected and now - self._came_at > CONNECT_SECONDS:
            return True
        return self.is_over or self._process.poll() is not None or now - self._heard_at > SILENT_SECONDS

    def say_goodbye(self) -> list[bytes]:
        """Let ffmpeg end the connection, so that the receiver calls again at once; its last packets."""
        if self._feed is not None:
            self._feed.end()
        self._pump.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GOODBYE_SECONDS)
        packets: list[bytes] = []
        with contextlib.suppress(OSError):
            while len(packets) < MOST_LAST_PACKETS:
                packets.append(self.back.recv(2048))
        return packets

    def end(self) -> None:
        if self._feed is not None:
            self._feed.end()
        self._pump.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self.back.close()


def _listen(binary: Binary, output: Output, rate: Rate, port: int) -> tuple["subprocess.Popen[bytes]", int]:
    """The process, and the pipe that it reads."""
    options = dict(parse_qsl(urlsplit(output.url).query))
    url = f"srt://{HOST}:{port}?{urlencode({**options, 'mode': 'listener'})}"
    read, write = os.pipe()
    preset, fds = preset_of(dict(output.secret))
    command = [binary.path, "-hide_banner", "-nostats", "-loglevel", "fatal", *PASSED_ON, *preset]
    parent = os.getpid()
    try:
        process = subprocess.Popen(
            [*command, *srt_arguments(output, url, rate.bits_per_second)],
            stdin=read,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=fds,
            env=binary.environment(),
            preexec_fn=lambda: die_with(parent, signal.SIGKILL),
        )
    except BaseException:  # also on Ctrl-C: close our descriptor, then raise
        os.close(write)
        raise
    finally:
        for fd in (read, *fds):
            os.close(fd)
    return process, write


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
