"""When a channel's live items need their sources: the time for which their devices and ports are reserved (P-15).

A list for a day has planned times; on air they shift with what is really on. A list for any day has known times only
for its fixed starts. Its other live items may come at any time, so they are reserved for the next 24 hours, again and
again, while the channel is wanted on air.
"""

from bisect import bisect_right
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from playout.lists.broadcast_days import begin_of, day_of, is_plannable, moment_on
from playout.lists.list_timing import Planned, plan
from playout.models import Channel, Playlist, PlaylistItem
from worker.wire.rundown import Place

DAY = timedelta(days=1)
AHEAD = timedelta(hours=24)
# A shift of less than this is the jitter of the reports from the media worker.
SHIFTED = timedelta(seconds=2)


@dataclass(frozen=True)
class LiveWindow:
    """`is_certain`: the item is on air for all of that time, not just at some point in it."""

    item: PlaylistItem
    starts_at: datetime
    ends_at: datetime
    is_certain: bool = True


def windows_on(channel: Channel, day: date, now: datetime) -> list[LiveWindow]:
    """The windows of the list that the channel plays on that broadcast day, as it is stored."""
    if not is_plannable(day):
        return []
    dated = Playlist.objects.filter(channel=channel, project=channel.project_id, on=day).first()
    playlist = dated or channel.playlist
    return windows_of(channel, playlist, _rows_of(playlist), day, now) if playlist is not None else []


def _rows_of(playlist: Playlist | None) -> list[PlaylistItem]:
    """All rows, or none if no item is live: then their times do not matter."""
    if playlist is None or not playlist.items.filter(kind=PlaylistItem.Kind.LIVE).exists():
        return []
    return list(playlist.items.select_related("asset", "source").order_by("position", "id"))


def windows_of(
    channel: Channel, playlist: Playlist, items: Sequence[PlaylistItem], day: date, now: datetime
) -> list[LiveWindow]:
    """The windows of these items, if the channel plays them on that broadcast day. The items need not be stored."""
    if not any(item.kind == PlaylistItem.Kind.LIVE for item in items):
        return []
    found = dated_windows(items, day, now, channel.read_place()) if playlist.on else any_day_windows(items, day, now)
    is_stopped = not channel.is_wanted and channel.state == Channel.State.OFF_AIR
    if not is_stopped:
        return found
    # A channel that is off air plays nothing now. Only the list of a day says what it will play.
    return [window for window in found if window.starts_at > now] if playlist.on else []


def dated_windows(items: Sequence[PlaylistItem], day: date, now: datetime, place: Place | None) -> list[LiveWindow]:
    """By the plan of that day. An item whose end is not known ends at the next fixed start, or with the day."""
    begins, ends = begin_of(day), begin_of(day + DAY)
    rows = _as_played(plan(items, begins, day).rows, list(items), day, now, place)
    cuts = [*sorted(row.starts_at for row in rows if row.starts_at and _cuts_in(row.item)), ends]
    found, known = [], begins
    for row in rows:
        known = row.starts_at or known  # the item begins then or later
        if row.item.kind != PlaylistItem.Kind.LIVE or known >= ends:
            continue
        cut = cuts[bisect_right(cuts, known)]
        window = LiveWindow(row.item, known, min(row.ends_at or cut, cut), is_certain=row.starts_at is not None)
        if window.ends_at > max(window.starts_at, now):
            found.append(window)
    return found


def _cuts_in(item: PlaylistItem) -> bool:
    return item.start_time is not None and item.start == PlaylistItem.Start.CUT


def _as_played(
    rows: list[Planned], items: list[PlaylistItem], day: date, now: datetime, place: Place | None
) -> list[Planned]:
    """The plan, shifted by what is on air: after Skip, Pause, Cue or a late item the rest comes at other times."""
    key = int(place.key) if place is not None and place.key.isdigit() else None
    index = next((number for number, item in enumerate(items) if item.pk == key), None)
    if place is None or key is None or index is None:
        return rows
    began = place.at - timedelta(seconds=place.offset_seconds)
    planned = rows[index].starts_at
    if planned is not None and abs(began - planned) < SHIFTED:
        return rows
    on_air = copy(items[index])
    on_air.start_time = None
    still_to_come = [row for row in rows[:index] if row.starts_at and row.starts_at > now and row.item.start_time]
    return [*still_to_come, *plan([on_air, *items[index + 1 :]], began, day).rows]


def any_day_windows(items: Sequence[PlaylistItem], day: date, now: datetime) -> list[LiveWindow]:
    """In a list for any day: fixed starts at their time; the others from now on, for the next 24 hours."""
    begins, ends = begin_of(day), begin_of(day + DAY)
    # Whole hours, so that the reservation is extended once an hour.
    horizon = (now + AHEAD).replace(minute=0, second=0, microsecond=0)
    cuts = [*sorted(moment_on(day, item.start_time) for item in items if item.start_time and _cuts_in(item)), ends]
    found = []
    for item in items:
        if item.kind != PlaylistItem.Kind.LIVE:
            continue
        if item.start_time is None:
            window = LiveWindow(item, max(begins, now), min(ends, horizon), is_certain=False)
        else:
            starts_at = moment_on(day, item.start_time)
            cut = cuts[bisect_right(cuts, starts_at)]
            until = min(starts_at + timedelta(seconds=item.seconds), cut) if item.seconds is not None else cut
            window = LiveWindow(item, starts_at, until)
        if window.ends_at > max(window.starts_at, now):
            found.append(window)
    return found


def near_days(now: datetime) -> tuple[date, date]:
    """Today and tomorrow: their times may still shift. Later lists are planned once, when they are saved."""
    today = day_of(now)
    return today, today + DAY
