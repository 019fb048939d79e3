"""A slot: one item that is planned, on air, or over."""

from dataclasses import dataclass
from datetime import UTC, datetime

from worker.playout import list_timing
from worker.playout.inputs.decoder import Decoder
from worker.playout.loaded_config import Item
from worker.wire.asrun import AsRunRecord
from worker.wire.parts_and_gaps import to_milliseconds

FILLER, SLATE, LIVE = "filler", "slate", "live"
# After holding a picture this long, the slate is shown.
HOLD_SECONDS = 1.0


@dataclass(eq=False)
class Slot:
    """The director plays it; the main loop opens and closes it."""

    item: Item
    index: int | None = None
    offset_seconds: float = 0.0
    is_filler: bool = False
    # A person wants it now, or it is joined in progress: its fixed time neither delays it nor makes it too late.
    is_forced: bool = False
    # A person cued it.
    is_cued: bool = False
    # It replaces the item on air as soon as it can be shown.
    cuts: bool = False
    # The first item of another day's list: if it cannot be shown, the next item of that list replaces the item on air.
    begins_list: bool = False
    decoder: Decoder | None = None
    # Set by the main loop: why it cannot be opened.
    failure: str = ""
    # Set by the main loop: which of picture and sound it has.
    streams: str = ""
    due_since: float | None = None
    frames: int = 0  # frames of the item itself
    ticks: int = 0  # frames on air, including repeats and slate
    repeats: int = 0
    starved: int = 0
    entry: AsRunRecord | None = None
    # Stop opening more of it (growing recordings, live sources).
    is_over: bool = False
    # Kept by the main loop: the current part of a recording, and when a lost source is tried again.
    part: int = 0
    retry_at: float = 0.0

    @property
    def is_hopeless(self) -> bool:
        """It cannot become ready."""
        if self.failure:
            return True
        decoder = self.decoder  # the main loop may remove it meanwhile
        return decoder is not None and decoder.has_failed and not decoder.lacks_a_stream

    @property
    def is_ready(self) -> bool:
        if self.item.kind == SLATE:
            return True
        decoder = self.decoder
        return decoder is not None and decoder.is_ready

    @property
    def may_be_passed_over(self) -> bool:
        """It cannot be opened. A lost live source is never skipped: it may come back."""
        return self.is_hopeless and self.item.kind != LIVE

    def is_too_late(self, now: float) -> bool:
        return list_timing.is_too_late(self.item, now) and not self.is_forced

    def why_hopeless(self) -> str:
        decoder = self.decoder
        return self.failure or (decoder.words() if decoder is not None else "")


def moment_of(now: float) -> datetime:
    return to_milliseconds(datetime.fromtimestamp(now, UTC))
