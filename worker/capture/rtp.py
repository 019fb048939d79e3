"""Reads MPEG-TS in RTP: puts the packets in order, and follows a sender that starts again."""

import contextlib
import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

PACKET_BYTES = 65536
# A packet that is this many numbers late or early belongs to a sender that started again.
RESTART_PACKETS = 1000
HELD_PACKETS = 32
RECEIVE_BYTES = 4 * 1024 * 1024
MOST_BYTES = 2**30
PIPE_BYTES = 1024 * 1024
LOOK_SECONDS = 0.2
NUMBERS = 1 << 16
ANY = "0.0.0.0"  # noqa: S104  every address of this machine
IP_ADD_SOURCE_MEMBERSHIP = 39  # Linux; Python names it from 3.12 on


def payload_of(packet: bytes) -> tuple[int, int, bytes] | None:
    """Sender, number and content of an RTP packet; None if it is none."""
    if len(packet) < 12 or packet[0] >> 6 != 2 or 72 <= packet[1] & 0x7F <= 76:  # 72 to 76: RTCP
        return None
    start = 12 + 4 * (packet[0] & 0x0F)
    if packet[0] & 0x10 and len(packet) >= start + 4:
        start += 4 + 4 * int.from_bytes(packet[start + 2 : start + 4], "big")
    end = len(packet) - (packet[-1] if packet[0] & 0x20 else 0)
    number, sender = int.from_bytes(packet[2:4], "big"), int.from_bytes(packet[8:12], "big")
    return sender, number, packet[start:end]


class PacketOrder:
    """Gives out the content of packets in the order of their numbers."""

    def __init__(self) -> None:
        self._sender: int | None = None
        self._next = 0
        self._held: dict[int, bytes] = {}

    def take(self, sender: int, number: int, content: bytes) -> Iterator[bytes]:
        ahead = (number - self._next) % NUMBERS
        if sender != self._sender or RESTART_PACKETS < ahead < NUMBERS - RESTART_PACKETS:
            yield from self._held_ones()
            self._sender, self._next, ahead = sender, number, 0
        if ahead > NUMBERS // 2:
            return  # it came twice, or too late
        self._held[number] = content
        if len(self._held) > HELD_PACKETS:
            self._next = min(self._held, key=lambda each: (each - self._next) % NUMBERS)  # those before are lost
        while (found := self._held.pop(self._next, None)) is not None:
            yield found
            self._next = (self._next + 1) % NUMBERS

    def _held_ones(self) -> Iterator[bytes]:
        yield from (self._held[number] for number in sorted(self._held, key=lambda each: (each - self._next) % NUMBERS))
        self._held.clear()


class RtpReader:
    """Receives on the port of an address and writes the transport stream to ffmpeg."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = open_socket(parts.hostname or ANY, parts.port or 0, dict(parse_qsl(parts.query)))
        self._socket.settimeout(LOOK_SECONDS)
        self._is_over = False
        self.descriptor, self._sink = os.pipe()

    def run(self) -> None:
        """Until `stop`, or until ffmpeg has ended."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._sink, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        order = PacketOrder()
        with self._socket, open(self._sink, "wb", buffering=0) as sink, contextlib.suppress(BrokenPipeError):
            while not self._is_over:
                try:
                    found = payload_of(self._socket.recv(PACKET_BYTES))
                except TimeoutError:
                    continue
                for content in order.take(*found) if found else ():
                    sink.write(content)

    def stop(self) -> None:
        self._is_over = True


def open_socket(host: str, port: int, options: dict[str, str]) -> socket.socket:
    address = ipaddress.ip_address(host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_DGRAM)
    try:
        opened.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, min(int(options.get("buffer_size", RECEIVE_BYTES)), MOST_BYTES)
        )
        if address.is_multicast:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        if address.is_multicast:
            join(opened, address, options)
    except OSError:
        opened.close()
        raise
    return opened


def join(opened: socket.socket, group: ipaddress.IPv4Address | ipaddress.IPv6Address, options: dict[str, str]) -> None:
    """Join a multicast group, for certain senders only if the address names them."""
    if group.version == 6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group.packed + struct.pack("@I", 0))
        return
    local = socket.inet_aton(options.get("localaddr", ANY))
    senders = [each for each in options.get("sources", "").split(",") if each]
    for each in senders:
        wanted = group.packed + local + socket.inet_aton(each)
        opened.setsockopt(socket.IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, wanted)
    if not senders:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group.packed + local)
