"""One item on its way to, on, or off the air."""

from dataclasses import dataclass
from datetime import UTC, datetime

from worker.playout import list_timing
from worker.playout.inputs.decoder import Decoder
from worker.playout.loaded import Item
from worker.wire.asrun import AsRunRecord
from worker.wire.recording import to_milliseconds

FILLER, SLATE, LIVE = "filler", "slate", "live"
# A picture that stands still this long gives way to the slate.
HOLD_SECONDS = 1.0


@dataclass(eq=False)
class Slot:
    """The director counts with it, the stage hand opens it."""

    item: Item
    index: int | None = None
    offset_seconds: float = 0.0
    is_filler: bool = False
    # Somebody wants it now, or it is joined in progress: no time of its own holds it up or makes it too late.
    is_forced: bool = False
    # A person chose it to be next.
    is_cued: bool = False
    # It takes the place of what is on as soon as it can be shown.
    cuts: bool = False
    # The first of another day's list: if it cannot be shown, the next of that list takes over, not what is on.
    begins_list: bool = False
    decoder: Decoder | None = None
    # Set by the stage hand: it cannot be opened, and why.
    failure: str = ""
    # Set by the stage hand: what of picture and sound it was found to have.
    streams: str = ""
    due_since: float | None = None
    frames: int = 0  # of the item itself
    ticks: int = 0  # that it was on air, repeats and slate included
    repeats: int = 0
    starved: int = 0
    entry: AsRunRecord | None = None
    # Stop opening more of it (growing recordings, live sources).
    is_over: bool = False
    # What the stage hand knows of it: the part of a recording it is at, when a lost source is tried again.
    part: int = 0
    retry_at: float = 0.0

    @property
    def is_hopeless(self) -> bool:
        """It will never be ready."""
        if self.failure:
            return True
        decoder = self.decoder  # the stage hand may take it away meanwhile
        return decoder is not None and decoder.has_failed and not decoder.lacks_a_stream

    @property
    def is_ready(self) -> bool:
        if self.item.kind == SLATE:
            return True
        decoder = self.decoder
        return decoder is not None and decoder.is_ready

    @property
    def may_be_passed_over(self) -> bool:
        """A source that is lost may come back; anything else that cannot be opened will not."""
        return self.is_hopeless and self.item.kind != LIVE

    def is_too_late(self, now: float) -> bool:
        return list_timing.is_too_late(self.item, now) and not self.is_forced

    def why_hopeless(self) -> str:
        decoder = self.decoder
        return self.failure or (decoder.words() if decoder is not None else "")


def moment_of(now: float) -> datetime:
    return to_milliseconds(datetime.fromtimestamp(now, UTC))
