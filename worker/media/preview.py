"""The preview: a small HLS stream and one JPEG a second, made by a separate process.

The recording sends a copy of its stream to a loopback port, and does not need a listener there. So a preview that
fails, hangs or gets no processor time cannot affect the recording.
"""

import contextlib
import socket
import time
from pathlib import Path

from worker.media.ffmpeg import Binary, Ffmpeg

RESTART_SECONDS = 3.0
STALL_SECONDS = 20.0


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Preview:
    def __init__(self, binary: Binary, folder: Path) -> None:
        self.binary = binary
        self.folder = folder
        self.port = free_udp_port()
        self._process: Ffmpeg | None = None
        self._started_at = 0.0

    def keep_running(self) -> None:
        """Start it, or restart it. The main loop calls this."""
        if self._process and self._process.is_running and self._process.idle_seconds() < STALL_SECONDS:
            return
        if time.monotonic() - self._started_at < RESTART_SECONDS:
            return
        if self._process:
            self._process.end(grace_seconds=0.5)
        self._started_at = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = Ffmpeg(self.binary, self._arguments(), b"", (), nice=10)

    def end(self) -> None:
        if self._process:
            self._process.end(grace_seconds=0.5)  # its files are deleted anyway
        clear_preview(self.folder)

    def _arguments(self) -> list[str]:
        source = f"udp://127.0.0.1:{self.port}?overrun_nonfatal=1&fifo_size=50000"
        listen = ["-protocol_whitelist", "udp", "-fflags", "+discardcorrupt+nobuffer", "-probesize", "500000"]
        listen += ["-analyzeduration", "1000000", "-f", "mpegts", "-i", source]
        return [
            "-loglevel",
            "error",
            "-progress",
            "pipe:1",
            "-stats_period",
            "2",
            *listen,
            *preview_outputs(self.folder),
        ]


def clear_preview(folder: Path) -> None:
    for path in (*folder.glob("index*"), *folder.glob("frame.jpg*")):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the folder contains other files
        folder.rmdir()


def preview_outputs(folder: Path) -> list[str]:
    """A small HLS stream and one JPEG a second of the first input."""
    hls = ["-map", "0:v:0?", "-map", "0:a:0?", "-vf", _shown(480), "-c:v", "libx264", "-preset", "ultrafast"]
    hls += ["-tune", "zerolatency", "-g", "50", "-b:v", "500k", "-c:a", "aac", "-ac", "2", "-b:a", "64k"]
    hls += ["-f", "hls", "-hls_time", "2", "-hls_list_size", "6"]
    hls += ["-hls_flags", "delete_segments+append_list+omit_endlist", str(folder / "index.m3u8")]
    still = ["-map", "0:v:0?", "-vf", f"fps=1,{_shown(320)}", "-q:v", "6", "-update", "1", "-atomic_writing", "1"]
    return [*hls, *still, "-f", "image2", str(folder / "frame.jpg")]


def _shown(width: int) -> str:
    """The filter for a small picture as a viewer sees it: progressive, in its own aspect, with square pixels."""
    return f"yadif=deint=interlaced,scale={width}:trunc({width}/dar/2)*2,setsar=1"
