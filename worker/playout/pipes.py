"""Pipes to and from ffmpeg. A separate thread writes to each pipe, so that its caller never waits."""

import contextlib
import fcntl
import io
import os
import threading
from collections import deque

PIPE_BYTES = 1024 * 1024
Data = bytes | bytearray | memoryview


def widen(fd: int) -> None:
    """Enlarge the pipe: a frame then needs fewer reads and writes."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def fill(pipe: io.FileIO, view: memoryview) -> bool:
    """Fill the whole view; False at the end of the stream."""
    got = 0
    while got < len(view):
        count = pipe.readinto(view[got:])
        if not count:
            return False
        got += count
    return True


class Pump:
    """A bounded queue in front of a pipe, and the thread that empties it."""

    def __init__(self, fd: int, most_bytes: int, *, drops_oldest: bool = False) -> None:
        self.fd = fd
        self.is_broken = False
        self.written = 0
        self.dropped = 0
        self._most, self._held = most_bytes, 0
        self._drops_oldest = drops_oldest
        self._queue: deque[Data] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, data: Data) -> bool:
        """Queue the data without waiting. False: the queue is full, broken or closed, and the data was not queued."""
        with self._changed:
            if self.is_broken or self._is_closed:
                return False
            while self._drops_oldest and self._queue and self._held + len(data) > self._most:
                self._held -= len(self._queue.popleft())
                self.dropped += 1
            if self._queue and self._held + len(data) > self._most:
                return False
            self._queue.append(data)
            self._held += len(data)
            self._changed.notify()
            return True

    def has_room(self, size: int) -> bool:
        with self._changed:
            return not self.is_broken and (not self._queue or self._held + size <= self._most)

    @property
    def is_holding(self) -> bool:
        """There is data to write."""
        return bool(self._queue)

    def close(self) -> None:
        """Drop the queue and end the thread."""
        with self._changed:
            self._is_closed = True
            self._queue.clear()
            self._changed.notify()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while (data := self._next()) is not None:
                view = memoryview(data)
                while view:
                    view = view[os.write(self.fd, view) :]
                self.written += len(data)
        except OSError:  # the reader is gone; the owner notices that
            self.is_broken = True
        finally:
            with contextlib.suppress(OSError):
                os.close(self.fd)

    def _next(self) -> Data | None:
        with self._changed:
            while not self._queue and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            data = self._queue.popleft()
            self._held -= len(data)
            return data
