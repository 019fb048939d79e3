"""Reserves the devices and ports of a channel's live items on its node, and refuses lists that would clash (P-15).

A reservation follows what is stored: after each change of a list, at each start, move and stop of the channel, and
every minute while it is on air (`playout.channels.port_watch`). A list that clashes is refused when it is saved. What
clashes later, because times shifted or the channel moved, raises an alert.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.db import transaction

from nodes import workloads
from nodes.machines import ports
from nodes.models import Node, Reservation
from playout.lists.broadcast_days import begin_of, day_of, is_plannable
from playout.lists.list_timing import channels_of
from playout.lists.live_windows import DAY, LiveWindow, near_days, windows_of, windows_on
from playout.models import Channel, Playlist, PlaylistItem
from scheduling.recorders.sources import port_needed
from station.actions import Refusal
from station.clock import house_time
from station.database.notify import wake_scheduler


class ListClash(Refusal):
    """The list cannot be saved: others have reserved a device or port of a live item. The text names them."""


@dataclass(frozen=True)
class Clash:
    """A live item whose device or port another owner has reserved."""

    channel: Channel
    window: LiveWindow
    other: Reservation

    @property
    def key(self) -> tuple[int | None, int]:
        return self.window.item.pk, self.other.pk

    @property
    def in_words(self) -> str:
        window = self.window
        times = f"{house_time(window.starts_at)} to {house_time(window.ends_at)}"
        return f"“{window.item.shown_title}” ({times} on {self.channel}): {self.other.in_words}."


def live_owner(channel: Channel) -> str:
    return f"{channel.owner}/live"


def node_of(channel: Channel) -> Node | None:
    """Where the channel plays, or else the node it is bound to."""
    workload = workloads.latest(channel.owner)
    return workload.node if workload is not None and not workload.is_over else channel.node


def clashes_of(channel: Channel, windows: Iterable[LiveWindow]) -> list[Clash]:
    """The windows that others have reserved. Writes nothing."""
    node = node_of(channel)
    needed = {window: port for window in windows if (port := _port_of(window.item)) is not None}
    if node is None or not needed:
        return []
    begins, ends = min(each.starts_at for each in needed), max(each.ends_at for each in needed)
    rows = Reservation.objects.standing().filter(port__node=node).exclude(owner=live_owner(channel))
    by_port: dict[tuple[str, int], list[Reservation]] = {}
    for row in rows.overlapping(begins, ends).order_by("starts_at").select_related("port__node"):
        by_port.setdefault((row.port.kind, row.port.number), []).append(row)
    return [
        Clash(channel, window, other)
        for window, port in needed.items()
        for other in [row for row in by_port.get(port, ()) if row.overlaps(window.starts_at, window.ends_at)][:1]
    ]


def _port_of(item: PlaylistItem) -> tuple[str, int] | None:
    return port_needed(item.source.source_type, item.source.address) if item.source is not None else None


def settle(channel: Channel, now: datetime, days: Iterable[date] | None = None) -> list[Clash]:
    """Reserve what the live items of these days need, and release what they need no longer; without days: of all days.

    Today and tomorrow are always settled together. Returns what clashes.
    """
    with transaction.atomic():
        # Two processes that settle the same channel must not run at the same time.
        channel = (
            Channel.objects.select_for_update(no_key=True, of=("self",))
            .select_related("node", "playlist")
            .get(pk=channel.pk)
        )
        wanted = set(_days_ahead(channel, now) if days is None else days)
        near = near_days(now)
        clashes: list[Clash] = []
        if days is None or min(wanted, default=near[-1] + DAY) <= near[-1]:
            windows = [window for day in near for window in windows_on(channel, day, now)]
            clashes += _reserve(channel, windows, now, None, begin_of(near[-1] + DAY))
        for day in sorted(day for day in wanted if day > near[-1] and is_plannable(day)):
            is_dated = Playlist.objects.filter(channel=channel, on=day).exists()
            windows = windows_on(channel, day, now) if is_dated else []
            clashes += _reserve(channel, windows, now, begin_of(day), begin_of(day + DAY))
    return clashes


def _days_ahead(channel: Channel, now: datetime) -> set[date]:
    """The later days that have a live item or a reservation."""
    live = PlaylistItem.objects.filter(
        playlist__channel=channel, playlist__on__gte=day_of(now), kind=PlaylistItem.Kind.LIVE
    )
    held = Reservation.objects.standing().filter(owner=live_owner(channel))
    days = {day_of(moment) for moment in held.values_list("starts_at", flat=True)}
    return days | {day for day in live.values_list("playlist__on", flat=True).distinct() if day is not None}


def _reserve(
    channel: Channel, windows: Sequence[LiveWindow], now: datetime, since: datetime | None, until: datetime
) -> list[Clash]:
    node = node_of(channel)
    needed = [(window, port) for window in windows if (port := _port_of(window.item)) is not None]
    known = ports.ports_of(node, {port for _, port in needed}) if node is not None and needed else {}
    wanted: dict[ports.Window, LiveWindow] = {}
    for window, port in needed if known else ():
        holder = f"channel {channel} (live item “{window.item.shown_title}”)"
        times = window.starts_at, window.ends_at
        wanted[ports.Window(known[port], *times, holder, window.is_certain)] = window
    ports.reserve_windows(live_owner(channel), wanted, now=now, since=since, until=until, project=channel.project)
    return clashes_of(channel, wanted.values())


def watch_soon(channels: Iterable[Channel], at: datetime) -> None:
    """Let the scheduler review the reservations of these channels at that time."""
    if Channel.objects.filter(pk__in=[channel.pk for channel in channels]).update(ports_due_at=at):
        wake_scheduler()


def new_clashes(playlist: Playlist, items: Sequence[PlaylistItem], now: datetime) -> list[Clash]:
    """What would clash if the list had these items, without what clashes in the stored list already."""
    known = _known_clashes(playlist.pk, now)
    found = [
        clash
        for channel, days in _players(playlist, now)
        for day in days
        for clash in clashes_of(channel, windows_of(channel, playlist, items, day, now))
    ]
    return [clash for clash in found if clash.key not in known]


def _players(playlist: Playlist | None, now: datetime) -> list[tuple[Channel, tuple[date, ...]]]:
    """The channels that play the list, each with the days on which it does, as far as they are known."""
    if playlist is None:
        return []
    if playlist.on:
        return [(channel, (playlist.on,)) for channel in channels_of(playlist) if is_plannable(playlist.on)]
    found = []
    for channel in channels_of(playlist):
        dated = Playlist.objects.filter(channel=channel, on__in=near_days(now)).values_list("on", flat=True)
        found.append((channel, tuple(day for day in near_days(now) if day not in set(dated))))
    return found


def _known_clashes(playlist_id: int | None, now: datetime) -> set[tuple[int | None, int]]:
    stored = Playlist.objects.select_related("channel").filter(pk=playlist_id or 0).first()
    return {
        clash.key
        for channel, days in _players(stored, now)
        for day in days
        for clash in clashes_of(channel, windows_on(channel, day, now))
    }


class ListChange:
    """A change of one list: create it before the list is written, call `finish` afterwards, in one transaction."""

    def __init__(self, playlist: Playlist | None, now: datetime) -> None:
        self._now = now
        pk = playlist.pk if playlist is not None else None
        self._before = _players(Playlist.objects.select_related("channel").filter(pk=pk or 0).first(), now)
        self._known = _known_clashes(pk, now)

    def finish(self, playlist: Playlist | None) -> None:
        """Settle the channels that play the list or played it. Raises ListClash if a live item clashes newly."""
        days: dict[Channel, set[date]] = {}
        for channel, played in [*self._before, *_players(playlist, self._now)]:
            days.setdefault(channel, set()).update(played)
        clashes = [clash for channel, played in days.items() for clash in settle(channel, self._now, played)]
        own = [clash for clash in clashes if playlist is not None and clash.window.item.playlist_id == playlist.pk]
        new = [clash for clash in own if clash.key not in self._known]
        if new:
            raise ListClash(" ".join(clash.in_words for clash in new))
        watch_soon(days, self._now)
