"""Transport streams as broadcasters send them: made as files, replayed byte for byte over UDP."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from testing.media import environment, ffmpeg
from testing.signals.senders import Sender, udp
from testing.signals.tools import Program

SECONDS = 12
MUXRATE = 4_000_000
PLAIN = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25", "-pix_fmt", "yuv420p"]
STEREO = "sine=frequency=440:sample_rate=48000,aformat=channel_layouts=stereo"
SURROUND = "sine=frequency=440:sample_rate=48000,pan=5.1|c0=c0|c1=c0|c2=c0|c3=c0|c4=c0|c5=c0"
# A transport stream counts its clock in 33 bits of 90 kHz: it begins again after this many seconds.
WRAP_SECONDS = 2**33 / 90_000


def _ffmpeg(path: Path, *words: str, pictures: tuple[str, ...] = (), sounds: tuple[str, ...] = (STEREO,)) -> None:
    command = [ffmpeg(), "-y", "-loglevel", "error", "-nostdin"]
    for source in (*pictures, *sounds):
        command += ["-f", "lavfi", "-i", source]
    for number in range(len(pictures) + len(sounds)):
        command += ["-map", str(number)]
    command += ["-t", str(SECONDS), *words, "-muxrate", str(MUXRATE), "-f", "mpegts", str(path)]
    subprocess.run(command, env=environment(), check=True, timeout=120)


def _picture(size: str = "320x180", rate: str = "25") -> tuple[str, ...]:
    return (f"testsrc2=size={size}:rate={rate}",)


def sd_interlaced(path: Path) -> None:
    video = ["-c:v", "mpeg2video", "-b:v", "1500k", "-g", "12", "-flags", "+ildct+ilme", "-top", "1", "-aspect", "4:3"]
    _ffmpeg(path, *video, "-c:a", "mp2", "-b:a", "192k", pictures=_picture("720x576"))


def hd_interlaced(path: Path) -> None:
    video = [*PLAIN, "-b:v", "2M", "-maxrate", "2M", "-bufsize", "1M", "-x264opts", "tff=1", "-flags", "+ildct+ilme"]
    _ffmpeg(path, *video, "-c:a", "ac3", "-b:a", "256k", pictures=_picture("1440x1080"))


def hevc_50p(path: Path) -> None:
    video = ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:keyint=50", "-b:v", "800k"]
    _ffmpeg(path, *video, "-c:a", "aac", pictures=_picture("640x360", "50"))


def two_languages(path: Path) -> None:
    tags = ["-metadata:s:a:0", "language=deu", "-metadata:s:a:1", "language=eng"]
    _ffmpeg(path, *PLAIN, "-c:a", "mp2", *tags, pictures=_picture(), sounds=(STEREO,) * 2)


def four_sounds(path: Path) -> None:
    _ffmpeg(path, *PLAIN, "-c:a", "aac", pictures=_picture(), sounds=(STEREO,) * 4)


def surround(path: Path) -> None:
    _ffmpeg(path, *PLAIN, "-c:a", "ac3", "-b:a", "384k", pictures=_picture(), sounds=(SURROUND,))


def audio_only(path: Path) -> None:
    _ffmpeg(path, "-c:a", "mp2", "-b:a", "256k")


def video_only(path: Path) -> None:
    _ffmpeg(path, *PLAIN, pictures=_picture(), sounds=())


def two_programmes(path: Path) -> None:
    programmes = ["-program", "program_num=1:title=One:st=0:st=2", "-program", "program_num=2:title=Two:st=1:st=3"]
    pictures = (*_picture(), *_picture("640x360"))
    _ffmpeg(path, *PLAIN, "-c:a", "mp2", *programmes, pictures=pictures, sounds=(STEREO,) * 2)


def clock_wrap(path: Path) -> None:
    """The clock begins again in the middle."""
    offset = ["-output_ts_offset", str(WRAP_SECONDS - SECONDS / 2)]
    _ffmpeg(path, *PLAIN, "-c:a", "aac", *offset, pictures=_picture())


def _joined(path: Path, *makes: Callable[[Path], None]) -> None:
    """One stream after the other, as when an encoder changes its settings or restarts."""
    halves = []
    for number, make in enumerate(makes):
        half = path.with_name(f"{path.stem}-{number}.ts")
        make(half)
        halves.append(half.read_bytes())
    path.write_bytes(b"".join(half[: len(half) // 2 // 188 * 188] for half in halves))


def clock_jump_forward(path: Path) -> None:
    _joined(path, lambda half: _at(half, 100), lambda half: _at(half, 76_000))


def clock_jump_back(path: Path) -> None:
    _joined(path, lambda half: _at(half, 76_000), lambda half: _at(half, 100))


def _at(path: Path, offset: float) -> None:
    _ffmpeg(path, *PLAIN, "-c:a", "aac", "-output_ts_offset", str(offset), pictures=_picture())


def new_resolution(path: Path) -> None:
    _joined(path, lambda half: _sized(half, "320x180"), lambda half: _sized(half, "640x360"))


def _sized(path: Path, size: str, *words: str) -> None:
    _ffmpeg(path, *PLAIN, "-c:a", "aac", *words, pictures=_picture(size))


def new_pids(path: Path) -> None:
    moved = ("-mpegts_start_pid", "0x300", "-mpegts_pmt_start_pid", "0x200")
    _joined(path, lambda half: _sized(half, "320x180"), lambda half: _sized(half, "320x180", *moved))


def replay(path: Path, folder: Path) -> Sender:
    """Send the file over UDP, at the constant rate it was made with."""
    source = udp(folder).source
    port = source["url"].rpartition(":")[2]
    command = [sys.executable, Path(__file__).with_name("replay.py"), port, path, str(MUXRATE)]
    return Sender(source, [Program(*command, log=folder / "replay.log")])


def splice_markers(folder: Path) -> Sender:
    """SCTE-35 on a PID of its own, from GStreamer: ffmpeg cannot make it."""
    sender = udp(folder)
    muxer = "mpegtsmux scte-35-pid=500 scte-35-null-interval=45000"
    command = [word for part in sender.device.command for word in (muxer.split() if part == "mpegtsmux" else [part])]
    return Sender(sender.source, [Program(*command, log=folder / "gst.log")])
