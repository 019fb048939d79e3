"""Watches a chaos run from outside, on a thread of its own: media workers, growing files, and who leads."""

import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from nodes.runtimes.base import Status
from nodes.runtimes.process import ProcessRuntime
from scheduling.leader.election import LOCK
from testing.chaos.verdict import Span
from worker.wire import codec
from worker.wire.launcher import ProcessIds

PAUSE_SECONDS = 0.2
CONNECT_SECONDS = 2
WHO_LEADS = """
    SELECT (SELECT max(epoch) FROM scheduling_leadership), (SELECT holder FROM scheduling_leadership
            ORDER BY epoch DESC LIMIT 1), EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted
            AND classid = %s AND objid = %s)"""


@dataclass(frozen=True)
class Lead:
    """Who leads; epoch 0 if nobody does."""

    epoch: int = 0
    holder: str = ""


class Watcher:
    def __init__(self, url: str, run_folder: Path, media: Path, installation: str) -> None:
        self.url, self.media = url, media
        self.runtime = ProcessRuntime(lambda: installation, run_folder, media_dir=str(media))
        self.doubled: set[str] = set()
        self.writing: dict[Path, Span] = {}
        self.leaderless: list[Span] = []
        self.lead = Lead()
        self._led_at = now()
        self._sizes: dict[Path, int] = {}
        self._connection: psycopg.Connection[Any] | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def running_workers(self) -> list[tuple[str, str]]:
        """(owner, name) of every running media worker, from the folders of the process runtime."""
        found = self.runtime.list_ours()
        return [(seen.identity.owner, seen.name) for seen in found if seen.status is Status.RUNNING and seen.identity]

    def pids_of(self, owner: str) -> list[int]:
        """The process of each running media worker of this owner."""
        names = [name for each, name in self.running_workers() if each == owner]
        notes = [self.runtime.folder / name / "pids.json" for name in names]
        return [codec.loads(ProcessIds, note.read_bytes()).worker.pid for note in notes]

    def end_workers(self) -> None:
        for _, name in self.running_workers():
            self.runtime.stop(name, force=True)

    def _run(self) -> None:
        while not self._is_over.wait(PAUSE_SECONDS):
            self._watch_workers()
            self._watch_files()
            self._watch_leader()

    def _watch_workers(self) -> None:
        """A channel's media workers are judged by what they send."""
        owners = Counter(owner for owner, _ in self.running_workers() if owner.startswith("booking:"))
        self.doubled |= {owner for owner, count in owners.items() if count > 1}

    def _watch_files(self) -> None:
        for path in self.media.glob("**/*.*"):
            try:
                size = path.stat().st_size
            except OSError:
                continue
            if size > self._sizes.get(path, 0):
                moment = now()
                self._sizes[path] = size
                self.writing[path] = Span(self.writing[path].begin if path in self.writing else moment, moment)

    def _watch_leader(self) -> None:
        """Note each time without a leader, from the last moment of the old one to the first of the new one."""
        lead = self._ask_who_leads()
        moment = now()
        if not lead.epoch:
            return
        is_change = lead.epoch != self.lead.epoch or (moment - self._led_at).total_seconds() > 4 * PAUSE_SECONDS
        if self.lead.epoch and is_change:
            self.leaderless.append(Span(self._led_at, moment))
        self.lead, self._led_at = lead, moment

    def _ask_who_leads(self) -> Lead:
        """The second try is for a connection that a fault has ended."""
        for _ in range(2):
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_SECONDS)
                row = self._connection.execute(WHO_LEADS, LOCK).fetchone()
                return Lead(row[0], row[1]) if row and row[0] and row[2] else Lead()
            except psycopg.Error:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
        return Lead()


def now() -> datetime:
    return datetime.now(UTC)


def wait_for_leader(watcher: Watcher, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not watcher.lead.epoch:
        if time.monotonic() > deadline:
            raise AssertionError("no scheduler became leader")
        time.sleep(0.1)
