"""What comes next, by the order of the list and by the clock. It opens nothing and knows no frames.

`upcoming` follows the list, a few items ahead. `waiting` are fixed starts whose moment has come. What is no longer
wanted goes to `finished`, for the stage hand to clear away. Everything here happens under the director's lock.
"""

from collections.abc import Callable

from worker.playout import list_timing
from worker.playout.loaded import Item, Resume, Rundown
from worker.playout.slots import Slot

AHEAD, MOST_AHEAD = 3, 10
# Items are opened when they are due within so many seconds.
OPEN_AHEAD_SECONDS = 4.0
# The place taken when joining in progress: by then its decoder is open.
JOIN_LEAD_SECONDS = 0.8


class Lineup:
    def __init__(self, rundown: Rundown, resume: Resume | None, now: float, tell: Callable[[], None]) -> None:
        self.rundown = rundown
        self.index: int | None = None  # of the item that is or was on last
        self.upcoming: list[Slot] = []
        self.waiting: list[Slot] = []
        self.finished: list[Slot] = []
        self._fixed: dict[tuple[str, float], Slot] = {}  # open ahead of their moment
        self._taken: set[tuple[str, float]] = set()  # fixed starts that somebody took before their time
        self._called_until = now
        self._tomorrow: Slot | None = None  # the first of the list that follows this one
        self._joins_at_end = False  # the list has nothing in common with what is on: its place is found when that ends
        self._tell = tell  # wakes the stage hand
        self._begin(resume, now)

    # --- where to begin ---------------------------------------------------------------------------------------------

    def _begin(self, resume: Resume | None, now: float) -> None:
        """Afresh, or where an earlier worker or the clock says (P-07)."""
        rundown, join_at = self.rundown, now + JOIN_LEAD_SECONDS
        if not rundown.items:
            return
        places = self._places()
        if resume and resume.key in places:
            elapsed = 0.0 if resume.is_paused else join_at - resume.at
            began_at = join_at - elapsed - resume.offset_seconds
            place = list_timing.locate(rundown, places[resume.key], began_at, join_at)
            self._announce(place)
            self._call_again(join_at - place.offset_seconds, now)
        elif rundown.begins_at is not None and rundown.begins_at <= now:
            self._announce(list_timing.by_clock(rundown, join_at))
        else:
            self._announce(list_timing.Place(list_timing.first(rundown)))

    def _call_again(self, began_at: float, now: float) -> None:
        """What was called while the joined item was on, and waited for its end: in a loop nothing else leads to it."""
        if not self.rundown.is_loop or not self.upcoming:
            return
        items = self.rundown.items
        called = [call for call in list_timing.calls(self.rundown, began_at, now) if not items[call.index].is_cut]
        self.discard(self.upcoming[1:])
        self.upcoming[1:] = [Slot(items[call.index], call.index) for call in called]
        self.plan()

    def _announce(self, place: list_timing.Place) -> None:
        """Go on from there; past the end there is nothing more to come."""
        if place.index is None:
            self.index = len(self.rundown.items) - 1
            self.upcoming = []
            return
        item = self.rundown.items[place.index]
        # What is joined is on time, however long ago its time was.
        is_joined = place.offset_seconds > 0
        self.upcoming = [Slot(item, place.index, place.offset_seconds, is_forced=is_joined)]
        self.plan()

    def _places(self) -> dict[str, int]:
        return {item.key: index for index, item in enumerate(self.rundown.items)}

    # --- what people say --------------------------------------------------------------------------------------------

    def cue(self, key: str) -> bool:
        """This item is next; after it the list goes on from there."""
        index = self._places().get(key)
        if index is None:
            return False
        self.discard(self.upcoming)
        self.upcoming = [Slot(self.rundown.items[index], index, is_forced=True, is_cued=True)]
        self._joins_at_end = False
        self.plan()
        return True

    def hurry(self) -> None:
        """Somebody does not want to wait for the time of the next one."""
        if self.upcoming:
            self.upcoming[0].is_forced = True

    def drop_rest_of(self, item: Item) -> None:
        """The other parts of a recording that was left early are left out, too."""
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
        """Another list. What is on stays on; what follows it follows from the new one."""
        old, self.rundown = self.rundown, rundown
        self._go_over(old, on, now)
        following = rundown.following.items if rundown.following is not None else ()
        if self._tomorrow is not None and self._tomorrow.item not in following[:1]:
            self.discard([self._tomorrow])  # it was open already
            self._tomorrow = None

    def _go_over(self, old: Rundown, on: Slot | None, now: float) -> None:
        places = self._places()
        anchor = on.item.key if on else _key_of(old, self.index)
        self._keep_calls(places)
        if on is not None:
            on.index = places.get(on.item.key)
        self._joins_at_end = False
        if anchor in places:
            self.index = places[anchor]
            self._rebuild(self._head_kept(places), old_order=False)
            return
        survivor = self._survivor(old, places)
        self.index = None
        is_other_day = self.rundown.begins_at is not None and self.rundown.begins_at != old.begins_at
        if is_other_day and on is not None:
            self._cut_to_clock(now)
        elif survivor is not None:
            self._rebuild(survivor, old_order=True)
        elif on is not None:
            self.discard(self.upcoming)
            self.upcoming, self._joins_at_end = [], True
        else:
            self.discard(self.upcoming)
            self.upcoming = []
            self._begin(None, now)

    def _head_kept(self, places: dict[str, int]) -> int | None:
        """What a person cued stays next."""
        head = self.upcoming[0] if self.upcoming else None
        return places.get(head.item.key) if head is not None and head.is_cued else None

    def _survivor(self, old: Rundown, places: dict[str, int]) -> int | None:
        """What was to come next and still is in the list."""
        keys = [slot.item.key for slot in self.upcoming]
        if self.index is not None and not old.is_loop:
            keys += [item.key for item in old.items[self.index + 1 :]]
        return next((places[key] for key in keys if key in places), None)

    def _rebuild(self, first: int | None, *, old_order: bool) -> None:
        """Announce anew, from `first` or from what follows what is on, and keep what is open already."""
        known, self.upcoming = self.upcoming, []
        index = first
        if index is None and not old_order and self.index is not None:
            index = list_timing.follower(self.rundown, self.index)
        while index is not None and len(self.upcoming) < AHEAD:
            item = self.rundown.items[index]
            slot = next((each for each in known if each.item == item), None)
            if slot is None:
                slot = Slot(item, index)
                slot.is_cued = slot.is_forced = first is not None and not old_order and not self.upcoming
            else:
                known.remove(slot)
            slot.index = index
            self.upcoming.append(slot)
            index = list_timing.follower(self.rundown, index)
        self.discard(known)

    def _cut_to_clock(self, now: float) -> None:
        """The list of another day: it is joined by the clock, and cuts what is left of the old one."""
        self.discard(self.upcoming)
        self.upcoming = []
        prepared, self._tomorrow = self._tomorrow, None
        place = list_timing.by_clock(self.rundown, now)
        if place.index is None or place.waits_until is not None:
            self._announce(place)
            self.discard([prepared] if prepared else [])
            return
        item = self.rundown.items[place.index]
        if prepared is None or prepared.item != item or place.offset_seconds > JOIN_LEAD_SECONDS:
            self.discard([prepared] if prepared else [])
            place = list_timing.by_clock(self.rundown, now + JOIN_LEAD_SECONDS)
            if place.index is None or place.waits_until is not None:
                self._announce(place)
                return
            prepared = Slot(self.rundown.items[place.index], place.index, place.offset_seconds)
        prepared.index, prepared.is_forced, prepared.begins_list = place.index, True, True
        prepared.cuts, prepared.due_since = True, now
        self.waiting.append(prepared)

    def hand_on_the_cut(self, now: float) -> None:
        """The first of the new list cannot be shown: the next of it takes over, unless its time is still to come."""
        slot = self.upcoming[0] if self.upcoming else None
        if slot is None or slot.index is None or list_timing.waits_for(self.rundown, slot.index, now) is not None:
            return
        self.upcoming.pop(0)
        slot.begins_list = slot.cuts = slot.is_forced = True
        slot.due_since = now
        self.waiting.append(slot)

    def _keep_calls(self, places: dict[str, int]) -> None:
        """Fixed starts that are still in the list, under their new number."""
        for call, slot in list(self._fixed.items()):
            key, moment = call
            if key not in places or moment not in self.rundown.items[places[key]].fixed_at:
                self.discard([self._fixed.pop(call)])
            else:
                slot.index = places[key]
        for slot in list(self.waiting):
            if slot.item.key not in places:
                self.waiting.remove(slot)
                self.discard([slot])
            else:
                slot.index = places[slot.item.key]

    # --- what comes next --------------------------------------------------------------------------------------------

    def plan(self) -> None:
        """Announce the next few, following the list from what is on or announced last."""
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
        """What should be open by now, the most urgent first; what is on ends in `seconds_left`, if that is known."""
        found = list(self.waiting)
        for call in list_timing.calls(self.rundown, self._called_until, now + OPEN_AHEAD_SECONDS):
            item = self.rundown.items[call.index]
            if (item.key, call.moment) in self._taken:
                continue
            ahead = next((each for each in self.upcoming if each.item.key == item.key), None)
            found.append(self._fixed.setdefault((item.key, call.moment), ahead or Slot(item, call.index)))
        if self._joins_at_end and seconds_left is not None and seconds_left <= OPEN_AHEAD_SECONDS:
            self._join_at(now, now + max(seconds_left, JOIN_LEAD_SECONDS))
        self.plan()
        left = seconds_left or 0.0
        for number, slot in enumerate(self.upcoming):
            if left > OPEN_AHEAD_SECONDS and not (number == 0 and slot.item.kind == "asset"):
                break  # the very next clip is open at all times: somebody may skip to it
            found.append(slot)
            if not slot.is_hopeless:
                left += slot.item.seconds if slot.item.seconds is not None else OPEN_AHEAD_SECONDS
        tomorrow = self._open_tomorrow(now)
        return [*found, tomorrow] if tomorrow is not None else found

    def _join_at(self, now: float, moment: float) -> None:
        self._joins_at_end = False
        if self.rundown.begins_at is not None and self.rundown.begins_at <= now:
            self._announce(list_timing.by_clock(self.rundown, moment))
        else:
            self._announce(list_timing.Place(list_timing.first(self.rundown)))

    def _open_tomorrow(self, now: float) -> Slot | None:
        """The first item of the list that takes over from this one, a moment before it does."""
        following, at = self.rundown.following, self.rundown.following_at
        if following is None or at is None or at - now > OPEN_AHEAD_SECONDS or following.begins_at is None:
            return None
        if self._tomorrow is None and following.items:
            self._tomorrow = Slot(following.items[0], 0)
        return self._tomorrow

    def turn_over(self, now: float) -> Rundown | None:
        """The list that takes over by now, if there is one: nobody has to tell us again."""
        following, at = self.rundown.following, self.rundown.following_at
        return following if following is not None and at is not None and at <= now else None

    def call(self, now: float, on: Slot | None) -> None:
        """Fixed starts whose moment has come wait for their turn from now on."""
        for call in list_timing.calls(self.rundown, self._called_until, now):
            item = self.rundown.items[call.index]
            slot = self._fixed.pop((item.key, call.moment), None) or Slot(item, call.index)
            is_on = on is not None and on.item.key == item.key and not self.rundown.is_loop
            if is_on or (item.key, call.moment) in self._taken:
                self._taken.discard((item.key, call.moment))
                self.discard([slot])
                continue
            slot.due_since = slot.due_since or now
            slot.cuts = item.is_cut
            self.waiting.append(slot)
        self._called_until = max(now, self._called_until)

    def cutter(self, now: float) -> Slot | None:
        """Of what waits, the last that may cut what is on and can be shown this very frame.

        What has become too late meanwhile cuts nothing: it would not be shown.
        """
        able = (slot for slot in reversed(self.waiting) if slot.cuts and slot.is_ready and not slot.is_too_late(now))
        return next(able, None)

    def candidate(self, now: float) -> Slot | None:
        """What would go on air now, if it can."""
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
        """What follows this item as a whole."""
        group = item.part_of or item.key
        return next((slot for slot in [*self.waiting, *self.upcoming] if slot.item.part_of != group), None)

    def take_off(self, slot: Slot) -> None:
        """It leaves what was announced; a fixed start drops what stood before it in the list."""
        if slot in self.waiting:
            self.waiting.remove(slot)
            keys = [each.item.key for each in self.upcoming]
            passed = keys.index(slot.item.key) + 1 if slot.item.key in keys else len(keys)
            self.discard([each for each in self.upcoming[:passed] if each is not slot])
            self.upcoming = self.upcoming[passed:]
        elif self.upcoming and self.upcoming[0] is slot:
            self.upcoming.pop(0)

    def note_aired(self, slot: Slot, now: float) -> None:
        """It is on: the list goes on from there. Of a day's list, what was taken early is not called again."""
        if slot.index is not None:
            self.index = slot.index
        ahead = [moment for moment in slot.item.fixed_at if moment > now]
        if ahead and not self.rundown.is_loop:
            self._taken.add((slot.item.key, ahead[0]))

    def discard(self, slots: list[Slot]) -> None:
        self.finished.extend(slots)
        self._tell()

    def everything(self) -> list[Slot]:
        """Whatever may have been opened."""
        ahead = [self._tomorrow] if self._tomorrow is not None else []
        return [*self.waiting, *self.upcoming, *self._fixed.values(), *self.finished, *ahead]


def _key_of(rundown: Rundown, index: int | None) -> str | None:
    return rundown.items[index].key if index is not None and index < len(rundown.items) else None
