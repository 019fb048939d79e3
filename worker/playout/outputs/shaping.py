"""Turns the encoder's transport stream into one that a strict receiver accepts.

Seven packets go into each datagram. Every packet has its place in time: the clock in the stream (PCR) is written anew
from that place, often enough, and so are the tables. The rate is constant (filled with null packets) or has an upper
limit. The encoder's stream comes in bursts, a large frame at once; here it leaves evenly.
"""

import threading
from collections import deque
from dataclasses import dataclass

PACKET = 188
DATAGRAM_PACKETS = 7
DATAGRAM = DATAGRAM_PACKETS * PACKET
PAT, SDT, PMT, PICTURE, NULL = 0, 0x11, 0x1000, 0x100, 0x1FFF  # where ffmpeg puts them
TABLES = (PAT, PMT, SDT)
NULL_PACKET = bytes([0x47, 0x1F, 0xFF, 0x10]) + b"\xff" * (PACKET - 4)
CLOCK = 27_000_000
ROUND = (1 << 33) * 300
# The tables go with a datagram that is sent anyway, and have one of their own when they become late.
TABLE_SECONDS, LATE_TABLE_SECONDS, NAME_SECONDS = 0.045, 0.08, 0.5  # limits: 0.1 and 2
PCR_SECONDS = 0.035  # limit: 0.04
# A stream of variable rate waits this long for the seventh packet of a datagram.
FILL_SECONDS = 0.03
# What x264 may send at once (its buffer is one second of its rate), and how late a busy machine may encode.
BUFFER_SECONDS, SLACK_SECONDS = 1.0, 0.2
MOST_LEAD_SECONDS = 4.0  # further ahead than this, the encoder's clock has jumped
BEHIND_SECONDS = 1.0
MOST_SECONDS = 3.0  # of stream that waits to be sent


@dataclass(frozen=True)
class Rate:
    bits_per_second: float
    is_constant: bool
    delay_seconds: float  # how much later than encoded a frame is due at the receiver


def rate_for(video: float, sound: float, constant: float | None) -> Rate:
    """The given constant rate, or a variable one up to twice what the encoder sends."""
    bits = constant or 2 * (video * 1.1 + sound)
    return Rate(bits, constant is not None, BUFFER_SECONDS * video / bits + SLACK_SECONDS)


