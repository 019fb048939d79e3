"""Ordinary tasks use at most half of the sessions: a recording that starts does not queue behind them (P-18)."""

import threading
from typing import Any

from django.db.backends.postgresql import base
from django.db.utils import OperationalError

from station import precedence


class Share:
    """How many sessions ordinary tasks may hold at once."""

    def __init__(self, sessions: int) -> None:
        self._free = threading.BoundedSemaphore(max(1, sessions // 2))

    def take(self, seconds: float) -> None:
        if not self._free.acquire(timeout=seconds):
            raise OperationalError(f"No database session was free for {seconds:.0f} s.")

    def give_back(self) -> None:
        self._free.release()


class DatabaseWrapper(base.DatabaseWrapper):
    _shares: dict[int, Share] = {}  # by the size of the pool, which all threads of a process have in common
    _share: Share | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        self._take_share()
        made = None
        try:
            made = super().get_new_connection(conn_params)
        finally:
            if made is None:
                self._give_back_share()
        return made

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]  # not in the stubs
        finally:
            self._give_back_share()

    def _take_share(self) -> None:
        pool = self.settings_dict["OPTIONS"].get("pool")
        if pool and self._share is None and precedence.is_ordinary():
            share = self._shares.setdefault(pool["max_size"], Share(pool["max_size"]))
            share.take(pool["timeout"])
            self._share = share

    def _give_back_share(self) -> None:
        share, self._share = self._share, None
        if share is not None:
            share.give_back()
