"""Receives a channel's UDP output and notes who sends, and when nobody does."""

import socket
import threading
import time
from datetime import UTC, datetime

from testing.chaos.verdict import Span

PACKET_BYTES = 2048
# A sender that pauses for less is still the same time on air.
GAP_SECONDS = 1.0


class Receiver:
    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.5)
        self.port = int(self._socket.getsockname()[1])
        # Each sender has a port of its own.
        self._senders: dict[int, Span] = {}
        self._gaps: list[float] = []
        self._heard: float | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._thread.start()

    @property
    def is_receiving(self) -> bool:
        return self._heard is not None and self.quiet_seconds < GAP_SECONDS

    @property
    def quiet_seconds(self) -> float:
        return time.monotonic() - self._heard if self._heard is not None else float("inf")

    @property
    def senders(self) -> tuple[Span, ...]:
        return tuple(self._senders.values())

    @property
    def off_air_seconds(self) -> tuple[float, ...]:
        return tuple(self._gaps)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                _, (_, port) = self._socket.recvfrom(PACKET_BYTES)
            except TimeoutError:
                continue
            moment = datetime.now(UTC)
            known = self._senders.get(port)
            self._senders[port] = Span(known.begin if known else moment, moment)
            heard, self._heard = self._heard, time.monotonic()
            if heard is not None and self._heard - heard > GAP_SECONDS:
                self._gaps.append(self._heard - heard)
