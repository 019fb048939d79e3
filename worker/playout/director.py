"""Decides, frame by frame, what is on air. It opens nothing and waits for nobody: the stage hand does that.

`tick` answers exactly one frame with its sound, always: of the item that is on, of the filler, or of the slate. What is
to come is announced as slots (`lineup`); the stage hand opens them ahead of time, so that one item follows another
without a frame in between. What cannot be opened is known before it is due, and passed over.
"""

import threading
from collections.abc import Callable

from worker.playout.asrun_log import Logbook
from worker.playout.asrun_spool import Spool
from worker.playout.director_status import DirectorStatus
from worker.playout.filler import Filler, FillerFrame
from worker.playout.item_frames import Ended, Screen, next_frame
from worker.playout.loaded import ChannelSetup, Item, Rundown
from worker.playout.picture import bars, plain, silence
from worker.playout.pipes import Data
from worker.playout.slots import FILLER, LIVE, SLATE, Slot
from worker.playout.upcoming import MOST_AHEAD, Lineup

# How long something that is due and not ready may hold up the list.
OPEN_PATIENCE_SECONDS = 5.0
# A list of which nothing can be played is tried again after so long; if it stays that way, less and less often.
AGAIN_SECONDS, MOST_AGAIN_SECONDS = 5.0, 30.0


