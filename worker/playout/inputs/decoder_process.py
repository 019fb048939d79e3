"""The ffmpeg of one item: how it is opened, its command line with the filters that bring it to the channel's format."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.media.ffmpeg import Binary, words_of
from worker.media.sandbox import Cage
from worker.process.parent_death import die_with
from worker.wire.picture import SAMPLE_RATE, Format

# What showinfo and ashowinfo print of their first frame. By their words, not by the name in front: picture and sound
# are filtered on threads of their own, and a line that begins while another is not ended has no name in front.
_FIRST = r"n: *0 pts: *\S+ +pts_time: ?(-?[\d.]+(?:e[-+]?\d+)?)(?:(?!n: *\d+ pts:).)*? %s:"
FIRST_PICTURE, FIRST_SOUND = re.compile(_FIRST % "iskey"), re.compile(_FIRST % "channels")


NOTHING_CAME = "Output file is empty"
NO_STREAM = ("does not contain any stream", "matches no streams")


@dataclass(frozen=True)
class Feed:
    """How to open it: arguments up to and including -i, what goes in on stdin, and which files it may see."""

    arguments: Sequence[str]
    stdin: bytes | Callable[[], Iterable[bytes]] = b""
    reads: Sequence[Path] | None = None  # None: a network source, not caged
    is_live: bool = False
    # Picture and sound in one input, or (the test pattern) in two.
    sound_input: int = 0
    # By the file's own time: what is before is left out. (Seeking in a pipe gives nothing in some formats.)
    begins_at: float | None = None


@dataclass(frozen=True)
class Taken:
    """One tick's worth. `frame` None: nothing there yet, or, with `is_end`, nothing more."""

    frame: bytearray | None
    sound: bytes
    is_end: bool = False


def command_for(binary: Binary, feed: Feed, picture: Format, fds: dict[str, int], offset_seconds: float) -> list[str]:
    """`fds` are the pipes to write to: "v" for the picture, "a" for the sound."""
    seek = ["-ss", f"{offset_seconds:.6f}"] if offset_seconds > 0 else []
    command = [binary.path, "-hide_banner", "-nostats", "-loglevel", "info", "-y"]
    command += [] if feed.begins_at is None else ["-copyts"]
    return [*command, *seek, *feed.arguments, *_outputs(feed, picture, fds)]


def _outputs(feed: Feed, picture: Format, fds: dict[str, int]) -> list[str]:
    width, height, rate = picture.width, picture.height, picture.rate_text
    arguments: list[str] = []
    if "v" in fds:
        fit = f"scale=w='max(2,trunc(min({width},{height}*dar)/2)*2)':h='max(2,trunc(min({height},{width}/dar)/2)*2)'"
        # showinfo tells when the first frame is; not beside the chain: a second sink would hold up live sources.
        chain = f"{_cut(feed, '')}showinfo=checksum=0,yadif=deint=interlaced,fps={rate},{fit},"
        chain += f"pad={width}:{height}:(ow-iw)/2:(oh-ih)/2,setsar=1,format=yuv420p"
        arguments += [
            "-map",
            "0:v:0",
            "-vf",
            chain,
            "-fps_mode",
            "passthrough",
            "-f",
            "rawvideo",
            f"pipe:{fds['v']}",
        ]
    if "a" in fds:
        chain = f"{_cut(feed, 'a')}ashowinfo,aresample={SAMPLE_RATE}:async=1,"
        chain += "aformat=sample_fmts=s16:channel_layouts=stereo"
        source = f"{feed.sound_input}:a:0"
        arguments += ["-map", source, "-af", chain, "-ac", "2", "-f", "s16le", f"pipe:{fds['a']}"]
    return arguments


def _cut(feed: Feed, kind: str) -> str:
    """From there on, and counted from there: showinfo tells large times in six digits only."""
    at = feed.begins_at
    return "" if at is None else f"{kind}trim=start={at:.6f},{kind}setpts=PTS-{at:.6f}/TB,"


def start_ffmpeg(binary: Binary, command: list[str], cage: Cage | None, fds: list[int]) -> "subprocess.Popen[bytes]":
    """From the main thread: the kernel ends it with that thread."""
    parent = os.getpid()

    def in_child() -> None:
        die_with(parent, signal.SIGKILL)
        if cage is not None:
            cage.enter()

    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=fds,
        env=binary.environment(),
        preexec_fn=in_child,
    )


def feed_stdin(process: "subprocess.Popen[bytes]", feed: Feed, is_closed: Callable[[], bool]) -> None:
    """Until everything is written, it has ended, or nothing more of it is wanted."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it ended; its exit code tells why
        for piece in [feed.stdin] if isinstance(feed.stdin, bytes) else feed.stdin():
            if is_closed():
                break
            process.stdin.write(piece)
    with contextlib.suppress(OSError):
        process.stdin.close()


def explain(said: Iterable[str]) -> str:
    """The end of what ffmpeg printed, or what it means."""
    words = words_of(list(said))
    # It was opened and sought in without a complaint.
    return "there is no picture from its in point on" if NOTHING_CAME in words else words


def says_no_stream(said: Iterable[str]) -> bool:
    """It has no sound, or no picture."""
    return any(words in line for line in list(said) for words in NO_STREAM)
