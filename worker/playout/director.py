"""Decides for every frame what is on air. It opens nothing and never waits: the main loop opens the items.

`tick` always returns exactly one frame with its sound: of the item on air, of the filler, or of the slate. The next
items are planned as slots (`lineup`). The main loop opens them ahead of time, so that items follow each other without a
gap. An item that cannot be opened is known before it is due, and skipped.
"""

import threading
from collections.abc import Callable

from worker.playout.asrun_log import AsRunLog
from worker.playout.asrun_spool import Spool
from worker.playout.director_status import DirectorStatus
from worker.playout.filler import Filler, FillerFrame
from worker.playout.item_frames import Ended, Screen, next_frame
from worker.playout.list_failures import ListFailures
from worker.playout.loaded_config import ChannelSetup, Item, Rundown
from worker.playout.pausing import Pause
from worker.playout.picture import bars, plain, silence
from worker.playout.pipes import Data
from worker.playout.slots import FILLER, LIVE, SLATE, Slot
from worker.playout.upcoming import MOST_AHEAD, UpcomingItems

# An item that is due but not ready may delay the list this long.
OPEN_PATIENCE_SECONDS = 5.0


class Director:
    """Every method takes one lock, briefly: the pacer's thread calls `tick`, other threads bring commands."""

    def __init__(self, config: ChannelSetup, spool: Spool, now: float, tell: Callable[[], None]) -> None:
        self.config, self.spool = config, spool
        self._log = AsRunLog(spool)
        self.picture = config.format
        self.lock = threading.RLock()
        self.slate = bars(self.picture) if config.slate == "bars" else plain(self.picture)
        self.black = plain(self.picture)
        is_paused = bool(config.resume and config.resume.is_paused)
        self._pause = Pause(is_paused=is_paused, holds_picture=config.pause == "hold", black=self.black)
        self.lineup = UpcomingItems(config.rundown, config.resume, now, tell)
        self.slot: Slot | None = None
        self.filler = Filler(config.filler, self.picture, self.lineup.discard, tell)
        self.repeats = 0
        self.tick_number = 0
        self._tell = tell  # wakes the main loop
        self._failures = ListFailures()
        self._skipping: tuple[Slot, float] | None = None  # the slot to end, and the latest time for it
        self._last: Data = self.slate

    # --- commands ---------------------------------------------------------------------------------------------------

    def play(self) -> None:
        with self.lock:
            self._pause.play()

    def pause(self) -> None:
        with self.lock:
            self._skipping = None
            self._pause.pause(self._last)

    def skip(self, now: float) -> None:
        """End the item on air and start the next one, whatever its time. If the next one is still being opened (it was
        cued a moment ago), wait for it, so that there is no slate between the two."""
        with self.lock:
            self._pause.play()
            if self.slot is not None and self._is_opening_after(self.slot):
                self._skipping = (self.slot, now + OPEN_PATIENCE_SECONDS)
                self._tell()
            else:
                self._skip_now(now)

    def _skip_now(self, now: float) -> None:
        self._skipping = None
        if self.slot is not None:
            item = self.slot.item
            self._finish("skipped", "", now)
            self.lineup.drop_rest_of(item)
        else:
            self.lineup.hurry()
        self.lineup.plan()

    def _is_opening_after(self, slot: Slot) -> bool:
        """The slot gives a picture, and the next one is still being opened."""
        following = self.lineup.after(slot.item)
        if slot.starved or following is None or following.item.kind == LIVE:
            return False
        return not (following.is_ready or following.is_hopeless)

    def _finish_skip(self, now: float) -> None:
        """Skip now if the next item can be shown, or was waited for long enough."""
        if self._skipping is None:
            return
        slot, until = self._skipping
        if slot is not self.slot:
            self._skipping = None  # the item ended by itself
        elif now >= until or not self._is_opening_after(slot):
            self._skip_now(now)

    def cue(self, key: str) -> bool:
        with self.lock:
            return self.lineup.cue(key)

    def load(self, rundown: Rundown, now: float) -> None:
        """Take another list. The item on air stays on air; the next items come from the new list."""
        with self.lock:
            self.lineup.load(rundown, self.slot, now)
            self._failures.note_new_list()
            if self.slot is not None and self.slot.index is not None:
                self._adopt_length(rundown.items[self.slot.index])
            self.lineup.plan()

    def _adopt_length(self, item: Item) -> None:
        """The item on air was edited: use its new length, if file and in point are the same."""
        assert self.slot is not None
        on_air = self.slot.item
        if (item.kind, item.file, item.in_seconds) == (on_air.kind, on_air.file, on_air.in_seconds):
            self.slot.item = item

    # --- for the main loop ------------------------------------------------------------------------------------------

    def wishes(self, now: float) -> list[Slot]:
        """The slots to open now, the most urgent first."""
        with self.lock:
            left = self._seconds_left() if self._skipping is None else 0.0
            ahead = self.lineup.wishes(now, left)
            return [slot for slot in [self.slot, *ahead, self.filler.slot] if slot is not None]

    def take_finished(self) -> list[Slot]:
        """The slots to close."""
        with self.lock:
            finished, self.lineup.finished = self.lineup.finished, []
            return [slot for slot in finished if slot is not self.slot]

    def everything(self) -> list[Slot]:
        with self.lock:
            return [slot for slot in [self.slot, self.filler.slot, *self.lineup.everything()] if slot is not None]

    def note_progress(self) -> None:
        """Write the progress of the item on air to the as-run log, in case its end cannot be written."""
        with self.lock:
            self._log.note_progress()

    def _seconds_left(self) -> float | None:
        """Seconds until the item on air ends; None if that is not known."""
        slot = self.slot
        if slot is None:
            return 0.0
        if slot.item.seconds is None:
            return None
        return slot.item.seconds - slot.offset_seconds - self.picture.seconds_of(slot.ticks)

    # --- the tick ---------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> tuple[Data, bytes]:
        with self.lock:
            samples = self.picture.samples_of(self.tick_number)
            self.tick_number += 1
            following = self.lineup.turn_over(now)
            if following is not None:
                self.load(following, now)
            self._take_calls(now)
            self._finish_skip(now)
            if self._pause.is_held:
                return self._pause.frame, silence(samples)
            for _ in range(MOST_AHEAD + 2):  # several items may end or fail at once; the number is limited
                if self.slot is None and not self._put_on(now):
                    return self._fill_in(now, samples)
                given = self._give(now, samples)
                if given is not None:
                    self._last = given[0]
                    if self.slot is not None and self.slot.frames:
                        self._pause.note_frame(self._last)
                    return given
            return self._slate(now, samples, "the list cannot be played")

    def _take_calls(self, now: float) -> None:
        """Handle the fixed starts whose time has come. Only an item that can be shown cuts the item on air."""
        self.lineup.call(now, self.slot)
        if self.slot is None or not self.lineup.waiting or self._pause.is_held:
            return  # a held picture stays until play
        for slot in [each for each in self.lineup.waiting if each.may_be_passed_over]:
            self._pass_over(slot, now, "bad", slot.why_hopeless())
        cutter = self.lineup.cutter(now)
        if cutter is None:
            return
        while self.lineup.waiting[0] is not cutter:
            note = f"{cutter.item.title} started at its fixed time first"
            self._pass_over(self.lineup.waiting[0], now, "too late", note)
        self._finish("cut", f"{cutter.item.title} starts at its fixed time", now)

    def _put_on(self, now: float) -> bool:
        """Put the next playable item on air. False: there is none at the moment."""
        while self.lineup.waiting or self._failures.may_try(now):
            slot = self.lineup.candidate(now)
            if slot is None:
                return False
            if slot.is_too_late(now):
                self._pass_over(slot, now, "too late", "its start time passed too long ago")
                self.lineup.drop_rest_of(slot.item)
                continue
            if slot.may_be_passed_over:
                self._pass_over(slot, now, "bad", slot.why_hopeless())
                continue
            if not slot.is_ready and slot.item.kind != LIVE:
                slot.due_since = slot.due_since or now
                if now - slot.due_since > OPEN_PATIENCE_SECONDS:
                    self._pass_over(slot, now, "bad", "it could not be opened in time")
                    continue
                return False
            self.lineup.take_off(slot)
            self._air(slot, now)
            return True
        return False

    def _pass_over(self, slot: Slot, now: float, reason: str, note: str) -> None:
        """Skip the slot; as-run gets the reason (an entry without frames). The item on air stays on air."""
        is_news = reason != "bad" or not self._failures.is_noted(slot.item.key)
        if self.slot is None:
            self.lineup.take_off(slot)
        elif slot in self.lineup.waiting:
            self.lineup.waiting.remove(slot)
        # In a list that was just joined, no item was on air yet. It continues after this one all the same.
        if slot.index is not None and (self.slot is None or self.lineup.index is None):
            self.lineup.index = slot.index
        if is_news:
            self._log.pass_over(slot, now, reason, note, is_off=self.slot is None)
        if reason == "bad":
            self._failures.note_bad(slot.item.key)
        self.lineup.discard([slot])
        self._failures.count(len(self.lineup.rundown.items), now)
        self.lineup.plan()
        if self.slot is not None and slot.begins_list:
            self.lineup.pass_cut_to_next(now)

    def _air(self, slot: Slot, now: float) -> None:
        self._failures.note_aired()
        self._log.air(slot, now)
        self.filler.drop()
        self.slot = slot
        self.lineup.note_aired(slot, now)
        self.lineup.plan()

    # --- picture and sound ------------------------------------------------------------------------------------------

    def _give(self, now: float, samples: int) -> tuple[Data, bytes] | None:
        """The next frame of the item on air; None when the item has just ended."""
        slot = self.slot
        assert slot is not None
        repeats = slot.repeats
        given = next_frame(slot, Screen(self.picture, self.slate, self.black, self._last), samples)
        self.repeats += slot.repeats - repeats
        if isinstance(given, Ended):
            self._finish(given.reason, given.note, now)
            return None
        return given

    def _fill_in(self, now: float, samples: int) -> tuple[Data, bytes]:
        """No item of the list can be on air: show the filler in a loop, or the slate if there is no filler."""
        filled = self.filler.take(now, samples)
        if filled is not None:
            return self._filler_frame(filled, now)
        is_opening = self.lineup.candidate(now) is not None and self._failures.may_try(now)
        return self._slate(now, samples, "the next item is being opened" if is_opening else "nothing to play")

    def _filler_frame(self, filled: FillerFrame, now: float) -> tuple[Data, bytes]:
        slot = filled.slot
        if not self._log.is_of(slot):
            slot.frames = 0
            self._log.air(slot, now)
        slot.frames += 1
        slot.repeats += filled.frame is None
        self._last = filled.frame if filled.frame is not None else self._last
        return self._last, filled.sound

    def _slate(self, now: float, samples: int, why: str) -> tuple[Data, bytes]:
        self._log.air_slate(now, why)
        self._last = self.slate
        return self.slate, silence(samples)

    # --- ends -------------------------------------------------------------------------------------------------------

    def _finish(self, reason: str, note: str, now: float) -> None:
        """Take the item off air."""
        slot = self.slot
        assert slot is not None
        slot.is_over = True
        self._log.close(now, reason, note)
        self.slot = None
        self.lineup.discard([slot])

    def close(self, now: float, reason: str) -> None:
        """The media worker ends."""
        with self.lock:
            if self.slot is not None:
                self._finish(reason, "", now)
            self._log.close(now, reason)

    # --- status -----------------------------------------------------------------------------------------------------

    @property
    def means_slate(self) -> bool:
        """The slate is shown on purpose: it is an item of the list, or the channel is paused."""
        return self._pause.is_paused or (self.slot is not None and self.slot.item.kind == SLATE)

    def state(self) -> str:
        if self._pause.is_paused:
            return "paused"
        if self.slot is not None:
            return "playing"
        return FILLER if self.filler.is_on else SLATE

    def status(self, now: float) -> DirectorStatus:
        with self.lock:
            return DirectorStatus.of(
                self.state(),
                self.slot,
                self.lineup,
                is_paused=self._pause.is_paused,
                repeats=self.repeats,
                list_failed_seconds=self._failures.failed_seconds(now),
                picture=self.picture,
                now=now,
            )
