"""Copies the channel's stream from the encoder to every output, in whole packets.

An output that joins first gets the tables and everything since the last key frame, so that it has a picture at once.
"""

import threading
from collections.abc import Callable

PACKET = 188
TABLES = (0, 0x1000, 0x11)  # where ffmpeg puts PAT, PMT and SDT
PICTURE = 0x100
MOST_BYTES = 16 * 1024 * 1024


class Fan:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rest = b""
        self._tables: dict[int, bytes] = {}
        self._recent: list[bytes] = []
        self._held = 0
        self._takers: list[Callable[[bytes], object]] = []

    def put(self, piece: bytes) -> None:
        """Takes pieces of any size from the encoder."""
        data = self._rest + piece
        whole = len(data) // PACKET * PACKET
        self._rest = data[whole:]
        if not whole:
            return
        packets = data[:whole]
        with self._lock:
            self._remember(packets)
            takers = list(self._takers)
            for take in takers:
                take(packets)

    def join(self, take: Callable[[bytes], object], *, has_recent: bool = True) -> None:
        """`take` gets everything from the last key frame on, or the tables and what follows. It must not block."""
        with self._lock:
            head = b"".join(self._tables[pid] for pid in TABLES if pid in self._tables)
            if head and self._recent:
                take(head)
                for packets in self._recent if has_recent else []:
                    take(packets)
            self._takers.append(take)

    def leave(self, take: Callable[[bytes], object]) -> None:
        with self._lock:
            if take in self._takers:
                self._takers.remove(take)

    def forget(self) -> None:
        """A new encoder starts."""
        with self._lock:
            self._rest = b""
            self._recent, self._held = [], 0

    def _remember(self, packets: bytes) -> None:
        begins = -1
        for at in range(0, len(packets), PACKET):
            pid = (packets[at + 1] & 0x1F) << 8 | packets[at + 2]
            if pid in TABLES:
                self._tables[pid] = packets[at : at + PACKET]
            elif pid == PICTURE and packets[at + 3] & 0x20 and packets[at + 4] and packets[at + 5] & 0x40:
                begins = at  # random access: a key frame begins here
        if begins >= 0:
            self._recent, self._held = [], 0
            packets = packets[begins:]
        if self._held + len(packets) <= MOST_BYTES:
            self._recent.append(packets)
            self._held += len(packets)
