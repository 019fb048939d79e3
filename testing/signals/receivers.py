"""Foreign receivers of what a channel sends: they demultiplex and decode with their own code, and complain if they can.

GStreamer decodes with OpenH264 into raw frames; srt-live-transmit passes an SRT stream on; mpv plays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testing.media import free_port
from testing.signals.senders import nginx_rtmp
from testing.signals.tools import Program

WIDTH, HEIGHT = 320, 180
FRAME_BYTES = WIDTH * HEIGHT * 3 // 2
# What GStreamer warns about when counters or time stamps of a transport stream break.
COMPLAINTS = ("CONTINUITY", "corrupt", "Could not", "could not", "ERROR", "lost")


@dataclass
class Receiver:
    """The channel's output as its form would say it, and the programs that receive it: the last one decodes."""

    output: dict[str, str]
    programs: list[Program]
    frames: Callable[[], int]
    # A receiver that calls or pulls starts when the channel sends; one that waits for the channel starts first.
    is_first: bool = True

    @property
    def complaints(self) -> list[str]:
        lines = [line for program in self.programs for line in program.text().splitlines()]
        return [line for line in lines if any(word in line for word in COMPLAINTS)]


def _raw_frames(path: Path) -> int:
    return path.stat().st_size // FRAME_BYTES if path.exists() else 0


def _gstreamer(
    folder: Path, source: str, demuxer: str, decoder: str = "h264parse ! openh264dec"
) -> tuple[Program, Path]:
    raw = folder / "received.yuv"
    pipeline = (
        f"{source} ! {demuxer} ! queue ! {decoder} ! videoconvert ! video/x-raw,format=I420 ! filesink location={raw}"
    )
    command = [
        "env",
        "GST_DEBUG=tsdemux:3,mpegtsbase:3,mpegtspacketizer:3,2",
        "gst-launch-1.0",
        "-q",
        *pipeline.split(),
    ]
    return Program(*command, log=folder / "received.log"), raw


def _received(folder: Path, output: dict[str, str], source: str, demuxer: str = "tsdemux", **more: bool) -> Receiver:
    program, raw = _gstreamer(folder, source, demuxer)
    return Receiver(output, [program], lambda: _raw_frames(raw), **more)


def gst_udp(folder: Path, port: int) -> Receiver:
    return _received(folder, {"type": "udp", "url": f"udp://127.0.0.1:{port}"}, f"udpsrc address=127.0.0.1 port={port}")


@dataclass
class KeepingReceiver:
    """Decodes picture and sound, and keeps both with the times at which it would show and play them."""

    program: Program
    kept: Path


def gst_keeping(folder: Path, source: str) -> KeepingReceiver:
    kept = folder / "received.mkv"
    pipeline = (
        f"{source} ! tsdemux name=demuxer matroskamux name=muxer streamable=true ! filesink location={kept} "
        "demuxer. ! queue ! h264parse ! openh264dec ! videoconvert ! video/x-raw,format=I420 ! queue ! muxer. "
        "demuxer. ! queue ! aacparse ! faad ! audioconvert ! queue ! muxer."
    )
    return KeepingReceiver(Program("gst-launch-1.0", "-q", *pipeline.split(), log=folder / "received.log"), kept)


def gst_rtp(folder: Path, port: int) -> Receiver:
    caps = "application/x-rtp,media=video,clock-rate=90000,encoding-name=MP2T,payload=33"
    source = f"udpsrc address=127.0.0.1 port={port} caps={caps} ! rtpjitterbuffer ! rtpmp2tdepay"
    return _received(folder, {"type": "rtp", "url": f"rtp://127.0.0.1:{port}"}, source)


def gst_srt_listener(folder: Path, port: int) -> Receiver:
    source = f"srtsrc uri=srt://127.0.0.1:{port}?mode=listener"
    return _received(folder, {"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=caller"}, source)


def gst_srt_caller(folder: Path, port: int) -> Receiver:
    output = {"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=listener"}
    return _received(folder, output, f"srtsrc uri=srt://127.0.0.1:{port}?mode=caller", is_first=False)


def srt_live_transmit(folder: Path, port: int) -> Receiver:
    """Called by the channel; passes the stream on to GStreamer, which decodes it."""
    relayed = free_port()
    relay = Program(
        "srt-live-transmit",
        "-q",
        f"srt://127.0.0.1:{port}?mode=listener",
        f"udp://127.0.0.1:{relayed}",
        log=folder / "relay.log",
    )
    program, raw = _gstreamer(folder, f"udpsrc address=127.0.0.1 port={relayed}", "tsdemux")
    output = {"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=caller"}
    return Receiver(output, [relay, program], lambda: _raw_frames(raw))


def gst_rtmp(folder: Path, port: int) -> Receiver:
    """nginx takes the stream, GStreamer pulls it from there."""
    address = f"rtmp://127.0.0.1:{port}/live/main"
    program, raw = _gstreamer(folder, f"rtmp2src location={address}", "flvdemux")
    programs = [nginx_rtmp(folder, port), _trying_again(program)]
    return Receiver({"type": "rtmp", "url": address}, programs, lambda: _raw_frames(raw))


def gst_hls(folder: Path, port: int) -> Receiver:
    output = {"type": "hls", "url": "hls/main/index.m3u8"}
    address = f"http://127.0.0.1:{port}/hls/main/index.m3u8"
    program, raw = _gstreamer(folder, f"souphttpsrc location={address}", "hlsdemux ! tsdemux")
    return Receiver(output, [_trying_again(program)], lambda: _raw_frames(raw), is_first=False)


def _trying_again(program: Program) -> Program:
    """What pulls may come before there is something to pull."""
    again = 'while true; do "$@"; sleep 0.5; done'
    return Program("sh", "-c", again, "sh", *program.command, log=program.log)


def mpv_udp(folder: Path, port: int) -> Receiver:
    """Plays two seconds of picture and ends without an error."""
    words = ["mpv", "--no-config", "--vo=null", "--ao=null", "--frames=100", "--msg-level=all=warn"]
    program = Program(*words, f"udp://127.0.0.1:{port}", log=folder / "received.log")

    def frames() -> int:
        return 100 if program.process is not None and program.process.poll() == 0 else 0

    return Receiver({"type": "udp", "url": f"udp://127.0.0.1:{port}"}, [program], frames)
