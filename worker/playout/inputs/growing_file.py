"""Finds where to start reading a file that is still being written, so that the first picture is the wanted one.

Reading from the middle needs the head of the file (the tables of a transport stream, the boxes before the first
fragment of an MP4) and then everything from a key frame on. The key frame is found by binary search, so that a
recording of a day opens as fast as one of a minute.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

PACKET = 188
TICKS = 90_000
ROUND_SECONDS = (1 << 33) / TICKS  # after this time (26.5 hours) the clock of a transport stream wraps around
WINDOW_BYTES = PACKET * 4096
# A key frame comes within this many bytes.
KEY_WITHIN_BYTES = 64 * 1024 * 1024
# Several audio packets may come before the first picture.
HEAD_BYTES, LONGEST_HEAD_BYTES = PACKET * 5577, PACKET * 5577 * 16
FRAGMENT_BYTES = 4 * 1024 * 1024
# Within this distance, key frames are checked one by one.
NEAR_BYTES = 2 * 1024 * 1024
# The search ends after this time. On slow storage an early start is better than a channel that opens nothing else.
LOOK_SECONDS = 2.0


@dataclass(frozen=True)
class Key:
    """A key frame: its place, its time in the file, and the known length of the picture from there on."""

    offset: int
    seconds: float
    lasts: float = 0.0


@dataclass(frozen=True)
class Entry:
    """Send `head`, then the file from `start`; the wanted picture is at the time `at` of the file."""

    head: bytes
    start: int
    at: float


class _Container(Protocol):
    head: bytes
    round_seconds: float  # after which its clock wraps around; 0: never

    def next_key(self, offset: int) -> Key | None:
        """The first key frame at or after this place."""

    def newest(self, last: Key) -> float:
        """The time of the newest picture; `last` is the last key frame."""


def find_entry(path: Path, seconds: float, length: float = 0.0) -> Entry | None:
    """The entry for the picture `seconds` after the first one, or the last key frame if it is not recorded yet.

    `length` is the approximate length of the file, for files whose clock wraps around. None: there is no key frame.
    """
    until = time.monotonic() + LOOK_SECONDS
    with path.open("rb") as file:
        size = file.seek(0, 2)
        container: _Container = (Transport if path.suffix == ".ts" else Fragments)(file)
        first = container.next_key(len(container.head)) if container.head else None
        if first is None:
            return None

        def since_first(key: Key) -> float:
            passed = key.seconds - first.seconds
            if not container.round_seconds:
                return passed
            passed %= container.round_seconds
            expected = length * key.offset / max(size, 1)
            return passed + container.round_seconds * max(0, round((expected - passed) / container.round_seconds))

        best, last = first, False
        low, high = first.offset + 1, size
        while high - low > NEAR_BYTES and time.monotonic() < until:
            middle = (low + high) // 2
            key = container.next_key(middle)
            if key is None or since_first(key) > seconds:
                high = middle
            else:
                best, low = key, key.offset + 1
        while time.monotonic() < until:
            key = container.next_key(best.offset + 1)
            last = key is None
            if key is None or since_first(key) > seconds:
                break
            best = key
        ahead = seconds - since_first(best)
        if last and ahead > (container.newest(best) - best.seconds) % (container.round_seconds or 1e9):
            ahead = 0.0  # it is not recorded yet: start with the newest
        at = best.seconds + ahead
        # In the last minute before the clock wraps around, ffmpeg uses negative times.
        is_below = bool(container.round_seconds) and best.seconds > container.round_seconds - 60
        return Entry(container.head, best.offset, at - container.round_seconds if is_below else at)


@dataclass(frozen=True)
class _Start:
    """A packet that begins a frame of picture or sound."""

    at: int
    pid: int
    stream: int
    ticks: int
    is_key: bool

    @property
    def is_picture(self) -> bool:
        return 0xE0 <= self.stream <= 0xEF


class Transport:
    """MPEG-TS as our recorder writes it: aligned packets, key frames marked as random access points."""

    round_seconds = ROUND_SECONDS

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.head, self._pid, self._is_sound = b"", -1, False
        file.seek(0)
        data = file.read(HEAD_BYTES)
        if not any(start.is_picture for start in _starts(data)):
            data += file.read(LONGEST_HEAD_BYTES - HEAD_BYTES)
        starts = list(_starts(data))
        if starts:
            pictures = [each for each in starts if each.is_picture]
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

    def newest(self, last: Key) -> float:
        self._file.seek(last.offset)
        found = last.seconds
        while data := self._file.read(WINDOW_BYTES):
            mine = [start.ticks / TICKS for start in _starts(data) if start.pid == self._pid]
            # Compare the distance from the key frame, not the time: the clock may wrap around in between.
            found = max([found, *mine], key=lambda each: (each - last.seconds + 60) % ROUND_SECONDS)
        return found


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

    round_seconds = 0.0

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
                offset += len(data) - 16  # the start of a fragment may be cut in two
                continue
            key = self._key(offset + at, int.from_bytes(data[at : at + 4], "big"))
            if key is not None:
                return key
            offset += at + 8
        return None

    def newest(self, last: Key) -> float:
        return last.seconds + last.lasts

    def _key(self, offset: int, size: int) -> Key | None:
        """The fragment at that place, by the picture's track; None if it is not complete yet."""
        self._file.seek(offset)
        fragment = self._file.read(size) if size <= FRAGMENT_BYTES else b""
        if len(fragment) < size:
            return None
        for name, *box in _boxes(fragment, 8, len(fragment)):
            inner = (
                {each: fragment[begin:end] for each, begin, end in _boxes(fragment, *box)} if name == b"traf" else {}
            )
            head, clock, run = (inner.get(each, b"") for each in (b"tfhd", b"tfdt", b"trun"))
            if head[4:8] != self._track or len(clock) < 8:
                continue
            decoded = int.from_bytes(clock[4:12] if clock[0] else clock[4:8], "big")
            offset_ticks, lasts = _run(run, head)
            return Key(offset, (decoded + offset_ticks) / self._scale, lasts / self._scale)
        return None


