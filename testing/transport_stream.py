"""Judges an MPEG transport stream as a receiver would: sync, counters, clock, tables, rate and names.

`analyse` takes whole datagrams with their arrival times (or one piece of a file) and returns a Verdict. Positions are
counted in packets; times inside the stream are read from the PCR, between two PCRs in proportion to the position.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

PACKET = 188
SYNC = 0x47
NULL, PAT, SDT = 0x1FFF, 0, 0x11
CLOCK = 27_000_000
ROUND = (1 << 33) * 300
MPEG_TS_IN_RTP = 33


@dataclass(frozen=True)
class Datagram:
    at: float
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Everything found. Times are milliseconds; None: there was too little to measure it."""

    datagrams: int
    packets: int
    odd_datagrams: int  # not seven whole packets
    sync_losses: int
    continuity_errors: tuple[str, ...]
    null_packets: int
    pcr_count: int
    pcr_longest_ms: float | None  # the longest time between two PCRs
    pcr_jitter_ms: float | None  # the largest distance of a PCR from its place at a constant rate
    arrival_jitter_ms: float | None  # the same against the arrival times
    pat_longest_ms: float | None
    pmt_longest_ms: float | None
    bits_per_second: float | None
    service_name: str = ""
    provider: str = ""
    stream_types: tuple[int, ...] = ()

    def problems(self, *, is_constant: bool = False, bits_per_second: float | None = None) -> list[str]:
        """What a strict receiver objects to; empty if nothing."""
        found = [f"{self.odd_datagrams} datagrams are not seven packets"] if self.odd_datagrams else []
        if self.sync_losses:
            found.append(f"{self.sync_losses} packets without a sync byte")
        found += self.continuity_errors
        limits = [("PCR", self.pcr_longest_ms, 40.0), ("PAT", self.pat_longest_ms, 100.0)]
        limits += [("PMT", self.pmt_longest_ms, 100.0)]
        limits += [("PCR jitter", self.pcr_jitter_ms, 0.5)] if is_constant else []
        found += [
            f"{name}: {value} ms, limit {most} ms" for name, value, most in limits if value is None or value > most
        ]
        if bits_per_second and abs((self.bits_per_second or 0.0) / bits_per_second - 1) > 0.001:
            found.append(f"{self.bits_per_second} bit/s instead of {bits_per_second}")
        return found


@dataclass
class _Found:
    """What is collected while reading."""

    datagrams: int = 0
    odd: int = 0
    position: int = 0
    sync_losses: int = 0
    nulls: int = 0
    errors: list[str] = field(default_factory=list)
    counters: dict[int, int] = field(default_factory=dict)
    pcr_pid: int | None = None
    pmt_pid: int | None = None
    pcrs: list[tuple[int, int, float]] = field(default_factory=list)  # position, ticks, arrival
    tables: dict[int, list[int]] = field(default_factory=dict)
    names: tuple[str, str] = ("", "")
    stream_types: tuple[int, ...] = ()


def analyse(stream: bytes | Iterable[Datagram]) -> Verdict:
    """Of a file (bytes) only what does not need arrival times."""
    is_file = isinstance(stream, bytes)
    pieces = [Datagram(0.0, stream)] if isinstance(stream, bytes) else stream
    found = _Found()
    for piece in pieces:
        found.datagrams += 1
        found.odd += len(piece.data) != 7 * PACKET
        for at in range(0, len(piece.data) - PACKET + 1, PACKET):
            _read(found, piece.data[at : at + PACKET], piece.at)
            found.position += 1
    return _judge(found, is_file=is_file)


def from_rtp(datagrams: Sequence[Datagram]) -> tuple[list[Datagram], list[str]]:
    """The transport stream inside RTP, and what is wrong with its headers."""
    wrong = [
        f"datagram {number}: not RTP with MPEG-TS"
        for number, each in enumerate(datagrams)
        if len(each.data) < 12 or each.data[0] != 0x80 or each.data[1] & 0x7F != MPEG_TS_IN_RTP
    ]
    sequence = [int.from_bytes(each.data[2:4], "big") for each in datagrams]
    wrong += [f"sequence number {b} after {a}" for a, b in pairwise(sequence) if b != (a + 1) % 65536]
    return [Datagram(each.at, each.data[12:]) for each in datagrams], wrong


def picture_times(stream: bytes) -> list[float]:
    """The presentation times of the frames, in the order of the stream, in seconds."""
    found = []
    for at in range(0, len(stream) - PACKET + 1, PACKET):
        packet = stream[at : at + PACKET]
        body = packet[4 + (1 + packet[4] if packet[3] & 0x20 else 0) :]
        if packet[1] & 0x40 and body[:3] == b"\0\0\1" and 0xE0 <= body[3] <= 0xEF and body[7] & 0x80:
            raw = body[9:14]
            ticks = (raw[0] & 0x0E) << 29 | raw[1] << 22 | (raw[2] & 0xFE) << 14 | raw[3] << 7 | raw[4] >> 1
            found.append(ticks / 90_000)
    return found


