"""An SRT output that waits for receivers: each gets an ffmpeg of its own, started when it calls.

ffmpeg serves one caller and reads its input while it waits for it. So we hold the port ourselves: the packets of each
caller go to an ffmpeg that was started for it, on a port of this machine only, and its answers go back. The stream
begins when the two have agreed, so nobody gets old pictures, and the answers show why a caller was refused.
"""

import contextlib
import select
import socket
import time
from dataclasses import replace
from urllib.parse import urlsplit

from worker.media.ffmpeg import Binary
from worker.playout.outputs import srt_packets
from worker.playout.outputs.fan_out import Fan
from worker.playout.outputs.shaping import Rate
from worker.playout.outputs.srt_caller import Caller
from worker.playout.outputs.supervised import Tended
from worker.process.config_line import ConfigError
from worker.wire.configuration import Output
from worker.wire.status import OutputStatus

MOST_CALLERS = 8
RETRY_SECONDS = 1.0
LOOK_SECONDS = 0.05
# A refused receiver is reported for this long after its last try.
REPORT_SECONDS = 60.0
PACKET_BYTES = 2048
BUFFER_BYTES = 1024 * 1024
MOST_AT_ONCE = 64
Address = tuple[str, int]


class SrtListener(Tended):
    """Its thread relays the packets and starts and ends the callers' processes."""

    def __init__(self, binary: Binary, fan: Fan, output: Output, secrets: tuple[str, ...], rate: Rate) -> None:
        super().__init__(output.key, output.type)
        self.binary, self.fan, self.output, self.rate = binary, fan, output, rate
        self._secrets = secrets
        self._front: socket.socket | None = None
        self._callers: dict[Address, Caller] = {}
        self._bytes_before = 0
        self._next_at = self._refused_at = 0.0

    @property
    def state(self) -> str:
        callers = list(self._callers.values())
        if any(each.is_connected for each in callers):
            return "sending"
        return "starting" if self._front is None and not self.error else "waiting"

    def status(self) -> OutputStatus:
        callers = list(self._callers.values())
        sent = self._bytes_before + sum(each.bytes_sent for each in callers)
        return replace(super().status(), bytes=sent, receivers=sum(each.is_connected for each in callers))

    def tend(self) -> None:
        """Open the port, then relay until the channel ends: a pause between two calls would delay every packet."""
        now = time.monotonic()
        if self._front is None and now >= self._next_at:
            self._next_at = now + RETRY_SECONDS
            self._open()
        while self._front is not None and not self._ends.is_set():
            self._relay(self._front)
            self._drop_finished()
            if self._refused_at and time.monotonic() - self._refused_at > REPORT_SECONDS:
                self.error, self._refused_at = "", 0.0

    def _open(self) -> None:
        parts = urlsplit(self.output.url)
        try:
            family, _, _, _, address = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
            front = socket.socket(family, socket.SOCK_DGRAM)
        except OSError as error:
            self.error = f"the address cannot be used: {error.strerror or error}"
            return
        try:
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                front.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
            front.setblocking(False)
            front.bind(address)
        except OSError as error:
            front.close()
            self.error = f"port {parts.port} cannot be used: {error.strerror or error}"
            return
        self._front, self.error = front, ""

    def _relay(self, front: socket.socket) -> None:
        backs = {each.back: each for each in self._callers.values()}
        readable, _, _ = select.select([front, *backs], [], [], LOOK_SECONDS)
        for each in readable:
            # A few at a time, so that one caller does not keep the others waiting.
            with contextlib.suppress(OSError):  # nothing more to read; or the caller's ffmpeg is not up yet
                for _ in range(MOST_AT_ONCE):
                    if each is front:
                        self._from_caller(*front.recvfrom(PACKET_BYTES))
                    else:
                        self._to_caller(front, backs[each], each.recv(PACKET_BYTES))

    def _from_caller(self, packet: bytes, address: Address) -> None:
        caller = self._callers.get(address)
        if caller is None:
            asked = srt_packets.read_handshake(packet)
            if asked is None or asked.type != srt_packets.INDUCTION:
                return  # not a new receiver
            caller = self._admit(packet, address)
        if caller is not None:
            caller.forward(packet)

    def _admit(self, packet: bytes, address: Address) -> Caller | None:
        assert self._front is not None
        if len(self._callers) >= MOST_CALLERS:
            self._report(address, srt_packets.NO_ROOM)
            self._front.sendto(srt_packets.refusal(packet, srt_packets.NO_ROOM), address)
            return None
        try:
            caller = Caller(self.binary, self.fan, self.output, self._secrets, self.rate)
        except (ConfigError, OSError) as error:
            self.error, self._refused_at = f"a receiver cannot be served: {error}", time.monotonic()
            return None
        self._callers[address] = caller
        return caller

    def _to_caller(self, front: socket.socket, caller: Caller, packet: bytes) -> None:
        address = next(key for key, each in self._callers.items() if each is caller)
        answer = srt_packets.read_handshake(packet)
        front.sendto(packet, address)
        if answer is None:
            return
        if answer.type >= srt_packets.REFUSED:
            self._report(address, answer.type - srt_packets.REFUSED)
            caller.is_over = True
        elif answer.type == srt_packets.CONCLUSION and not caller.is_connected:
            caller.connect()
            self.error, self._refused_at = "", 0.0

    def _report(self, address: Address, reason: int) -> None:
        self.error = f"a receiver at {address[0]} was refused: {srt_packets.words_for(reason)}"
        self._refused_at = time.monotonic()

    def _drop_finished(self) -> None:
        for address, caller in list(self._callers.items()):
            if caller.has_ended:
                del self._callers[address]
                self._bytes_before += caller.bytes_sent
                caller.end()

    def finish(self) -> None:
        callers, self._callers = self._callers, {}
        front, self._front = self._front, None
        if front is None:
            return
        for address, caller in callers.items():
            for packet in caller.say_goodbye():
                with contextlib.suppress(OSError):
                    front.sendto(packet, address)
            caller.end()
        front.close()
