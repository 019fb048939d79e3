"""The filler: a clip that plays in a loop while no item of the list can be on air."""

from collections.abc import Callable
from dataclasses import dataclass

from worker.playout.loaded_config import Item
from worker.playout.picture import silence
from worker.playout.pipes import Data
from worker.playout.slots import HOLD_SECONDS, Slot
from worker.wire.picture import Format

# A filler that cannot be opened is tried again after this time.
AGAIN_SECONDS = 5.0


@dataclass(frozen=True)
class FillerFrame:
    """`frame` None: its picture is held for this frame."""

    slot: Slot
    frame: Data | None
    sound: bytes


class Filler:
    """Used under the director's lock. `discard` takes slots to close, `tell` wakes the main loop."""

    def __init__(
        self,
        item: Item | None,
        picture: Format,
        discard: Callable[[list[Slot]], None],
        tell: Callable[[], None],
    ) -> None:
        self.item, self.picture = item, picture
        self.slot: Slot | None = None
        self._discard, self._tell = discard, tell
        self._again_at = 0.0

    @property
    def is_on(self) -> bool:
        return self.slot is not None and self.slot.frames > 0

    def take(self, now: float, samples: int) -> FillerFrame | None:
        """The next frame; None without a filler, or while it is being opened."""
        if self.item is not None and self.slot is None and now >= self._again_at:
            self.slot = Slot(self.item, is_filler=True)
            self._tell()
        slot = self.slot
        decoder = slot.decoder if slot is not None else None
        if slot is not None and (slot.is_hopeless or (decoder is not None and decoder.is_drained)):
            self._again_at = now + (AGAIN_SECONDS if slot.is_hopeless else 0.0)
            self.drop()
        elif slot is not None and decoder is not None and (slot.frames or decoder.is_ready):
            taken = decoder.take(samples)
            slot.starved = 0 if taken.frame is not None else slot.starved + 1
            if taken.frame is not None or self.picture.seconds_of(slot.starved) <= HOLD_SECONDS:
                return FillerFrame(slot, taken.frame, taken.sound or silence(samples))
        return None

    def drop(self) -> None:
        if self.slot is not None:
            slot, self.slot = self.slot, None
            self._discard([slot])
