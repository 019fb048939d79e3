"""The other job workers on this machine. When one of them dies, its pidfd says so at once (J-28)."""

import os
import select

from jobs.models import JobWorker
from jobs.runs import process_records


class Peers:
    """One pidfd for each peer. Without pidfds (an old kernel) the leader's sweep finds the dead."""

    def __init__(self, me: int) -> None:
        self._me = me
        self._watched: dict[int, int] = {}

    @property
    def pidfds(self) -> list[int]:
        return [each for each in self._watched.values() if each >= 0]

    def read(self) -> bool:
        """Watch the peers that the database knows. True if one of them is dead already."""
        rows = JobWorker.objects.filter(place=process_records.here(), ended_at=None).exclude(pk=self._me)
        peers = {row.pk: row for row in rows}
        for pk in self._watched.keys() - peers.keys():
            self._close(self._watched.pop(pk))
        for pk in peers.keys() - self._watched.keys():
            self._watched[pk] = _open(peers[pk].pid)
        return any(process_records.is_dead_here(row) for row in peers.values())

    def forget_dead(self) -> None:
        """A dead peer's pidfd stays readable for ever. It is dropped, whoever records the death."""
        for pk, pidfd in self._watched.items():
            if pidfd >= 0 and _has_ended(pidfd):
                self._close(pidfd)
                self._watched[pk] = -1

    def close(self) -> None:
        for pidfd in self._watched.values():
            self._close(pidfd)
        self._watched.clear()

    def _close(self, pidfd: int) -> None:
        if pidfd >= 0:
            os.close(pidfd)


def _open(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _has_ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])