def _run(run: bytes, head: bytes) -> tuple[int, int]:
    """How much later than decoded the first sample is shown, and how long all samples last, in ticks."""
    if len(run) < 8:
        return 0, 0
    flags, count = int.from_bytes(run[1:4], "big"), int.from_bytes(run[4:8], "big")
    at = 8 + (4 if flags & 0x1 else 0) + (4 if flags & 0x4 else 0)
    fields = [bit for bit in (0x100, 0x200, 0x400, 0x800) if flags & bit]
    step = 4 * len(fields)
    later = 0
    if 0x800 in fields and len(run) >= at + step:
        place = at + 4 * fields.index(0x800)
        later = int.from_bytes(run[place : place + 4], "big", signed=run[0] > 0)
    if 0x100 in fields:
        return later, sum(int.from_bytes(run[at + n * step : at + n * step + 4], "big") for n in range(count))
    return later, count * _default_duration(head)


def _default_duration(head: bytes) -> int:
    flags = int.from_bytes(head[1:4], "big")
    if not flags & 0x8:
        return 0
    at = 8 + (8 if flags & 0x1 else 0) + (4 if flags & 0x2 else 0)
    return int.from_bytes(head[at : at + 4], "big")


def _find_fragment(data: bytes, at: int) -> int | None:
    """Find the box names that every fragment begins with. By chance they do not occur so close together."""
    while (found := data.find(b"moof", at)) >= 0:
        if found >= 4 and data[found + 8 : found + 12] == b"mfhd":
            return found - 4
        at = found + 1
    return None


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """The name of each box, and where its content begins and ends."""
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
    """The track's type, its number as stored, and its ticks per second."""
    header, _ = _inside(data, begin, end, b"tkhd")
    clock, _ = _inside(data, begin, end, b"mdia", b"mdhd")
    handler, _ = _inside(data, begin, end, b"mdia", b"hdlr")
    number = header + (20 if data[header] else 12)
    scale = clock + (20 if data[clock] else 12)
    ticks = int.from_bytes(data[scale : scale + 4], "big") or 1
    return data[handler + 8 : handler + 12], data[number : number + 4], ticks
