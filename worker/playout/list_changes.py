"""Pure functions for a list that changes on air: where the new list continues, and which upcoming slots stay."""

from collections.abc import Mapping, Sequence

from worker.playout import list_timing
from worker.playout.loaded_config import Rundown
from worker.playout.slots import Slot


def places_of(rundown: Rundown) -> dict[str, int]:
    """The index of each item, by its key."""
    return {item.key: index for index, item in enumerate(rundown.items)}


def key_at(rundown: Rundown, index: int | None) -> str | None:
    return rundown.items[index].key if index is not None and index < len(rundown.items) else None


def cued_place(upcoming: Sequence[Slot], places: Mapping[str, int]) -> int | None:
    """The new index of the next item, if a person cued it: it stays next."""
    head = upcoming[0] if upcoming else None
    return places.get(head.item.key) if head is not None and head.is_cued else None


def surviving_place(old: Rundown, index: int | None, upcoming: Sequence[Slot], places: Mapping[str, int]) -> int | None:
    """The new index of the first item after `index` in the old list that is also in the new one."""
    keys = [slot.item.key for slot in upcoming]
    if index is not None and not old.is_loop:
        keys += [item.key for item in old.items[index + 1 :]]
    return next((places[key] for key in keys if key in places), None)


def first_added(old: Rundown, new: Rundown, index: int) -> int:
    """The first of the new items directly before `index`: nothing is on air, so they are due now."""
    known = places_of(old)
    while not new.is_loop and index > 0 and new.items[index - 1].key not in known and not new.items[index - 1].fixed_at:
        index -= 1
    return index


def rebuilt(
    rundown: Rundown, start: int | None, known: Sequence[Slot], *, count: int, is_cued: bool
) -> tuple[list[Slot], list[Slot]]:
    """The next slots from `start` on, and the known slots that are left over. A known slot is reused: it may be open.

    `is_cued`: a person cued the first one.
    """
    left, found, index = list(known), list[Slot](), start
    while index is not None and len(found) < count:
        item = rundown.items[index]
        slot = next((each for each in left if each.item == item), None)
        if slot is None:
            slot = Slot(item, index)
            slot.is_cued = slot.is_forced = is_cued and not found
        else:
            left.remove(slot)
        slot.index = index
        found.append(slot)
        index = list_timing.follower(rundown, index)
    return found, left
