"""Starts the ffmpeg of one item, with the filters that convert it to the channel's format."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.media.ffmpeg import Binary, words_of
from worker.media.sandbox import Sandbox
from worker.playout.pipes import widen
from worker.process.parent_death import die_with
from worker.wire.picture import SAMPLE_RATE, Format

# What showinfo and ashowinfo print about their first frame. The name in front is not matched: picture and sound
# are filtered on separate threads, and a line that begins before another one ended lacks the name.
_FIRST = r"n: *0 pts: *\S+ +pts_time: ?(-?[\d.]+(?:e[-+]?\d+)?)(?:(?!n: *\d+ pts:).)*? %s:"
FIRST_PICTURE, FIRST_SOUND = re.compile(_FIRST % "iskey"), re.compile(_FIRST % "channels")

NOTHING_CAME = "Output file is empty"
NO_STREAM = ("does not contain any stream", "matches no streams")


@dataclass(frozen=True)
class Feed:
    """How to open an item: arguments up to and including -i, the data for stdin, and the files ffmpeg may read."""

    arguments: Sequence[str]
    stdin: bytes | Callable[[], Iterable[bytes]] = b""
    reads: Sequence[Path] | None = None  # None: a network source, not sandboxed
    is_live: bool = False
    # Picture and sound in one input, or (the test pattern) in two.
    sound_input: int = 0
    # Drop everything before this time of the file. (Seeking in a pipe returns nothing in some formats.)
    begins_at: float | None = None
    gain_db: float = 0.0
    kind: str = ""  # of a live source


@dataclass(frozen=True)
class Taken:
    """The frame and sound of one tick. `frame` None: nothing yet, or with `is_end` the end of the item."""

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
    rate = picture.rate_text
    arguments: list[str] = []
    if "v" in fds:
        # showinfo prints the time of the first frame. It is part of the chain: a second sink would delay live sources.
        chain = f"{_cut(feed, '')}showinfo=checksum=0,yadif=deint=interlaced,fps={rate},"
        chain += f"{_fitted(picture)},setsar=1,format=yuv420p"
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
        chain += "aformat=sample_fmts=fltp:channel_layouts=stereo,"
        chain += f"volume={feed.gain_db:.2f}dB," if feed.gain_db else ""
        chain += "aformat=sample_fmts=s16"
        source = f"{feed.sound_input}:a:0"
        arguments += ["-map", source, "-af", chain, "-ac", "2", "-f", "s16le", f"pipe:{fds['a']}"]
    return arguments


def _fitted(picture: Format) -> str:
    """A picture of another shape: with bars, cropped or stretched. `dar` is the shape it is meant to be shown in."""
    width, height = picture.width, picture.height
    if picture.fit == "stretch":
        return f"scale={width}:{height}"
    if picture.fit == "crop":
        wide, high = f"trunc(max({width},{height}*dar)/2)*2", f"trunc(max({height},{width}/dar)/2)*2"
        return f"scale=w='{wide}':h='{high}',crop={width}:{height}"
    wide, high = f"max(2,trunc(min({width},{height}*dar)/2)*2)", f"max(2,trunc(min({height},{width}/dar)/2)*2)"
    return f"scale=w='{wide}':h='{high}',pad={width}:{height}:(ow-iw)/2:(oh-ih)/2"


def _cut(feed: Feed, kind: str) -> str:
    """Start at that time and count from it: showinfo prints large times with six digits only."""
    at = feed.begins_at
    return "" if at is None else f"{kind}trim=start={at:.6f},{kind}setpts=PTS-{at:.6f}/TB,"


def open_process(
    binary: Binary, feed: Feed, picture: Format, streams: str, offset_seconds: float
) -> tuple["subprocess.Popen[bytes]", dict[str, int]]:
    """The running ffmpeg and the pipe to read each stream from: "v" for the picture, "a" for the sound."""
    sandbox = None if feed.reads is None else Sandbox(reads=feed.reads, runs=binary.path)
    pipes = {each: os.pipe() for each in streams}
    reading = {each: read for each, (read, _) in pipes.items()}
    writing = {each: write for each, (_, write) in pipes.items()}
    for read in reading.values():
        widen(read)
    command = command_for(binary, feed, picture, writing, offset_seconds)
    try:
        process = start_ffmpeg(binary, command, sandbox, list(writing.values()))
    except BaseException:  # also on Ctrl-C: close our descriptors, then raise
        for read in reading.values():
            os.close(read)
        raise
    finally:
        if sandbox is not None:
            sandbox.close()
        for write in writing.values():
            os.close(write)
    return process, reading


def start_ffmpeg(
    binary: Binary, command: list[str], sandbox: Sandbox | None, fds: list[int]
) -> "subprocess.Popen[bytes]":
    """Call it on the main thread: the kernel ends ffmpeg when that thread ends."""
    parent = os.getpid()

    def in_child() -> None:
        die_with(parent, signal.SIGKILL)
        if sandbox is not None:
            sandbox.enter()

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
    """Write everything, until ffmpeg ends or the decoder is closed."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # ffmpeg ended; its exit code says why
        for piece in [feed.stdin] if isinstance(feed.stdin, bytes) else feed.stdin():
            if is_closed():
                break
            process.stdin.write(piece)
    with contextlib.suppress(OSError):
        process.stdin.close()


def explain(said: Iterable[str]) -> str:
    """The last lines that ffmpeg printed, or what they mean."""
    words = words_of(list(said))
    # ffmpeg opens the file and seeks beyond its end without an error.
    return "there is no picture after its in point" if NOTHING_CAME in words else words


def says_no_stream(said: Iterable[str]) -> bool:
    """ffmpeg reported that the item has no sound or no picture."""
    return any(words in line for line in list(said) for words in NO_STREAM)
