"""The as-run entry of the item on air. At most one entry is open; the next item closes it."""

from datetime import datetime

from worker.playout.asrun_spool import Spool
from worker.playout.slots import FILLER, SLATE, Slot, moment_of
from worker.wire.asrun import AsRunRecord


class AsRunLog:
    """The director writes it, under its lock."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._open: AsRunRecord | None = None
        self._slot: Slot | None = None  # the slot of the entry; None for the slate

    def is_of(self, slot: Slot) -> bool:
        """The open entry belongs to this slot."""
        return self._open is not None and self._slot is slot

    def air(self, slot: Slot, now: float) -> None:
        self.close(now)
        slot.entry = self._open = self._spool.begin(_record(slot, moment_of(now)))
        self._slot = slot

    def air_slate(self, now: float, why: str) -> None:
        """Count one frame of the slate."""
        if self._open is None or self._slot is not None:
            self.close(now)
            record = AsRunRecord(0, 0, key="", kind=SLATE, title="Slate", started_at=moment_of(now), note=why)
            self._open = self._spool.begin(record)
        self._open.frames += 1

    def pass_over(self, slot: Slot, now: float, reason: str, note: str, *, is_off: bool) -> None:
        """An entry without frames. `is_off`: no item of the list is on air, so the open entry is closed."""
        if is_off:
            self.close(now)
        record = _record(slot, moment_of(now))
        record.ended_at, record.reason, record.note = record.started_at, reason, note
        slot.entry = self._spool.begin(record)

    def note_progress(self) -> None:
        """Write the progress of the open entry, in case its end cannot be written."""
        if self._open is not None:
            self._count()
            self._spool.write(self._open)

    def close(self, now: float, reason: str = "played", note: str = "") -> None:
        entry = self._open
        if entry is None:
            return
        self._count()
        entry.ended_at, entry.reason = moment_of(now), entry.reason or reason
        entry.note = entry.note or note
        self._spool.write(entry)
        self._open = self._slot = None

    def _count(self) -> None:
        if self._open is not None and self._slot is not None:
            self._open.frames, self._open.repeats = self._slot.frames, self._slot.repeats


def _record(slot: Slot, started_at: datetime) -> AsRunRecord:
    """The spool numbers it."""
    item = slot.item
    return AsRunRecord(
        0,
        0,
        key=item.key,
        kind=FILLER if slot.is_filler else item.kind,
        title=item.title,
        asset=item.asset,
        started_at=started_at,
        from_seconds=round(item.in_seconds + slot.offset_seconds, 3),
    )
