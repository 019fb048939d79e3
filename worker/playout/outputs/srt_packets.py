"""The few fields of SRT packets that the relay of a listening output reads (draft-sharabayko-srt)."""

import struct
from dataclasses import dataclass

HEADER = 16
HANDSHAKE, SHUTDOWN = 0x8000, 0x8005
INDUCTION, CONCLUSION = 1, -1
REFUSED = 1000  # a handshake of this type or above refuses; the difference is the reason
NO_ROOM = 5
# What the reasons mean to a person. libsrt's own texts are in its log, see worker.media.refusals.
REASONS = {
    3: "the connection ended",
    4: "its settings do not fit",
    5: "too many receivers are connected",
    10: "wrong passphrase",
    11: "one side has a passphrase and the other has none",
}


@dataclass(frozen=True)
class Handshake:
    type: int
    socket_id: int


def kind_of(packet: bytes) -> int:
    """The type of a control packet; 0 for data."""
    return int.from_bytes(packet[:2], "big") if len(packet) >= HEADER and packet[0] & 0x80 else 0


def read_handshake(packet: bytes) -> Handshake | None:
    if kind_of(packet) != HANDSHAKE or len(packet) < HEADER + 48:
        return None
    kind, socket_id = struct.unpack_from("!iI", packet, HEADER + 20)
    return Handshake(kind, socket_id)


def refusal(packet: bytes, reason: int) -> bytes:
    """The answer to a caller's handshake that refuses it."""
    asked = read_handshake(packet)
    assert asked is not None
    body = bytearray(packet[HEADER : HEADER + 48])
    struct.pack_into("!i", body, 20, REFUSED + reason)
    return packet[:8] + packet[8:12] + asked.socket_id.to_bytes(4, "big") + bytes(body)


def words_for(reason: int) -> str:
    return REASONS.get(reason, f"SRT reason {reason}")
