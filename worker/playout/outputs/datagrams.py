"""UDP and RTP outputs: the shaped stream in datagrams of seven packets, sent by the media worker itself."""

import ipaddress
import secrets
import socket
import struct
import time
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

from worker.playout.outputs.fan_out import Fan
from worker.playout.outputs.paced_feed import PacedFeed
from worker.playout.outputs.shaping import Rate, Shaper
from worker.playout.outputs.supervised import Tended
from worker.wire.configuration import Output
from worker.wire.status import OutputStatus

RETRY_SECONDS = 1.0
# After this long without a datagram, the encoder sends nothing.
SILENT_SECONDS = 2.0
MULTICAST_HOPS = 16
SEND_BUFFER_BYTES = 512 * 1024
MPEG_TS_IN_RTP = 33


class DatagramOutput(Tended):
    def __init__(self, fan: Fan, output: Output, rate: Rate) -> None:
        super().__init__(output.key, output.type)
        self.fan, self.output, self.rate = fan, output, rate
        self.bytes_sent = 0
        self._socket: socket.socket | None = None
        self._feed: PacedFeed | None = None
        self._next_at = 0.0
        self._sequence = secrets.randbelow(1 << 16)
        self._source = secrets.randbits(32)

    @property
    def state(self) -> str:
        feed = self._feed
        if feed is None or feed.error is not None:
            return "waiting" if self.error else "starting"
        is_silent = feed.sent_at is None or time.monotonic() - feed.sent_at > SILENT_SECONDS
        return "starting" if is_silent else "sending"

    def status(self) -> OutputStatus:
        return replace(super().status(), bytes=self.bytes_sent)

    def tend(self) -> None:
        now, feed = time.monotonic(), self._feed
        if feed is not None and feed.error is not None:
            self.error = f"the network refuses to send: {feed.error.strerror or feed.error}"
            self.restarts += 1
            self._next_at = now + RETRY_SECONDS
            self.finish()
        elif feed is not None and feed.sent_at is not None:
            self.error = ""
        if self._feed is None and now >= self._next_at:
            self._next_at = now + RETRY_SECONDS
            self._open()

    def _open(self) -> None:
        try:
            self._socket, address = open_socket(self.output.url)
        except OSError as error:
            self.error = f"the address cannot be used: {error.strerror or error}"
            return
        self._feed = PacedFeed(self.fan, Shaper(self.rate), lambda data, stamp: self._send(address, data, stamp))
        self._feed.start()

    def _send(self, address: tuple[str, int], datagram: bytes, stamp: int) -> None:
        assert self._socket is not None
        if self.kind == "rtp":
            head = struct.pack("!BBHII", 0x80, MPEG_TS_IN_RTP, self._sequence, stamp, self._source)
            self._sequence = (self._sequence + 1) % (1 << 16)
            datagram = head + datagram
        self._socket.sendto(datagram, address)
        self.bytes_sent += len(datagram)

    def finish(self) -> None:
        if self._feed is not None:
            self._feed.end()
            self._feed = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def open_socket(url: str) -> tuple[socket.socket, tuple[str, int]]:
    """A socket to send from, and the address to send to. Raises OSError."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)
    family, _, _, _, address = found[0]
    sender = socket.socket(family, socket.SOCK_DGRAM)
    try:
        size = int(options.get("buffer_size", SEND_BUFFER_BYTES))
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        _set_multicast(sender, str(address[0]), options.get("localaddr", ""))
        if "localport" in options or "localaddr" in options:
            sender.bind((options.get("localaddr", ""), int(options.get("localport", 0))))
    except OSError:
        sender.close()
        raise
    return sender, address  # type: ignore[return-value]  # an IPv6 address has four parts


def _set_multicast(sender: socket.socket, host: str, local: str) -> None:
    if not ipaddress.ip_address(host.partition("%")[0]).is_multicast:
        return
    if sender.family == socket.AF_INET6:
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, MULTICAST_HOPS)
        return
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, MULTICAST_HOPS)
    if local:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(local))
