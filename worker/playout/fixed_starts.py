"""The items of a list that start at a fixed time: opens them ahead, and calls them when their time has come.

Like `upcoming`, it is only used under the director's lock.
"""

from collections.abc import Iterable, Mapping

from worker.playout import list_timing
from worker.playout.loaded_config import Item, Rundown
from worker.playout.slots import Slot

# (key of the item, time of its start)
Start = tuple[str, float]


class FixedStarts:
    def __init__(self, now: float) -> None:
        self.opened: dict[Start, Slot] = {}  # open ahead of their time
        self._taken: set[Start] = set()  # on air before their time, because a person cued or skipped to them
        self._called_until = now

    def due_before(self, rundown: Rundown, moment: float, upcoming: Iterable[Slot]) -> list[Slot]:
        """The starts up to that time, to be opened now. A slot that is upcoming anyway is used again."""
        found = []
        for call in list_timing.calls(rundown, self._called_until, moment):
            item = rundown.items[call.index]
            if (item.key, call.moment) in self._taken:
                continue
            ahead = next((each for each in upcoming if each.item.key == item.key), None)
            found.append(self.opened.setdefault((item.key, call.moment), ahead or Slot(item, call.index)))
        return found

    def call(self, rundown: Rundown, now: float, on: Slot | None) -> tuple[list[Slot], list[Slot]]:
        """The starts whose time has come, and the slots that are not needed any more."""
        called, unneeded = [], []
        for call in list_timing.calls(rundown, self._called_until, now):
            item = rundown.items[call.index]
            slot = self.opened.pop((item.key, call.moment), None) or Slot(item, call.index)
            is_on = on is not None and on.item.key == item.key and not rundown.is_loop
            if is_on or (item.key, call.moment) in self._taken:
                self._taken.discard((item.key, call.moment))
                unneeded.append(slot)
                continue
            slot.due_since = slot.due_since or now
            slot.cuts = item.is_cut
            called.append(slot)
        self._called_until = max(now, self._called_until)
        return called, unneeded

    def follow(self, rundown: Rundown, places: Mapping[str, int]) -> list[Slot]:
        """The list was changed: renumber the starts that are still in it; return the slots of the others."""
        gone = []
        for start, slot in list(self.opened.items()):
            key, moment = start
            if key not in places or moment not in rundown.items[places[key]].fixed_at:
                gone.append(self.opened.pop(start))
            else:
                slot.index = places[key]
        return gone

    def note_aired(self, item: Item, now: float) -> None:
        """The item is on air before its next start, so that start is not called."""
        ahead = [moment for moment in item.fixed_at if moment > now]
        if ahead:
            self._taken.add((item.key, ahead[0]))
