"""Pure functions for the timing of a list: which item is on at which time, and where to join it in progress."""

from dataclasses import dataclass

from worker.playout.loaded_config import Item, Rundown

# The most steps to find a place in a list.
MOST_STEPS = 100_000
# A fixed start this soon after the end of another item counts as following it directly.
CLOSE_SECONDS = 0.02


@dataclass(frozen=True)
class Place:
    """`offset_seconds` into item `index`; with `waits_until`, that item is next and waits for its time."""

    index: int | None
    offset_seconds: float = 0.0
    waits_until: float | None = None


@dataclass(frozen=True)
class Call:
    """A fixed start: the item and its time."""

    moment: float
    index: int


def follower(rundown: Rundown, index: int) -> int | None:
    """The index after `index` in the order of the list. A loop skips items with a fixed time."""
    count, items = len(rundown.items), rundown.items
    if not rundown.is_loop or (0 <= index < count - 1 and belongs(items[index], items[index + 1])):
        return index + 1 if index + 1 < count else None
    for step in range(1, count + 1):
        candidate = (index + step) % count
        if not items[candidate].fixed_at and not items[candidate].part_of:
            return candidate
    return None


def belongs(item: Item, later: Item) -> bool:
    """The later item is another part of the same recording. It only follows the part before it."""
    return bool(later.part_of) and later.part_of in {item.key, item.part_of}


def first(rundown: Rundown) -> int | None:
    """Where a list begins when it is started from the beginning."""
    return follower(rundown, -1) if rundown.items else None


def calls(rundown: Rundown, after: float, until: float) -> list[Call]:
    """The fixed starts in (after, until], in order of time."""
    found = [
        Call(moment, index)
        for index, item in enumerate(rundown.items)
        for moment in item.fixed_at
        if after < moment <= until
    ]
    return sorted(found, key=lambda call: (call.moment, call.index))


def waits_for(rundown: Rundown, index: int, now: float) -> float | None:
    """Until when an item with a fixed start must wait if the list reaches it now; None if it may begin."""
    item = rundown.items[index]
    ahead = [moment for moment in item.fixed_at if moment > now + CLOSE_SECONDS]
    behind = [moment for moment in item.fixed_at if moment <= now + CLOSE_SECONDS]
    return ahead[0] if ahead and not behind else None


def is_too_late(item: Item, now: float) -> bool:
    """Its fixed start passed longer ago than its allowed lateness."""
    behind = [moment for moment in item.fixed_at if moment <= now]
    return bool(behind) and item.max_late_seconds is not None and now - behind[-1] > item.max_late_seconds


def locate(rundown: Rundown, index: int, began_at: float, now: float) -> Place:
    """The current place, if item `index` began at `began_at` and the list ran without intervention (P-07)."""
    began_at += _whole_rounds(rundown, now - began_at)
    for _ in range(MOST_STEPS):
        item = rundown.items[index]
        ends_at = began_at + item.seconds if item.seconds is not None else float("inf")
        due = calls(rundown, began_at, min(ends_at, now))
        cut = next((call for call in due if rundown.items[call.index].is_cut), None)
        if cut is not None:
            index, began_at = cut.index, cut.moment
            continue
        if now < ends_at:
            return Place(index, max(0.0, now - began_at))
        following = follower(rundown, index)
        if following is None:
            break
        waits_until = None if rundown.is_loop else waits_for(rundown, following, ends_at)
        if waits_until is not None and waits_until > now:
            return Place(following, 0.0, waits_until)
        index, began_at = following, waits_until or ends_at
    return Place(None)


def by_clock(rundown: Rundown, now: float) -> Place:
    """The current place of a list for a day, if it ran by its times from the beginning (P-07)."""
    assert rundown.begins_at is not None
    wait = None if rundown.is_loop else waits_for(rundown, 0, rundown.begins_at)
    if wait is None:
        return locate(rundown, 0, rundown.begins_at, now)
    # Nothing is on air until the first item's own time, unless another item cuts in before.
    earlier = [call for call in calls(rundown, rundown.begins_at, min(wait, now)) if rundown.items[call.index].is_cut]
    if earlier and earlier[0].index != 0:
        return locate(rundown, earlier[0].index, earlier[0].moment, now)
    return Place(0, 0.0, wait) if wait > now else locate(rundown, 0, wait, now)


def _whole_rounds(rundown: Rundown, seconds: float) -> float:
    """The part of `seconds` that is whole rounds of a plain loop. They are skipped without steps."""
    lengths = [item.seconds for item in rundown.items]
    if not rundown.is_loop or None in lengths or any(item.fixed_at for item in rundown.items):
        return 0.0
    total = sum(length or 0.0 for length in lengths)
    return max(0.0, seconds // total - 1) * total if total > 0 else 0.0
