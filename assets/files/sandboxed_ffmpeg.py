"""Runs ffmpeg on untrusted files: sandboxed by the kernel, with a list of allowed formats, and supervised.

Whatever a file contains, ffmpeg can neither reach the network nor open other files (`worker.media.sandbox`). Formats
that list other files (playlists, concat scripts) are not read, except the list that we write.
"""

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import imageio_ffmpeg
from django.conf import settings

from worker.media.ffmpeg import Binary, words_of
from worker.media.file_formats import FORMATS, PROTOCOLS, concat_list
from worker.media.sandbox import CannotConfine, Sandbox, landlock_version
from worker.process.parent_death import die_with

logger = logging.getLogger(__name__)

LINES_KEPT = 5000
NICE = 15
# Errors of the disk or the machine, not of the file.
PASSING = ("No space left on device", "Input/output error", "Cannot allocate memory", "Stale file handle")


class NotDecoded(Exception):
    """ffmpeg failed because of the file, so a retry cannot help; the text gives the reason."""


class NotNow(Exception):
    """A temporary problem of this machine, not of the file: a retry may succeed."""


@dataclass(frozen=True)
class Media:
    """The files of one asset, in order, as one input."""

    files: tuple[Path, ...]

    @property
    def is_split(self) -> bool:
        return len(self.files) > 1


def ignore_progress(seconds: float) -> None:
    """For callers that do not need the progress."""


@lru_cache
def ffmpeg_binary() -> Binary:
    """The configured ffmpeg, else the one on PATH, else the wheel's: the same order as for media workers."""
    chosen = settings.FFMPEG or shutil.which("ffmpeg")
    if chosen:
        return Binary(chosen, is_static="imageio_ffmpeg" in chosen)
    return Binary(str(imageio_ffmpeg.get_ffmpeg_exe()), is_static=True)


@contextlib.contextmanager
def input_of(media: Media, decoder: Sequence[str] = ()) -> Iterator[tuple[list[str], list[Path]]]:
    """The input arguments, and the files they need. Several parts are read through a concat list."""
    known = ["-protocol_whitelist", PROTOCOLS, *decoder, "-format_whitelist"]
    if not media.is_split:
        yield [*known, FORMATS, "-i", f"file:{media.files[0]}"], list(media.files)
        return
    with tempfile.TemporaryDirectory(prefix="airlock-parts-") as folder:
        parts = Path(folder) / "parts.ffconcat"
        parts.write_text(concat_list(media.files))
        yield [*known, f"concat,{FORMATS}", "-f", "concat", "-safe", "0", "-i", f"file:{parts}"], [*media.files, parts]


def run_ffmpeg(
    media: Media,
    outputs: Sequence[str],
    *,
    writes: Path | None = None,
    decoder: Sequence[str] = (),
    on_progress: Callable[[float], None] = ignore_progress,
    keep: re.Pattern[str] | None = None,
) -> list[str]:
    """Run ffmpeg with `decoder` options on `media`; it may write below `writes` only. Returns its log lines.

    Without `keep`, these are the last lines of the log; with `keep`, every line that matches it.

    `on_progress` is called with the seconds done so far and may raise to stop. Raises NotDecoded or NotNow.
    """
    missing = [path for path in media.files if not path.is_file()]
    if missing:
        raise NotNow(f"{missing[0].name} was not found")
    binary = ffmpeg_binary()
    with input_of(media, decoder) as (inputs, reads):
        try:
            sandbox = Sandbox(
                reads=reads,
                writes=[writes] if writes else [],
                runs=binary.path,
                memory_mb=settings.PROCESSING_MEMORY_MB,
            )
        except CannotConfine as error:
            # Not the file's fault: a job worker on another machine may be able to.
            raise NotNow(f"This machine cannot block ffmpeg's access to the network: {error}") from error
        _say_once_what_is_missing()
        command = [binary.path, "-hide_banner", "-nostdin", "-nostats", "-loglevel", "info", "-progress", "pipe:1"]
        command += ["-stats_period", "0.5", *inputs, *outputs]
        try:
            return _watch(command, binary, sandbox, on_progress, keep)
        finally:
            sandbox.close()


def _watch(
    command: list[str],
    binary: Binary,
    sandbox: Sandbox,
    on_progress: Callable[[float], None],
    keep: re.Pattern[str] | None,
) -> list[str]:
    """Run ffmpeg to its end. Returns the log lines to keep."""
    process = _start(command, binary, sandbox)
    said: deque[str] = deque(maxlen=LINES_KEPT)
    kept: list[str] = []
    listener = threading.Thread(target=_listen, args=[process, said, kept, keep], daemon=True)
    listener.start()
    try:
        _follow(process, on_progress)
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        listener.join(timeout=5)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    _raise_for(code, said)
    return kept if keep else list(said)


def _start(command: list[str], binary: Binary, sandbox: Sandbox) -> "subprocess.Popen[bytes]":
    parent = os.getpid()

    def in_child() -> None:
        die_with(parent, signal.SIGKILL)
        os.nice(NICE)  # recordings on this machine come first
        sandbox.enter()

    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=binary.environment(),
            preexec_fn=in_child,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotNow(f"ffmpeg could not be started: {error}") from error


def _raise_for(code: int, said: "deque[str]") -> None:
    """NotNow if another try may succeed, NotDecoded if the file is to blame."""
    trouble = next((line for line in said if any(words in line for words in PASSING)), "")
    if code < 0 or (code and trouble):
        raise NotNow(trouble or f"ffmpeg was killed by signal {-code}")
    if code:
        raise NotDecoded(
            words_of(said) or next((line for line in reversed(said) if line), f"ffmpeg ended with exit code {code}")
        )


def _follow(process: "subprocess.Popen[bytes]", on_progress: Callable[[float], None]) -> None:
    assert process.stdout is not None
    for raw in process.stdout:
        name, _, value = raw.decode(errors="replace").strip().partition("=")
        if name == "out_time_us" and value.lstrip("-").isdigit():
            on_progress(max(0.0, int(value) / 1_000_000))


def _listen(
    process: "subprocess.Popen[bytes]", said: "deque[str]", kept: list[str], keep: re.Pattern[str] | None
) -> None:
    assert process.stderr is not None
    for raw in process.stderr:
        line = raw.decode(errors="replace").rstrip()
        said.append(line)
        if keep and keep.search(line):
            kept.append(line)


@lru_cache
def _say_once_what_is_missing() -> None:
    if not landlock_version():
        logger.warning("This kernel has no Landlock: ffmpeg cannot reach the network, but can read other files.")
