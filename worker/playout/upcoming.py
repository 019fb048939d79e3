"""Keeps the slots of the items that come next, by the order of the list and by the clock. It opens nothing.

`upcoming` has the next few items of the list. `waiting` has the fixed starts whose time has come. Slots that are not
needed any more go to `finished`; the main loop closes them. Everything here happens under the director's lock.
"""

from collections.abc import Callable

from worker.playout import list_timing
from worker.playout.fixed_starts import FixedStarts
from worker.playout.list_changes import cued_place, first_added, key_at, places_of, rebuilt, surviving_place
from worker.playout.loaded_config import Item, Resume, Rundown
from worker.playout.slots import Slot

AHEAD, MOST_AHEAD = 3, 10
# Items are opened this long before they are due.
OPEN_AHEAD_SECONDS = 4.0
# A list is joined at the position of this much later: opening the decoder takes that long.
JOIN_LEAD_SECONDS = 0.8


class UpcomingItems:
    def __init__(self, rundown: Rundown, resume: Resume | None, now: float, tell: Callable[[], None]) -> None:
        self.rundown = rundown
        self.index: int | None = None  # of the item that is on air, or was the last
        self.upcoming: list[Slot] = []
        self.waiting: list[Slot] = []
        self.finished: list[Slot] = []
        self.fixed_starts = FixedStarts(now)
        self._tomorrow: Slot | None = None  # the first item of the following list
        self._joins_at_end = False  # the item on air is not in the list: its place is found when that item ends
        self._tell = tell  # wakes the main loop
        self._begin(resume, now)

    # --- where to begin ---------------------------------------------------------------------------------------------

    def _begin(self, resume: Resume | None, now: float) -> None:
        """From the start, from where an earlier media worker was, or by the clock (P-07)."""
        rundown, join_at = self.rundown, now + JOIN_LEAD_SECONDS
        if not rundown.items:
            return
        places = places_of(self.rundown)
        if resume and resume.key in places:
            elapsed = 0.0 if resume.is_paused else join_at - resume.at
            began_at = join_at - elapsed - resume.offset_seconds
            place = list_timing.locate(rundown, places[resume.key], began_at, join_at)
            self._plan_from(place)
            self._call_again(join_at - place.offset_seconds, now)
        elif rundown.begins_at is not None and rundown.begins_at <= now:
            self._plan_from(list_timing.by_clock(rundown, join_at))
        else:
            self._plan_from(list_timing.Place(list_timing.first(rundown)))

    def _call_again(self, began_at: float, now: float) -> None:
        """Put back the fixed starts that wait for the end of the joined item: in a loop nothing else leads to them."""
        if not self.rundown.is_loop or not self.upcoming:
            return
        items = self.rundown.items
        called = [call for call in list_timing.calls(self.rundown, began_at, now) if not items[call.index].is_cut]
        self.discard(self.upcoming[1:])
        self.upcoming[1:] = [Slot(items[call.index], call.index) for call in called]
        self.plan()

    def _plan_from(self, place: list_timing.Place) -> None:
        """Plan from that place on. After the end of the list there is nothing to plan."""
        if place.index is None:
            self.index = len(self.rundown.items) - 1
            self.upcoming = []
            return
        item = self.rundown.items[place.index]
        # An item that is joined in progress is never too late.
        is_joined = place.offset_seconds > 0
        self.upcoming = [Slot(item, place.index, place.offset_seconds, is_forced=is_joined)]
        self.plan()

    # --- commands ---------------------------------------------------------------------------------------------------

    def cue(self, key: str) -> bool:
        """Make this item the next one. The list continues after it."""
        index = places_of(self.rundown).get(key)
        if index is None:
            return False
        self.discard(self.upcoming)
        self.upcoming = [Slot(self.rundown.items[index], index, is_forced=True, is_cued=True)]
        self._joins_at_end = False
        self.plan()
        return True

    def hurry(self) -> None:
        """Let the next item start without waiting for its fixed time."""
        if self.upcoming:
            self.upcoming[0].is_forced = True

    def drop_rest_of(self, item: Item) -> None:
        """Drop the other parts of a recording that was skipped."""
        if self.index is None:
            return
        items = self.rundown.items
        while self.index + 1 < len(items) and list_timing.belongs(items[self.index], items[self.index + 1]):
            self.index += 1
        group = item.part_of or item.key
        rest = [slot for slot in self.upcoming if slot.item.part_of == group]
        self.discard(rest)
        self.upcoming = [slot for slot in self.upcoming if slot not in rest]

    def load(self, rundown: Rundown, on: Slot | None, now: float) -> None:
        """Take another list. The item on air stays on air; the next items come from the new list."""
        old, self.rundown = self.rundown, rundown
        self._go_over(old, on, now)
        following = rundown.following.items if rundown.following is not None else ()
        if self._tomorrow is not None and self._tomorrow.item not in following[:1]:
            self.discard([self._tomorrow])  # it may be open already
            self._tomorrow = None

    def _go_over(self, old: Rundown, on: Slot | None, now: float) -> None:
        places = places_of(self.rundown)
        anchor = on.item.key if on else key_at(old, self.index)
        self._follow_fixed_starts(places)
        if on is not None:
            on.index = places.get(on.item.key)
        self._joins_at_end = False
        if anchor in places:
            self.index = places[anchor]
            cued = cued_place(self.upcoming, places)
            first = list_timing.follower(self.rundown, self.index) if cued is None else cued
            self._rebuild(first, is_cued=cued is not None)
            return
        survivor = surviving_place(old, self.index, self.upcoming, places)
        self.index = None
        is_other_day = self.rundown.begins_at is not None and self.rundown.begins_at != old.begins_at
        if is_other_day and on is not None:
            self._cut_to_clock(now)
        elif survivor is not None:
            self._rebuild(survivor if on is not None else first_added(old, self.rundown, survivor))
        elif on is not None:
            self.discard(self.upcoming)
            self.upcoming, self._joins_at_end = [], True
        else:
            self.discard(self.upcoming)
            self.upcoming = []
            self._begin(None, now)

    def _rebuild(self, first: int | None, *, is_cued: bool = False) -> None:
        """Plan again from `first`. Slots that are open already are kept."""
        self.upcoming, left = rebuilt(self.rundown, first, self.upcoming, count=AHEAD, is_cued=is_cued)
        self.discard(left)

    def _cut_to_clock(self, now: float) -> None:
        """Join the list of another day by the clock. It cuts the item on air."""
        self.discard(self.upcoming)
        self.upcoming = []
        prepared, self._tomorrow = self._tomorrow, None
        place = list_timing.by_clock(self.rundown, now)
        if place.index is None or place.waits_until is not None:
            self._plan_from(place)
            self.discard([prepared] if prepared else [])
            return
        item = self.rundown.items[place.index]
        if prepared is None or prepared.item != item or place.offset_seconds > JOIN_LEAD_SECONDS:
            self.discard([prepared] if prepared else [])
            place = list_timing.by_clock(self.rundown, now + JOIN_LEAD_SECONDS)
            if place.index is None or place.waits_until is not None:
                self._plan_from(place)
                return
            prepared = Slot(self.rundown.items[place.index], place.index, place.offset_seconds)
        prepared.index, prepared.is_forced, prepared.begins_list = place.index, True, True
        prepared.cuts, prepared.due_since = True, now
        self.waiting.append(prepared)

    def pass_cut_to_next(self, now: float) -> None:
        """The first item of the new list cannot be shown: let the next one cut, unless it has a later fixed time."""
        slot = self.upcoming[0] if self.upcoming else None
        if slot is None or slot.index is None or list_timing.waits_for(self.rundown, slot.index, now) is not None:
            return
        self.upcoming.pop(0)
        slot.begins_list = slot.cuts = slot.is_forced = True
        slot.due_since = now
        self.waiting.append(slot)

    def _follow_fixed_starts(self, places: dict[str, int]) -> None:
        """Keep the fixed starts that are still in the list, with their new index."""
        self.discard(self.fixed_starts.follow(self.rundown, places))
        for slot in list(self.waiting):
            if slot.item.key not in places:
                self.waiting.remove(slot)
                self.discard([slot])
            else:
                slot.index = places[slot.item.key]

    # --- what comes next --------------------------------------------------------------------------------------------

    def plan(self) -> None:
        """Fill `upcoming` with the next few items of the list."""
        while sum(not slot.is_hopeless for slot in self.upcoming) < AHEAD and len(self.upcoming) < MOST_AHEAD:
            index = self.upcoming[-1].index if self.upcoming else self.index
            if index is None:
                break
            following = list_timing.follower(self.rundown, index)
            if following is None:
                break
            self.upcoming.append(Slot(self.rundown.items[following], following))
            self._tell()

    def wishes(self, now: float, seconds_left: float | None) -> list[Slot]:
        """The slots to open now, the most urgent first. The item on air ends in `seconds_left`, if that is known."""
        found = list(self.waiting)
        found += self.fixed_starts.due_before(self.rundown, now + OPEN_AHEAD_SECONDS, self.upcoming)
        if self._joins_at_end and seconds_left is not None and seconds_left <= OPEN_AHEAD_SECONDS:
            self._join_at(now, now + max(seconds_left, JOIN_LEAD_SECONDS))
        self.plan()
        left = seconds_left or 0.0
        for number, slot in enumerate(self.upcoming):
            if left > OPEN_AHEAD_SECONDS and not (number == 0 and slot.item.kind == "asset"):
                break  # the next clip is always open, so that a skip works at once
            found.append(slot)
            if not slot.is_hopeless:
                left += slot.item.seconds if slot.item.seconds is not None else OPEN_AHEAD_SECONDS
        tomorrow = self._open_tomorrow(now)
        return [*found, tomorrow] if tomorrow is not None else found

    def _join_at(self, now: float, moment: float) -> None:
        self._joins_at_end = False
        if self.rundown.begins_at is not None and self.rundown.begins_at <= now:
            self._plan_from(list_timing.by_clock(self.rundown, moment))
        else:
            self._plan_from(list_timing.Place(list_timing.first(self.rundown)))

    def _open_tomorrow(self, now: float) -> Slot | None:
        """The first item of the following list, shortly before that list starts."""
        following, at = self.rundown.following, self.rundown.following_at
        if following is None or at is None or at - now > OPEN_AHEAD_SECONDS or following.begins_at is None:
            return None
        if self._tomorrow is None and following.items:
            self._tomorrow = Slot(following.items[0], 0)
        return self._tomorrow

    def turn_over(self, now: float) -> Rundown | None:
        """The following list, if its time has come. It was sent ahead, so this works without Airlock."""
        following, at = self.rundown.following, self.rundown.following_at
        return following if following is not None and at is not None and at <= now else None

    def call(self, now: float, on: Slot | None) -> None:
        """Move the fixed starts whose time has come to `waiting`."""
        called, unneeded = self.fixed_starts.call(self.rundown, now, on)
        self.waiting += called
        if unneeded:
            self.discard(unneeded)

    def cutter(self, now: float) -> Slot | None:
        """The last waiting slot that may cut the item on air and can be shown with this frame.

        A slot that is too late by now would not be shown, so it cuts nothing.
        """
        able = (slot for slot in reversed(self.waiting) if slot.cuts and slot.is_ready and not slot.is_too_late(now))
        return next(able, None)

    def candidate(self, now: float) -> Slot | None:
        """The slot that would go on air now."""
        if self.waiting:
            return self.waiting[0]
        if not self.upcoming:
            self.plan()
        if not self.upcoming:
            return None
        slot = self.upcoming[0]
        is_early = slot.index is not None and list_timing.waits_for(self.rundown, slot.index, now) is not None
        return None if is_early and not slot.is_forced else slot

    def after(self, item: Item) -> Slot | None:
        """The first slot after all parts of this item."""
        group = item.part_of or item.key
        return next((slot for slot in [*self.waiting, *self.upcoming] if slot.item.part_of != group), None)

    def take_off(self, slot: Slot) -> None:
        """Remove the slot from the plan. A fixed start also drops the items before it in the list."""
        if slot in self.waiting:
            self.waiting.remove(slot)
            keys = [each.item.key for each in self.upcoming]
            passed = keys.index(slot.item.key) + 1 if slot.item.key in keys else len(keys)
            self.discard([each for each in self.upcoming[:passed] if each is not slot])
            self.upcoming = self.upcoming[passed:]
        elif self.upcoming and self.upcoming[0] is slot:
            self.upcoming.pop(0)

    def note_aired(self, slot: Slot, now: float) -> None:
        """The slot is on air: continue the list after it. In a list for a day, an early start is not called again."""
        if slot.index is not None:
            self.index = slot.index
        if not self.rundown.is_loop:
            self.fixed_starts.note_aired(slot.item, now)

    def discard(self, slots: list[Slot]) -> None:
        self.finished.extend(slots)
        self._tell()

    def everything(self) -> list[Slot]:
        """Every slot that may be open."""
        ahead = [self._tomorrow] if self._tomorrow is not None else []
        return [*self.waiting, *self.upcoming, *self.fixed_starts.opened.values(), *self.finished, *ahead]
