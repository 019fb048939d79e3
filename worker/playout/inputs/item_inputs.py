"""How an item is opened: files in a sandbox, growing recordings by following them, live sources like in a recorder."""

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from worker.media.ffmpeg import Binary, list_decklinks
from worker.media.file_formats import FORMATS, PROTOCOLS
from worker.media.sources import build_input, nth_decklink
from worker.playout.inputs.decoder_process import Feed
from worker.playout.inputs.growing_file import Entry, find_entry
from worker.playout.loaded_config import Item
from worker.process.config_line import ConfigError
from worker.wire import codec
from worker.wire.parts_and_gaps import RecordingJournal

PIECE_BYTES = 188 * 256
FOLLOW_SECONDS = 0.1
# A recording that stopped growing without an end in its journal counts as over after this time.
GROWN_SECONDS = 20.0
# Live sources are analysed only briefly before they are shown.
QUICK = ("-probesize", "1000000", "-analyzeduration", "1500000", "-fpsprobesize", "0")
QUICK_OPTIONS = {"probesize": "1000000", "analyzeduration": "1500000", "fpsprobesize": "0"}
KNOWN = ("-protocol_whitelist", PROTOCOLS, "-format_whitelist", FORMATS)


class CannotOpen(Exception):
    """The item is missing or has the wrong format. The text is for people."""


@dataclass(frozen=True)
class Growing:
    """The parts of a recording, from its journal."""

    files: tuple[Path, ...]
    lengths: tuple[float, ...]
    ended: tuple[bool, ...]

    @property
    def is_over(self) -> bool:
        return bool(self.ended) and all(self.ended)


def feed_of(item: Item, binary: Binary, *, is_endless: bool = False) -> Feed:
    """For an asset (in a loop if `is_endless`) or a live source. Raises CannotOpen."""
    if item.kind == "live":
        return _live_feed(item, binary)
    path = item.file
    if path is None or not path.is_file():
        raise CannotOpen(f"the file {path.name} is missing" if path else "it has no file")
    if not path.stat().st_size:
        raise CannotOpen(f"the file {path.name} is empty")
    endless = ["-stream_loop", "-1"] if is_endless else []
    return Feed([*KNOWN, *endless, "-i", f"file:{path}"], reads=[path], gain_db=item.gain_db)


def follow_feed(path: Path, is_over: Callable[[], bool], seconds: float, length: float) -> tuple[Feed, float]:
    """A growing file from `seconds` on, and how far ffmpeg has to seek by itself.

    We read the file and pipe it to ffmpeg. ffmpeg's own `follow` option first looks for the end, which never comes.
    """
    arguments = ["-protocol_whitelist", "pipe", "-format_whitelist", FORMATS, *QUICK, "-i", "pipe:0"]
    entry = find_entry(path, seconds, length) if seconds > 0 else None
    follower = Follower(path, entry, is_over)
    feed = Feed(arguments, stdin=follower.pieces, reads=[], begins_at=entry.at if entry is not None else None)
    # An MP4 without a key frame has no fragment yet and is not seekable: start at its beginning.
    can_seek = entry is None and path.suffix == ".ts"
    return feed, seconds if can_seek else 0.0


class Follower:
    """Reads a file while it grows, until the recording is over."""

    def __init__(self, path: Path, entry: Entry | None, is_over: Callable[[], bool]) -> None:
        self.path, self.entry, self.is_over = path, entry, is_over

    def pieces(self) -> Iterator[bytes]:
        silent_since = time.monotonic()
        with self.path.open("rb") as file:
            if self.entry is not None:
                yield self.entry.head
                file.seek(self.entry.start)
            while True:
                was_over = self.is_over()  # checked before reading, so that everything written before is read
                if piece := file.read(PIECE_BYTES):
                    silent_since = time.monotonic()
                    yield piece
                elif was_over or time.monotonic() - silent_since > GROWN_SECONDS:
                    return
                else:
                    time.sleep(FOLLOW_SECONDS)


def _live_feed(item: Item, binary: Binary) -> Feed:
    assert item.source is not None
    try:
        source = item.source
        if source.type not in {"test", "decklink"}:
            source = replace(source, options={**QUICK_OPTIONS, **source.options})
        found = build_input(
            source,
            can_look_up_names=not binary.is_static,
            device_name=lambda index: nth_decklink(list_decklinks(binary), index),
        )
    except (ConfigError, OSError, subprocess.SubprocessError) as error:
        raise CannotOpen(str(error)) from error
    return Feed(
        found.arguments,
        found.stdin,
        is_live=True,
        sound_input=1 if item.source.type == "test" else 0,
        kind=item.source.type,
    )


def read_growing(item: Item) -> Growing:
    """The current parts of a recording. Raises CannotOpen."""
    assert item.journal is not None
    try:
        stored = codec.loads(RecordingJournal, item.journal.read_bytes())
    except (OSError, codec.WireError) as error:
        raise CannotOpen(f"the recording cannot be found: {type(error).__name__}") from error
    parts = [part for part in stored.parts if part.bytes or part.first_frame_at]
    files = tuple(item.journal.parent / Path(part.file).name for part in parts)
    lengths = tuple(part.seconds for part in parts)
    return Growing(files, lengths, tuple(part.ended_at is not None for part in parts))


def place_in(growing: Growing, seconds: float) -> tuple[int, float]:
    """The part and the offset in it for `seconds` of the recording."""
    for index, length in enumerate(growing.lengths):
        if seconds < length or index == len(growing.lengths) - 1:
            return index, seconds
        seconds -= length
    return 0, seconds