class Shaper:
    """`put` is called by the encoder's thread, `due` by the sender's."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self.dropped = 0
        self._slot_seconds = PACKET * 8 / rate.bits_per_second
        self._most = int(rate.bits_per_second / 8 * MOST_SECONDS) + (1 << 20)
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._held_since: float | None = None
        self._is_lost = True  # until the next key frame
        self._tables: dict[int, bytes] = {}
        self._urgent: deque[bytes] = deque()
        self._counters: dict[int, int] = {}
        self._began: float | None = None
        self._slots = 0
        self._pcr_base: float | None = None  # the receiver's clock at slot 0, in seconds
        self._pcr_at = self._tables_at = self._names_at = -1e9
        self._has_jumped = False

    def put(self, packets: bytes) -> None:
        with self._lock:
            if len(self._queue) * PACKET + len(packets) > self._most:
                self._queue.clear()
                self._is_lost = True
                self.dropped += 1
            for at in range(0, len(packets), PACKET):
                self._take_in(packets[at : at + PACKET])

    def _take_in(self, packet: bytes) -> None:
        pid = (packet[1] & 0x1F) << 8 | packet[2]
        if pid in TABLES:
            self._tables[pid] = packet
            return
        if self._is_lost:
            if pid != PICTURE or not _flags(packet) & 0x40:
                return
            self._is_lost = False
        self._queue.append(packet)

    def next_at(self, now: float) -> float:
        """When the next datagram is due."""
        if self._began is None:
            return now + 0.005
        return self._began + self._slots * self._slot_seconds

    def due(self, now: float) -> list[tuple[bytes, int]]:
        """The datagrams whose time has come, each with the stream's clock at its beginning (90 kHz, for RTP)."""
        with self._lock:
            if self._began is None and not self._begin(now):
                return []
            assert self._began is not None
            if now - self.next_at(now) > BEHIND_SECONDS:  # the machine was suspended: continue from now
                skipped = int((now - self.next_at(now)) / self._slot_seconds)
                self._slots += skipped
                if self._pcr_base is not None:  # the encoder's clock stood still too
                    self._pcr_base -= skipped * self._slot_seconds
            found: list[tuple[bytes, int]] = []
            while self.next_at(now) <= now:
                if self.rate.is_constant or self._is_worthwhile():
                    stamp = int(self._receiver_seconds() * 90_000) % (1 << 32)
                    found.append((b"".join([self._next_packet() for _ in range(DATAGRAM_PACKETS)]), stamp))
                else:
                    self._slots += 1
            return found

    def _begin(self, now: float) -> bool:
        """Begin with the first key frame, when the tables are known."""
        if not self._queue or PAT not in self._tables or PMT not in self._tables:
            return False
        self._began, self._slots = now, 0
        return True

    def _is_worthwhile(self) -> bool:
        """At a variable rate: there are seven packets, or something cannot wait longer."""
        at = self._slots * self._slot_seconds
        if not self._queue:
            self._held_since = None
        elif self._held_since is None:
            self._held_since = at
        if len(self._queue) >= DATAGRAM_PACKETS or self._urgent:
            return True
        return (
            at - self._pcr_at >= PCR_SECONDS
            or at - self._tables_at >= LATE_TABLE_SECONDS
            or (self._held_since is not None and at - self._held_since >= FILL_SECONDS)
        )

    def _next_packet(self) -> bytes:
        at = self._slots * self._slot_seconds
        self._held_since = None
        if at - self._tables_at >= TABLE_SECONDS:
            self._tables_at = at
            self._urgent.extend(self._tables[pid] for pid in (PAT, PMT))
            if at - self._names_at >= NAME_SECONDS and SDT in self._tables:
                self._names_at = at
                self._urgent.append(self._tables[SDT])
        if self._urgent:
            packet = self._counted(bytearray(self._urgent.popleft()))
        elif self._queue and (at - self._pcr_at < PCR_SECONDS or _flags(self._queue[0]) & 0x10):
            packet = self._from_encoder(at)
        elif at - self._pcr_at >= PCR_SECONDS and self._pcr_base is not None:
            packet = self._clock_packet(at)
        elif self._queue:
            packet = self._from_encoder(at)
        else:
            packet = NULL_PACKET
        self._slots += 1
        return packet

    def _from_encoder(self, at: float) -> bytes:
        packet = bytearray(self._queue.popleft())
        if _flags(packet) & 0x10:
            self._check_lead(_pcr_of(packet))
            self._stamp(packet, at)
        return self._counted(packet)

    def _check_lead(self, encoded: float) -> None:
        """Set the receiver's clock by the encoder's: at first, and when the encoder's is no longer a little ahead."""
        if self._pcr_base is not None:
            lead = (encoded - self._receiver_seconds()) % (ROUND / CLOCK)
            if 0 < lead < MOST_LEAD_SECONDS:
                return
            self._has_jumped = True
        self._pcr_base = encoded - self.rate.delay_seconds - self._slots * self._slot_seconds

    def _receiver_seconds(self) -> float:
        return (self._pcr_base or 0.0) + self._slots * self._slot_seconds

    def _clock_packet(self, at: float) -> bytes:
        """A packet without content, only with the clock."""
        packet = bytearray(b"\xff" * PACKET)
        packet[:6] = bytes([0x47, PICTURE >> 8, PICTURE & 0xFF, 0x20, PACKET - 5, 0x10])
        self._stamp(packet, at)
        return self._counted(packet)

    def _stamp(self, packet: bytearray, at: float) -> None:
        ticks = round(self._receiver_seconds() * CLOCK) % ROUND
        packet[6:12] = ((ticks // 300) << 15 | 0x3F << 9 | ticks % 300).to_bytes(6, "big")
        if self._has_jumped:
            packet[5] |= 0x80
            self._has_jumped = False
        self._pcr_at = at

    def _counted(self, packet: bytearray) -> bytes:
        """Our own continuity counters: the encoder's begin again when it is replaced."""
        pid = (packet[1] & 0x1F) << 8 | packet[2]
        has_payload = packet[3] & 0x10
        counter = (self._counters.get(pid, -1 if has_payload else 0) + (1 if has_payload else 0)) % 16
        self._counters[pid] = counter
        packet[3] = packet[3] & 0xF0 | counter
        return bytes(packet)


def _flags(packet: bytes | bytearray) -> int:
    return packet[5] if packet[3] & 0x20 and packet[4] else 0


def _pcr_of(packet: bytes | bytearray) -> float:
    base = int.from_bytes(packet[6:12], "big")
    return ((base >> 15) * 300 + (base & 0x1FF)) / CLOCK
