"""The as-run log on disk, and the answers to requests for it.

Each generation of the channel's media worker has one file of lines. A line is the latest version of an entry; a later
line with the same number replaces it. The next generation reads the entries that earlier ones could not report. A
separate thread reads and writes the files, so that slow storage delays neither the picture nor the start.
"""

import contextlib
import os
import queue
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path

from worker.wire import codec
from worker.wire.asrun import AsRunRecord

KEPT_FILES = 5
# A week of half-minute clips, in case the log is not collected that long.
KEPT_ENTRIES = 20_000
READ_BYTES = 32 * 1024 * 1024  # of each earlier generation: its last week
MOST_BYTES = READ_BYTES  # then the file is rewritten
PER_ANSWER = 200
QUEUED_LINES = 50_000
_NAME = re.compile(r"^asrun-g(\d+)\.jsonl$")


@dataclass(frozen=True)
class Changes:
    """The entries that changed after a revision, the oldest first. Ask again with the new revision until `is_all`."""

    revision: int
    is_all: bool
    entries: tuple[AsRunRecord, ...]


class Spool:
    def __init__(self, folder: Path, generation: int) -> None:
        self.folder, self.generation = folder, generation
        self._entries: OrderedDict[tuple[int, int], tuple[int, AsRunRecord]] = OrderedDict()
        self._revision = 0
        self._seq = 0
        self._lock = threading.Lock()
        self._trouble = ""
        self._most_bytes = MOST_BYTES
        self._lines: queue.Queue[str | None] = queue.Queue(QUEUED_LINES)
        self._writer = threading.Thread(target=self._write_lines, daemon=True, name="as-run")
        self._writer.start()

    @property
    def revision(self) -> int:
        return self._revision

    def begin(self, entry: AsRunRecord) -> AsRunRecord:
        """Number and store a new entry."""
        with self._lock:
            self._seq += 1
            entry.generation, entry.seq = self.generation, self._seq
            self._keep(entry)
        return entry

    def write(self, entry: AsRunRecord) -> None:
        """Store a changed entry, usually because it ended."""
        with self._lock:
            self._keep(entry)

    def since(self, revision: int) -> Changes:
        with self._lock:
            changed = [(at, entry) for at, entry in self._entries.values() if at > revision]
        rows = sorted(changed, key=lambda row: row[0])[:PER_ANSWER]
        entries = tuple(entry for _, entry in rows)
        return Changes(rows[-1][0] if rows else revision, len(rows) < PER_ANSWER, entries)

    def close(self, seconds: float = 2.0) -> None:
        """Write the queued lines, as long as the disk lets us."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        self._writer.join(seconds)

    def _keep(self, entry: AsRunRecord) -> None:
        self._revision += 1
        key = (entry.generation, entry.seq)
        self._entries[key] = (self._revision, replace(entry))
        self._entries.move_to_end(key)
        while len(self._entries) > KEPT_ENTRIES:
            self._entries.popitem(last=False)
        with contextlib.suppress(queue.Full):  # the disk was away for days; memory keeps the latest entries
            self._lines.put_nowait(codec.dumps(entry) + "\n")

    def _write_lines(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._read_earlier()
        except OSError as error:
            self._say(error)
        while (line := self._lines.get()) is not None:
            try:
                with self._path(self.generation).open("a") as file:
                    file.write(line)
                    size = file.tell()
                if size > self._most_bytes:
                    self._rewrite()
            except OSError as error:  # a full disk must not end the channel; memory keeps the entry
                self._say(error)

    def _rewrite(self) -> None:
        """Keep only the latest line of each entry, for a channel that is on air for months."""
        with self._lock:
            known = [entry for _, entry in self._entries.values()]  # stored entries are never changed
        mine = [entry for entry in known if entry.generation == self.generation]
        path = self._path(self.generation)
        draft = path.with_suffix(".new")
        draft.write_text("".join(codec.dumps(entry) + "\n" for entry in mine))
        self._most_bytes = max(MOST_BYTES, 2 * draft.stat().st_size)
        os.replace(draft, path)

    def _path(self, generation: int) -> Path:
        return self.folder / f"asrun-g{generation}.jsonl"

    def _read_earlier(self) -> None:
        found = {int(name[1]): path for path in self.folder.iterdir() if (name := _NAME.match(path.name))}
        earlier = sorted(number for number in found if number < self.generation)
        for number in earlier[:-KEPT_FILES]:
            found[number].unlink(missing_ok=True)
        known: dict[tuple[int, int], AsRunRecord] = {}
        for number in earlier[-KEPT_FILES:]:
            for line in _tail(found[number]).splitlines():
                with contextlib.suppress(codec.WireError):  # a killed media worker may leave half a line
                    entry = codec.loads(AsRunRecord, line)
                    known[entry.generation, entry.seq] = entry
        with self._lock:
            for key in sorted(known)[-KEPT_ENTRIES:]:
                self._revision += 1
                self._entries[key] = (self._revision, known[key])

    def _say(self, error: OSError) -> None:
        if str(error) != self._trouble:
            self._trouble = str(error)
            print(f"The as-run log could not be written to disk. error={error}", flush=True)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - READ_BYTES))
        return file.read().decode(errors="replace")
