"""Computes the planned times of a list's items, and the warnings about them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from fractions import Fraction

from django.db.models import Prefetch, QuerySet

from playout.lists.broadcast_days import begin_of, day_of, is_plannable, moment_on
from playout.models import Channel, Playlist, PlaylistItem
from station.clock import spoken

CLOSE = timedelta(seconds=0.5)
CLOSE_RATE = 0.01


@dataclass(frozen=True)
class Planned:
    """One item with its times. `ends_at` None: the end is not known, so the next items have no times either."""

    item: PlaylistItem
    starts_at: datetime | None
    ends_at: datetime | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    rows: list[Planned] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(row.item.seconds or 0.0 for row in self.rows)

    @property
    def length(self) -> str:
        return spoken(self.seconds)

    @property
    def warnings(self) -> list[str]:
        return [f"{row.item.shown_title}: {word}" for row in self.rows for word in row.warnings]


def plan(
    items: Iterable[PlaylistItem],
    begins_at: datetime,
    day: date,
    channels: Sequence[Channel] = (),
    *,
    is_dated: bool = True,
) -> Plan:
    """Items follow each other; fixed starts go by the clock. Gaps and overruns become warnings."""
    if not is_plannable(day):  # a day typed in the form; saving it is refused
        return Plan()
    rows: list[Planned] = []
    cursor: datetime | None = begins_at
    for item in items:
        starts_at, warnings = cursor, faults_of(item) or misfits_of(item, channels)
        if item.start_time is not None:
            fixed = moment_on(day, item.start_time)
            if not is_dated and fixed < begins_at:  # a list for any day: the same time tomorrow
                fixed = moment_on(day + timedelta(days=1), item.start_time)
            warnings += _at_fixed(item, fixed, cursor)
            starts_at = fixed if cursor is None or fixed >= cursor or item.start == item.Start.CUT else cursor
        ends_at = starts_at + timedelta(seconds=item.seconds) if starts_at and item.seconds is not None else None
        rows.append(Planned(item, starts_at, ends_at, tuple(warnings)))
        cursor = ends_at
    return Plan(_with_end_of_day(rows, begin_of(day + timedelta(days=1))) if is_dated else rows)


def _with_end_of_day(rows: list[Planned], end: datetime) -> list[Planned]:
    """Warn about a list that is too short for its day, or too long."""
    last = rows[-1] if rows else None
    if last is None or last.ends_at is None or abs(end - last.ends_at) <= CLOSE:
        return rows
    seconds = spoken(abs((end - last.ends_at).total_seconds()))
    words = (
        f"is followed by {seconds} of filler or slate" if last.ends_at < end else f"runs {seconds} into the next day"
    )
    return [*rows[:-1], replace(last, warnings=(*last.warnings, words))]


def plan_of(playlist: Playlist, now: datetime) -> Plan:
    """The plan for its day; for a list for any day, as if it began now."""
    rows = items_of(playlist)
    if playlist.on and is_plannable(playlist.on):
        return plan(rows, begin_of(playlist.on), playlist.on, channels_of(playlist))
    return plan(rows, now, day_of(now), channels_of(playlist), is_dated=False)


def items_of(playlist: Playlist) -> Iterable[PlaylistItem]:
    """In order. A page with many lists reads the items of all of them ahead: see `with_items`."""
    if "items" in getattr(playlist, "_prefetched_objects_cache", {}):
        return playlist.items.all()
    return _ordered_items(playlist.items.all())


def with_items(playlists: QuerySet[Playlist]) -> QuerySet[Playlist]:
    """Read all that `plan_of` needs with these lists."""
    return playlists.prefetch_related(Prefetch("items", _ordered_items(PlaylistItem.objects.all())), "played_by")


def _ordered_items(items: QuerySet[PlaylistItem]) -> QuerySet[PlaylistItem]:
    return items.select_related("asset", "source").order_by("position", "id")


def on_air_today(playlist: Playlist, now: datetime) -> str:
    """A warning for a list for today whose channel is on air; else empty."""
    channel = playlist.channel
    if channel is None or playlist.on != day_of(now) or not channel.is_wanted:
        return ""
    rows = plan_of(playlist, now).rows
    text = f"This list is for today: {channel} plays it from now on, by the clock."
    if any(row.starts_at and row.starts_at <= now and (row.ends_at is None or now < row.ends_at) for row in rows):
        return text
    later = [row for row in rows if row.starts_at and row.starts_at > now]
    until = f" until {later[0].item.shown_title}" if later else ""
    return f"{text} It has no item for this time, so the filler or the slate is shown{until}."


def channels_of(playlist: Playlist) -> list[Channel]:
    """The channels that play the list: the one whose day it is for, or those that play it on any day."""
    if playlist.channel is not None:
        return [playlist.channel]
    return list(playlist.played_by.all()) if playlist.pk else []


def rate_of(channels: Iterable[Channel]) -> Fraction | None:
    """The frame rate for timecodes in a list of these channels; None if there is no channel, or they differ."""
    rates = {channel.rate for channel in channels}
    return rates.pop() if len(rates) == 1 else None


def _at_fixed(item: PlaylistItem, fixed: datetime, cursor: datetime | None) -> list[str]:
    if cursor is None:
        return []
    if fixed - cursor > CLOSE:
        return [f"{spoken((fixed - cursor).total_seconds())} of filler or slate come before it"]
    if cursor - fixed > CLOSE:
        late = spoken((cursor - fixed).total_seconds())
        what = f"cuts {late} off the item before it" if item.start == item.Start.CUT else f"begins {late} late"
        return [what]
    return []


def misfits_of(item: PlaylistItem, channels: Sequence[Channel]) -> list[str]:
    """Warnings about an item in another format than the channel's. It is converted, at some loss of quality."""
    technical = item.asset.technical if item.kind == item.Kind.ASSET and item.asset else {}
    if not technical or not channels:
        return []
    if not technical.get("pictures"):
        return ["has no picture"]
    found = [] if technical.get("sounds") else ["has no sound"]
    picture = technical["pictures"][0]
    shown = f"{picture['width']}x{picture['height']}{'i' if picture['is_interlaced'] else 'p'}{picture['fps'] or '?'}"
    for channel in channels:
        is_smaller = picture["width"] < channel.size[0] or picture["height"] < channel.size[1]
        is_other_rate = picture["fps"] is not None and abs(picture["fps"] - float(channel.rate)) > CLOSE_RATE
        if is_smaller or is_other_rate or picture["is_interlaced"]:
            found.append(f"is {shown} and will be converted to {channel.picture}")
    return list(dict.fromkeys(found))


def faults_of(item: PlaylistItem) -> list[str]:  # noqa: PLR0911  a return for each fault
    """The warnings about one item, whatever is around it."""
    if item.kind == item.Kind.LIVE:
        return [] if item.length_seconds or item.start_time else ["has no length: it stays on air until Skip"]
    asset = item.asset
    if item.kind != item.Kind.ASSET or asset is None:
        return []
    if asset.trashed_at or asset.state == asset.State.DELETED:
        return ["is in the trash" if asset.trashed_at else "is deleted"]
    if asset.withdrawn_at:
        return ["is withdrawn"]
    if asset.state == asset.State.ERROR:
        return ["cannot be used: error"]
    if asset.state == asset.State.PROCESSING:
        return ["is not ready yet"]
    if asset.state == asset.State.LIVE:
        return ["is still being recorded"]
    if asset.duration_seconds and item.in_seconds >= asset.duration_seconds:
        return [f"ends after {spoken(asset.duration_seconds)}, before its in point, so it is not shown"]
    if item.out_seconds and asset.duration_seconds and item.out_seconds > asset.duration_seconds + 0.1:
        return [f"ends after {spoken(asset.duration_seconds)}, before its out point"]
    return []
