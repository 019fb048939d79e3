"""Where to enter a file that is still being written, so that its first picture is the one asked for.

Whoever begins in the middle needs what stands at the head of the file (the tables of a transport stream, the boxes
before the first fragment of an MP4) and then everything from a key frame on. That one is found by halving: a
recording of a day is entered as fast as one of a minute.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

PACKET = 188
TICKS = 90_000
WRAP = 1 << 33
WINDOW_BYTES = PACKET * 4096
# A key frame comes at the latest after so much.
KEY_WITHIN_BYTES = 64 * 1024 * 1024
HEAD_BYTES = 1024 * 1024
# So near, keys are looked at one after the other.
NEAR_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True)
class Key:
    """A place to begin, and the time the file gives it."""

    offset: int
    seconds: float


@dataclass(frozen=True)
class Entry:
    """Send `head`, then the file from `start`; the picture asked for is the one of the file's own time `at`."""

    head: bytes
    start: int
    at: float


class _Container(Protocol):
    head: bytes

    def next_key(self, offset: int) -> Key | None:
        """The first at or after this place."""

    def between(self, first: Key, other: Key) -> float:
        """How many seconds `other` is after `first`."""


def find_entry(path: Path, seconds: float) -> Entry | None:
    """For the picture `seconds` after the first one; none if the file has no such places, or nothing of that yet."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        container = (Transport if path.suffix == ".ts" else Fragments)(file)
        first = container.next_key(len(container.head)) if container.head else None
        if first is None:
            return None
        best = first
        low, high = first.offset + 1, size
        while high - low > NEAR_BYTES:
            middle = (low + high) // 2
            key = container.next_key(middle)
            if key is None or container.between(first, key) > seconds:
                high = middle
            else:
                best, low = key, key.offset + 1
        while (key := container.next_key(best.offset + 1)) and container.between(first, key) <= seconds:
            best = key
        return Entry(container.head, best.offset, best.seconds + seconds - container.between(first, best))


@dataclass(frozen=True)
class _Start:
    """A packet that begins a picture or a piece of sound."""

    at: int
    pid: int
    stream: int
    ticks: int
    is_key: bool


class Transport:
    """MPEG-TS as our recorder writes it: packets in step, key frames marked as places to begin."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.head, self._pid, self._is_sound = b"", -1, False
        file.seek(0)
        data = file.read(HEAD_BYTES // PACKET * PACKET)
        starts = list(_starts(data))
        if starts:
            pictures = [each for each in starts if 0xE0 <= each.stream <= 0xEF]
            self.head = data[: starts[0].at]
            self._pid = (pictures or starts)[0].pid
            self._is_sound = not pictures

    def next_key(self, offset: int) -> Key | None:
        place = -(-offset // PACKET) * PACKET
        self._file.seek(place)
        end = place + KEY_WITHIN_BYTES
        while place < end and (data := self._file.read(WINDOW_BYTES)):
            for start in _starts(data):
                if start.pid == self._pid and (start.is_key or self._is_sound):
                    return Key(place + start.at, start.ticks / TICKS)
            place += len(data)
        return None

    def between(self, first: Key, other: Key) -> float:
        """The clock of a transport stream begins again after a day and a bit."""
        ticks = round((other.seconds - first.seconds) * TICKS) % WRAP
        return (ticks if ticks < WRAP // 2 else 0) / TICKS


def _starts(data: bytes) -> Iterator[_Start]:
    for at in range(0, len(data) - PACKET + 1, PACKET):
        if not data[at + 1] & 0x40 or data[at] != 0x47:
            continue
        has_fields, has_payload = data[at + 3] & 0x20, data[at + 3] & 0x10
        body = at + 4 + (1 + data[at + 4] if has_fields else 0)
        if not has_payload or body + 14 > at + PACKET:
            continue
        if data[body : body + 3] != b"\0\0\1" or not data[body + 7] & 0x80:  # no stamp
            continue
        stamp = data[body + 9 : body + 14]
        ticks = (stamp[0] & 0x0E) << 29 | stamp[1] << 22 | (stamp[2] & 0xFE) << 14 | stamp[3] << 7 | stamp[4] >> 1
        is_key = bool(has_fields and data[at + 4] and data[at + 5] & 0x40)
        yield _Start(at, (data[at + 1] & 0x1F) << 8 | data[at + 2], data[body + 3], ticks, is_key)


class Fragments:
    """Fragmented MP4 as our recorder writes it: each fragment begins with a key frame."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.head, self._track, self._scale = b"", b"", 1
        file.seek(0)
        data = file.read(HEAD_BYTES)
        first = _find_fragment(data, 0)
        if first is None:
            return
        movie = _inside(data, 0, first, b"moov")
        tracks = [_track(data, *box) for name, *box in _boxes(data, *movie) if name == b"trak"]
        if tracks:
            _, self._track, self._scale = max(tracks, key=lambda track: track[0] == b"vide")
            self.head = data[:first]

    def next_key(self, offset: int) -> Key | None:
        end = offset + KEY_WITHIN_BYTES
        while offset < end:
            self._file.seek(offset)
            data = self._file.read(WINDOW_BYTES)
            at = _find_fragment(data, 0)
            if at is None:
                if len(data) < WINDOW_BYTES:
                    return None
                offset += len(data) - 16  # its first words may be cut in two
                continue
            self._file.seek(offset + at)
            size = int.from_bytes(data[at : at + 4], "big")
            ticks = self._ticks(self._file.read(size))
            if ticks is not None:
                return Key(offset + at, ticks / self._scale)
            offset += at + 8
        return None

    def between(self, first: Key, other: Key) -> float:
        return other.seconds - first.seconds

    def _ticks(self, fragment: bytes) -> int | None:
        """When it begins, by the track of the picture."""
        for name, *box in _boxes(fragment, 8, len(fragment)):
            if name != b"traf":
                continue
            inner = {each: fragment[begin:end] for each, begin, end in _boxes(fragment, *box)}
            if inner.get(b"tfhd", b"")[4:8] == self._track and (time := inner.get(b"tfdt")):
                return int.from_bytes(time[4:12] if time[0] else time[4:8], "big")
        return None


def _find_fragment(data: bytes, at: int) -> int | None:
    """By the words every fragment begins with; they are not met by chance twelve bytes apart."""
    while (found := data.find(b"moof", at)) >= 0:
        if found >= 4 and data[found + 8 : found + 12] == b"mfhd":
            return found - 4
        at = found + 1
    return None


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, and where its content begins and ends."""
    while at + 8 <= end:
        size = int.from_bytes(data[at : at + 4], "big")
        if size < 8:
            return
        yield data[at + 4 : at + 8], at + 8, min(at + size, end)
        at += size


def _inside(data: bytes, begin: int, end: int, *path: bytes) -> tuple[int, int]:
    for wanted in path:
        begin, end = next(((first, last) for name, first, last in _boxes(data, begin, end) if name == wanted), (0, 0))
    return begin, end


def _track(data: bytes, begin: int, end: int) -> tuple[bytes, bytes, int]:
    """What it carries, its number as it is written, and the ticks of its second."""
    header, _ = _inside(data, begin, end, b"tkhd")
    clock, _ = _inside(data, begin, end, b"mdia", b"mdhd")
    handler, _ = _inside(data, begin, end, b"mdia", b"hdlr")
    number = header + (20 if data[header] else 12)
    scale = clock + (20 if data[clock] else 12)
    ticks = int.from_bytes(data[scale : scale + 4], "big") or 1
    return data[handler + 8 : handler + 12], data[number : number + 4], ticks