def _read(found: _Found, packet: bytes, at: float) -> None:
    if packet[0] != SYNC:
        found.sync_losses += 1
        return
    pid = (packet[1] & 0x1F) << 8 | packet[2]
    if pid == NULL:
        found.nulls += 1
        return
    has_fields, has_payload = bool(packet[3] & 0x20), bool(packet[3] & 0x10)
    flags = packet[5] if has_fields and packet[4] else 0
    _count(found, pid, packet[3] & 0x0F, has_payload=has_payload, may_jump=bool(flags & 0x80))
    if flags & 0x10 and pid == (found.pcr_pid if found.pcr_pid is not None else pid):
        base = int.from_bytes(packet[6:12], "big")
        found.pcrs.append((found.position, (base >> 15) * 300 + (base & 0x1FF), at))
    if has_payload and packet[1] & 0x40 and pid in {PAT, SDT, found.pmt_pid}:
        body = packet[4 + (1 + packet[4] if has_fields else 0) :]
        found.tables.setdefault(pid, []).append(found.position)
        _read_table(found, pid, body[1 + body[0] :])


def _count(found: _Found, pid: int, counter: int, *, has_payload: bool, may_jump: bool) -> None:
    before = found.counters.get(pid)
    found.counters[pid] = counter
    if before is None or may_jump:
        return
    expected = (before + has_payload) % 16
    if counter != expected:
        found.errors.append(f"packet {found.position}: counter {counter} of PID {pid}, expected {expected}")


def _read_table(found: _Found, pid: int, section: bytes) -> None:
    length = (section[1] & 0x0F) << 8 | section[2]
    content = section[8 : 3 + length - 4]
    if pid == PAT:
        pairs = [content[at : at + 4] for at in range(0, len(content), 4)]
        found.pmt_pid = next(((each[2] & 0x1F) << 8 | each[3] for each in pairs if each[:2] != b"\0\0"), None)
    elif pid == SDT:
        found.names = _names(content[3:])
    else:
        found.pcr_pid = (content[0] & 0x1F) << 8 | content[1]
        at = 4 + ((content[2] & 0x0F) << 8 | content[3])
        kinds = []
        while at + 5 <= len(content):
            kinds.append(content[at])
            at += 5 + ((content[at + 3] & 0x0F) << 8 | content[at + 4])
        found.stream_types = tuple(kinds)


def _names(services: bytes) -> tuple[str, str]:
    """Service name and provider of the first service."""
    descriptors = services[5:]
    while len(descriptors) > 2 and descriptors[0] != 0x48:
        descriptors = descriptors[2 + descriptors[1] :]
    if len(descriptors) < 5:
        return "", ""
    provider = descriptors[4 : 4 + descriptors[3]]
    rest = descriptors[4 + descriptors[3] :]
    return _text(rest[1 : 1 + rest[0]]), _text(provider)


def _text(raw: bytes) -> str:
    """A first byte of 0x15 says UTF-8 (EN 300 468, annex A)."""
    return raw[1:].decode(errors="replace") if raw[:1] == b"\x15" else raw.decode("latin-1")


def _judge(found: _Found, *, is_file: bool) -> Verdict:
    times = _unwrapped(found.pcrs)
    places = [place for place, _, _ in found.pcrs]
    rate = slope = None
    if len(times) > 1 and times[-1] > times[0]:
        slope = (times[-1] - times[0]) / (places[-1] - places[0])
        rate = PACKET * 8 / slope
    late = [at - time for (_, _, at), time in zip(found.pcrs, times, strict=True)]
    off = [time - times[0] - (place - places[0]) * (slope or 0.0) for place, time in zip(places, times, strict=True)]
    enough = len(times) > 2

    def longest(pid: int | None) -> float | None:
        seen = [
            time for place in found.tables.get(pid or 0, []) if (time := _time_at(place, places, times)) is not None
        ]
        return _ms(max((b - a for a, b in pairwise(seen)), default=None))

    return Verdict(
        datagrams=found.datagrams,
        packets=found.position,
        odd_datagrams=0 if is_file else found.odd,
        sync_losses=found.sync_losses,
        continuity_errors=tuple(found.errors),
        null_packets=found.nulls,
        pcr_count=len(times),
        pcr_longest_ms=_ms(max((b - a for a, b in pairwise(times)), default=None)),
        pcr_jitter_ms=_ms((max(off) - min(off)) / 2) if enough else None,
        arrival_jitter_ms=None if is_file or not enough else _ms(max(late) - min(late)),
        pat_longest_ms=longest(PAT),
        pmt_longest_ms=longest(found.pmt_pid),
        bits_per_second=round(rate) if rate else None,
        service_name=found.names[0],
        provider=found.names[1],
        stream_types=found.stream_types,
    )


def _unwrapped(pcrs: list[tuple[int, int, float]]) -> list[float]:
    """Seconds, continuing where the clock starts again at zero."""
    times: list[float] = []
    added = 0
    for number, (_, ticks, _) in enumerate(pcrs):
        if number and ticks - pcrs[number - 1][1] < -ROUND // 2:
            added += ROUND
        times.append((ticks + added) / CLOCK)
    return times


def _time_at(place: int, places: list[int], times: list[float]) -> float | None:
    for (first, last), (begin, end) in zip(pairwise(places), pairwise(times), strict=True):
        if first <= place <= last:
            return begin + (end - begin) * (place - first) / (last - first)
    return None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
