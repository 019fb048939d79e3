"""Adds teletext, DVB subtitles and SCTE-35 to a transport stream that ffmpeg made: no ffmpeg can make them itself.

The null packets of the stream are replaced by packets of the new tracks.
"""

from collections.abc import Iterator

PACKET = 188
TELETEXT, SUBTITLES, CUES, NULL, PMT = 0x200, 0x201, 0x202, 0x1FFF, 0x1000
# Stream type and descriptors of each track: teletext and subtitles in German.
TRACKS = {
    TELETEXT: (0x06, b"\x56\x05deu\x09\x00"),
    SUBTITLES: (0x06, b"\x59\x08deu\x10\x00\x01\x00\x01"),
    CUES: (0x86, b""),
}
CUEI = b"\x05\x04CUEI"  # the programme has cues
EVERY_PACKETS = 20


def crc32(data: bytes) -> bytes:
    """MPEG's: not reflected, without a final inversion."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1) ^ 0x04C11DB7 if value & 0x80000000 else value << 1
        value &= 0xFFFFFFFF
    return value.to_bytes(4, "big")


def with_dvb_tracks(stream: bytes, *, is_silent: bool = False) -> bytes:
    """The stream with the three tracks, or with their announcement only."""
    counters = dict.fromkeys(TRACKS, 0)
    turn, seen, stamp, found = 0, 0, b"", []
    for packet in _packets(stream):
        pid = int.from_bytes(packet[1:3], "big") & 0x1FFF
        stamp = _stamp_of(packet) or stamp
        if pid == PMT:
            packet = _with_tracks(packet)
        elif pid == NULL and stamp and not is_silent:
            seen += 1
            if seen % EVERY_PACKETS == 0:
                track = list(TRACKS)[turn % 3]
                packet = _packet(track, counters[track], stamp)
                counters[track] += 1
                turn += 1
        found.append(packet)
    return b"".join(found)


def _packets(stream: bytes) -> Iterator[bytes]:
    for start in range(0, len(stream) - PACKET + 1, PACKET):
        yield stream[start : start + PACKET]


def _stamp_of(packet: bytes) -> bytes:
    """The time stamp of a picture that begins in this packet, as it is written."""
    if not packet[1] & 0x40 or packet[3] & 0x10 == 0:
        return b""
    start = 5 + packet[4] if packet[3] & 0x20 else 4
    begin = packet[start : start + 14]
    if begin[:3] != b"\x00\x00\x01" or begin[3] & 0xF0 != 0xE0 or not begin[7] & 0x80:
        return b""
    return bytes([begin[9] & 0x0F | 0x20]) + begin[10:14]


def _with_tracks(packet: bytes) -> bytes:
    start = 5 + packet[4]
    length = int.from_bytes(packet[start + 1 : start + 3], "big") & 0x0FFF
    section = packet[start : start + 3 + length - 4]
    info = int.from_bytes(section[10:12], "big") & 0x0FFF
    section = section[:10] + (0xF000 | info + len(CUEI)).to_bytes(2, "big") + CUEI + section[12:]
    for pid, (kind, descriptors) in TRACKS.items():
        section += bytes([kind]) + (0xE000 | pid).to_bytes(2, "big")
        section += (0xF000 | len(descriptors)).to_bytes(2, "big") + descriptors
    section = section[:1] + (0xB000 | len(section) - 3 + 4).to_bytes(2, "big") + section[3:]
    section += crc32(section)
    return (packet[:start] + section).ljust(PACKET, b"\xff")


def _packet(pid: int, counter: int, stamp: bytes) -> bytes:
    head = b"\x47" + (0x4000 | pid).to_bytes(2, "big") + bytes([0x10 | counter & 0x0F])
    if pid == CUES:
        cue = b"\xfc\x30\x11\x00\x00\x00\x00\x00\x00\x00\xff\xff\xf0\x00\x00\x00\x00"  # nothing happens (splice null)
        cue = cue[:1] + (0x3000 | len(cue) - 3 + 4).to_bytes(2, "big") + cue[3:]
        return (head + b"\x00" + cue + crc32(cue)).ljust(PACKET, b"\xff")
    unit = b"\x02\x2c\xe7\xe4" + bytes(42)
    content = b"\x10" + unit * 3 if pid == TELETEXT else b"\x20\x00\x0f\x80\x00\x01\x00\x00\xff"
    pes = b"\x84\x80\x05" + stamp + content
    pes = pes.ljust(PACKET - 4 - 6, b"\xff")
    return head + b"\x00\x00\x01\xbd" + len(pes).to_bytes(2, "big") + pes