class Director:
    """Everything here happens under one lock, briefly: ticks on the pacer's thread, words from people on others."""

    def __init__(self, config: ChannelSetup, spool: Spool, now: float, tell: Callable[[], None]) -> None:
        self.config, self.spool = config, spool
        self._log = Logbook(spool)
        self.picture = config.format
        self.lock = threading.RLock()
        self.slate = bars(self.picture) if config.slate == "bars" else plain(self.picture)
        self.black = plain(self.picture)
        self.is_paused = bool(config.resume and config.resume.is_paused)
        self.lineup = Lineup(config.rundown, config.resume, now, tell)
        self.slot: Slot | None = None
        self.filler = Filler(config.filler, self.picture, self.lineup.discard, tell)
        self.repeats = 0
        self.tick_number = 0
        self._tell = tell  # wakes the stage hand
        self._failures, self._again_at, self._again_seconds = 0, 0.0, AGAIN_SECONDS
        self._failed_since: float | None = None  # nothing of the list could be played
        self._told_bad: set[str] = set()  # what was said to be bad since something was on
        self._skipping: tuple[Slot, float] | None = None  # what is to end, and when at the latest
        self._last: Data = self.slate
        self._held: Data = self.black
        # Begun as the successor of one that held its picture: the first frame is fetched, then it is held again.
        self._holds_first = self.is_paused and config.pause == "hold"

    # --- what people say --------------------------------------------------------------------------------------------

    def play(self) -> None:
        with self.lock:
            self.is_paused = self._holds_first = False

    def pause(self) -> None:
        with self.lock:
            self.is_paused, self._holds_first, self._skipping = True, False, None
            self._held = self._last if self.config.pause == "hold" else self.black

    def skip(self, now: float) -> None:
        """What is on ends, and the next one follows, whatever its time: as soon as that can be shown, so that there is
        no slate between the two. Usually that is now; one that was cued a moment ago must be opened first."""
        with self.lock:
            self.is_paused = self._holds_first = False
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
        """It gives a picture, and what follows it does not yet, but will."""
        following = self.lineup.after(slot.item)
        if slot.starved or following is None or following.item.kind == LIVE:
            return False
        return not (following.is_ready or following.is_hopeless)

    def _go_on_skipping(self, now: float) -> None:
        """What follows can be shown by now, or has had its time."""
        if self._skipping is None:
            return
        slot, until = self._skipping
        if slot is not self.slot:
            self._skipping = None  # it has ended by itself
        elif now >= until or not self._is_opening_after(slot):
            self._skip_now(now)

    def cue(self, key: str) -> bool:
        with self.lock:
            return self.lineup.cue(key)

    def load(self, rundown: Rundown, now: float) -> None:
        """Another list. What is on stays on; what follows it follows from the new one."""
        with self.lock:
            self.lineup.load(rundown, self.slot, now)
            self._again_at, self._again_seconds, self._failed_since = 0.0, AGAIN_SECONDS, None
            self._told_bad.clear()
            if self.slot is not None and self.slot.index is not None:
                self._adopt_length(rundown.items[self.slot.index])
            self.lineup.plan()

    def _adopt_length(self, item: Item) -> None:
        """The item on air was edited: its new end counts, if it is the same thing."""
        assert self.slot is not None
        on_air = self.slot.item
        if (item.kind, item.file, item.in_seconds) == (on_air.kind, on_air.file, on_air.in_seconds):
            self.slot.item = item

    # --- for the stage hand -----------------------------------------------------------------------------------------

    def wishes(self, now: float) -> list[Slot]:
        """What should be open by now, the most urgent first."""
        with self.lock:
            left = self._seconds_left() if self._skipping is None else 0.0
            ahead = self.lineup.wishes(now, left)
            return [slot for slot in [self.slot, *ahead, self.filler.slot] if slot is not None]

    def take_finished(self) -> list[Slot]:
        """What is to be cleared away."""
        with self.lock:
            finished, self.lineup.finished = self.lineup.finished, []
            return [slot for slot in finished if slot is not self.slot]

    def everything(self) -> list[Slot]:
        with self.lock:
            return [slot for slot in [self.slot, self.filler.slot, *self.lineup.everything()] if slot is not None]

    def note_progress(self) -> None:
        """Write down how far what is on has come, should nobody be there to write its end."""
        with self.lock:
            self._log.note_progress()

    def _seconds_left(self) -> float | None:
        """Of what is on; None if nobody can tell."""
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
            self._go_on_skipping(now)
            if self._is_held:
                return self._held, silence(samples)
            for _ in range(MOST_AHEAD + 2):  # items that end or fail at once; bounded, whatever the list is like
                if self.slot is None and not self._put_on(now):
                    return self._fill_in(now, samples)
                given = self._give(now, samples)
                if given is not None:
                    self._last = given[0]
                    if self._holds_first and self.slot is not None and self.slot.frames:
                        self._held, self._holds_first = self._last, False
                    return given
            return self._slate(now, samples, "the list cannot be played")

    def _take_calls(self, now: float) -> None:
        """Fixed starts whose moment has come. What is on gives way only to something that can be shown."""
        self.lineup.call(now, self.slot)
        if self.slot is None or not self.lineup.waiting or self._is_held:
            return  # a held picture stays until somebody says play
        for slot in [each for each in self.lineup.waiting if each.may_be_passed_over]:
            self._pass_over(slot, now, "bad", slot.why_hopeless())
        cutter = self.lineup.cutter(now)
        if cutter is None:
            return
        while self.lineup.waiting[0] is not cutter:
            note = f"{cutter.item.title} began at its time before it could begin"
            self._pass_over(self.lineup.waiting[0], now, "too late", note)
        self._finish("cut", f"{cutter.item.title} begins at its time", now)

    @property
    def _is_held(self) -> bool:
        return self.is_paused and not self._holds_first

    def _put_on(self, now: float) -> bool:
        """The next one that can go on air does. False: there is none at this moment."""
        while self.lineup.waiting or now >= self._again_at:
            slot = self.lineup.candidate(now)
            if slot is None:
                return False
            if slot.is_too_late(now):
                self._pass_over(slot, now, "too late", "its time was longer ago than it may be")
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
        """It is not played; as-run says why (an entry without frames). What is on is not touched by that."""
        is_news = reason != "bad" or slot.item.key not in self._told_bad
        if self.slot is None:
            self.lineup.take_off(slot)
        elif slot in self.lineup.waiting:
            self.lineup.waiting.remove(slot)
        # Of a list that was joined a moment ago nothing was on yet: it goes on from here all the same.
        if slot.index is not None and (self.slot is None or self.lineup.index is None):
            self.lineup.index = slot.index
        if is_news:
            self._log.pass_over(slot, now, reason, note, is_off=self.slot is None)
        if reason == "bad":
            self._told_bad.add(slot.item.key)
        self.lineup.discard([slot])
        self._failures += 1
        if self._failures >= len(self.lineup.rundown.items):
            self._failed_since = self._failed_since or now
        if self._failures > len(self.lineup.rundown.items):  # the whole list is bad: look again now and then
            self._failures, self._again_at = 0, now + self._again_seconds
            self._again_seconds = min(2 * self._again_seconds, MOST_AGAIN_SECONDS)
        self.lineup.plan()
        if self.slot is not None and slot.begins_list:
            self.lineup.hand_on_the_cut(now)

    def _air(self, slot: Slot, now: float) -> None:
        self._failures, self._again_seconds, self._failed_since = 0, AGAIN_SECONDS, None
        self._told_bad.clear()
        self._log.air(slot, now)
        self.filler.drop()
        self.slot = slot
        self.lineup.note_aired(slot, now)
        self.lineup.plan()

    # --- picture and sound ------------------------------------------------------------------------------------------

    def _give(self, now: float, samples: int) -> tuple[Data, bytes] | None:
        """The frame of what is on; None when it has just ended."""
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
        """Nothing of the list can be on: the filler, again and again, and where there is none the slate."""
        filled = self.filler.take(now, samples)
        if filled is not None:
            return self._filler_frame(filled, now)
        is_opening = self.lineup.candidate(now) is not None and now >= self._again_at
        return self._slate(now, samples, "what comes next is being opened" if is_opening else "nothing to play")

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
        """What is on goes off."""
        slot = self.slot
        assert slot is not None
        slot.is_over = True
        self._log.close(now, reason, note)
        self.slot = None
        self.lineup.discard([slot])

    def close(self, now: float, reason: str) -> None:
        """The worker ends."""
        with self.lock:
            if self.slot is not None:
                self._finish(reason, "", now)
            self._log.close(now, reason)

    # --- what people see --------------------------------------------------------------------------------------------

    @property
    def means_slate(self) -> bool:
        """The slate is in the list, or somebody pauses on it: it is what people want to see."""
        return self.is_paused or (self.slot is not None and self.slot.item.kind == SLATE)

    def state(self) -> str:
        if self.is_paused:
            return "paused"
        if self.slot is not None:
            return "playing"
        return FILLER if self.filler.is_on else SLATE

    def status(self, now: float) -> DirectorStatus:
        with self.lock:
            failed_seconds = round(now - self._failed_since, 1) if self._failed_since else 0.0
            return DirectorStatus.of(
                self.state(),
                self.slot,
                self.lineup,
                is_paused=self.is_paused,
                repeats=self.repeats,
                list_failed_seconds=failed_seconds,
                picture=self.picture,
                now=now,
            )
