"""The director's part of the status: the item on air, the next one, and where a successor continues."""

from dataclasses import dataclass

from worker.playout.slots import Slot, moment_of
from worker.playout.upcoming import UpcomingItems
from worker.wire.picture import Format
from worker.wire.rundown import Place
from worker.wire.status import ItemOnAir, NextItem


@dataclass(frozen=True)
class DirectorStatus:
    state: str
    rundown: str
    item: ItemOnAir | None
    next: NextItem | None
    place: Place | None
    repeats: int
    list_failed_seconds: float

    @classmethod
    def of(
        cls,
        state: str,
        slot: Slot | None,
        lineup: UpcomingItems,
        *,
        is_paused: bool,
        repeats: int,
        list_failed_seconds: float,
        picture: Format,
        now: float,
    ) -> "DirectorStatus":
        offset = round(slot.offset_seconds + picture.seconds_of(slot.ticks), 3) if slot else 0.0
        return cls(
            state=state,
            rundown=lineup.rundown.version,
            item=_on_air(slot, offset) if slot else None,
            next=_next(lineup),
            place=Place(slot.item.key, offset, moment_of(now), is_paused) if slot else None,
            repeats=repeats,
            list_failed_seconds=list_failed_seconds,
        )


def _next(lineup: UpcomingItems) -> NextItem | None:
    following = next(iter([*lineup.waiting, *lineup.upcoming]), None)
    if following is None:
        return None
    return NextItem(key=following.item.key, title=following.item.title, is_ready=following.is_ready)


def _on_air(slot: Slot, offset_seconds: float) -> ItemOnAir:
    return ItemOnAir(
        key=slot.item.key,
        title=slot.item.title,
        kind=slot.item.kind,
        asset=slot.item.asset,
        started_at=slot.entry.started_at if slot.entry else None,
        offset_seconds=offset_seconds,
        seconds=slot.item.seconds,
        has_signal=slot.starved == 0,
    )
