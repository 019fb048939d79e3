"""The next frame and sound of the item on air, or the reason why it ended."""

from dataclasses import dataclass

from worker.playout.picture import silence
from worker.playout.pipes import Data
from worker.playout.slots import HOLD_SECONDS, LIVE, SLATE, Slot
from worker.wire.picture import Format

# A clip whose decoder gives no frame for this long is skipped.
STARVED_SECONDS = 3.0
# An item that ends this much too early is logged as short.
SHORT_SECONDS = 0.5


@dataclass(frozen=True)
class Screen:
    """The pictures that can be shown instead of the item, and the last one shown."""

    picture: Format
    slate: Data
    black: Data
    last: Data


@dataclass(frozen=True)
class Ended:
    """The item is over; as-run gets the reason and the note."""

    reason: str
    note: str = ""


def next_frame(slot: Slot, screen: Screen, samples: int) -> tuple[Data, bytes] | Ended:
    """The next frame with its sound, counted on the slot."""
    wanted = _frames_wanted(slot, screen.picture)
    counted = slot.frames if slot.item.kind == "asset" else slot.ticks
    if wanted is not None and counted >= wanted:
        return Ended("played")
    if slot.item.kind == SLATE:
        slot.ticks += 1
        slot.frames += 1
        return screen.slate, silence(samples)
    decoder = slot.decoder
    taken = decoder.take(samples) if decoder is not None else None
    if taken is not None and (taken.frame is not None or (taken.sound and not taken.is_end)):
        slot.frames, slot.ticks, slot.starved = slot.frames + 1, slot.ticks + 1, 0
        return (taken.frame if taken.frame is not None else screen.black), taken.sound
    if taken is not None and taken.is_end and not _goes_on(slot):
        return _end_of_file(slot, wanted, screen.picture)
    return _starve(slot, screen, samples)


def _frames_wanted(slot: Slot, picture: Format) -> int | None:
    if slot.item.seconds is None:
        return None
    return max(0, picture.frames_in(slot.item.seconds) - picture.frames_in(slot.offset_seconds))


def _goes_on(slot: Slot) -> bool:
    """The end of the decoder is not the end of the item: a source may come back, a recording may grow."""
    return slot.item.kind in {LIVE, "growing"} and not slot.is_over


def _end_of_file(slot: Slot, wanted: int | None, picture: Format) -> Ended:
    short = picture.seconds_of(wanted - slot.frames) if wanted is not None else 0.0
    if slot.frames == 0:
        return Ended("bad", slot.why_hopeless())
    if short > SHORT_SECONDS:
        return Ended("short", f"it ended {short:.1f} s before its time")
    return Ended("played")


def _starve(slot: Slot, screen: Screen, samples: int) -> tuple[Data, bytes] | Ended:
    """No frame at the moment: hold the picture, then show the slate. A file without frames for too long is skipped."""
    slot.starved += 1
    slot.ticks += 1
    slot.repeats += 1
    seconds = screen.picture.seconds_of(slot.starved)
    if slot.item.kind == "asset" and seconds > STARVED_SECONDS:
        return Ended("bad", "its decoder gives no frames")
    if slot.item.kind == "growing" and slot.is_over:
        return Ended("played")
    is_short = seconds <= HOLD_SECONDS and slot.frames > 0
    return (screen.last if is_short else screen.slate), silence(samples)
