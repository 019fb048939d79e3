"""Prepares the list for a channel's media worker: the list of the day or the channel's own, with absolute times."""

import hashlib
import json
import logging
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Prefetch

from assets.models import Asset, AssetPart
from playout.lists.broadcast_days import begin_of, day_of, moment_on
from playout.lists.loudness import gain_of
from playout.models import Channel, Playlist, PlaylistItem
from scheduling.recorders.sources import wire_source, words_to_redact
from station.sealing import CannotOpen
from worker.wire import codec
from worker.wire.commands import Load
from worker.wire.configuration import Source
from worker.wire.rundown import ASSET, GROWING, Item, Rundown

logger = logging.getLogger(__name__)

DAYS_AHEAD = 3
MOST_ITEMS = 2000
# Fetched with one query for all assets: a list may have a thousand.
READABLE = Prefetch(
    "asset__parts", AssetPart.objects.filter(is_readable=True).order_by("number"), to_attr="readable_parts"
)


@dataclass(frozen=True)
class PreparedList:
    """The list for a media worker. `sources` (of live items, by item key) and `redact` are secret."""

    rundown: Rundown
    sources: dict[str, Source] = field(default_factory=dict)
    redact: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return self.rundown.version

    @property
    def command(self) -> Load:
        return Load(self.rundown, self.sources, self.redact)


def lists_of(channel: Channel, now: datetime) -> list[Playlist]:
    """Today's list and tomorrow's, if today has one; else the channel's own."""
    today = day_of(now)
    dated = Playlist.objects.filter(channel=channel, project=channel.project_id)
    found = list(dated.filter(on__in=[today, today + timedelta(days=1)]).order_by("on"))
    if found and found[0].on == today:
        return found
    return [channel.playlist] if channel.playlist else []


def rundown_of(channel: Channel, now: datetime) -> PreparedList:
    """Everything the media worker needs to play for more than a day without Airlock."""
    lists = lists_of(channel, now)
    secrets = _Secrets()
    rundown = _rundown(lists, now, secrets, channel.loudness_lufs)
    following = _following(channel, lists, now)
    if following is not None:
        later = _rundown([following], now, secrets, channel.loudness_lufs)
        rundown = replace(rundown, following=later, following_at=begin_of(day_of(now) + timedelta(days=1)))
    rundown = replace(rundown, version=_version(rundown, secrets.sources))
    return PreparedList(rundown, secrets.sources, tuple(sorted(secrets.redact)))


def _following(channel: Channel, lists: list[Playlist], now: datetime) -> Playlist | None:
    """The list that starts tomorrow, if it is of another kind. The media worker changes to it by itself."""
    if any(each.on for each in lists):
        has_tomorrow = len(lists) > 1
        return None if has_tomorrow else channel.playlist
    tomorrow = day_of(now) + timedelta(days=1)
    return Playlist.objects.filter(channel=channel, project=channel.project_id, on=tomorrow).first()


@dataclass
class _Secrets:
    """Live sources by item, and the secrets that must never be printed."""

    sources: dict[str, Source] = field(default_factory=dict)
    redact: set[str] = field(default_factory=set)


def _rundown(lists: list[Playlist], now: datetime, secrets: _Secrets, target_lufs: float | None) -> Rundown:
    items: list[Item] = []
    for playlist in lists:
        rows = playlist.items.select_related("asset", "asset__booking", "source").order_by("position", "id")
        for number, row in enumerate(rows.prefetch_related(READABLE)[:MOST_ITEMS]):
            moments = _fixed_moments(row, playlist.on, now)
            if playlist.on and number == 0 and playlist is not lists[0]:
                moments = moments or [begin_of(playlist.on)]  # the next day begins on the second
            items += items_of(row, moments, target_lufs)
            if row.source is not None and not _gather(row, secrets):
                items[-1] = replace(items[-1], kind=ASSET, file="")
    first = lists[0] if lists else None
    rundown = Rundown(
        version="",
        items=tuple(items),
        is_loop=first is not None and not first.on and first.is_loop,
        begins_at=begin_of(first.on) if first is not None and first.on else None,
    )
    return replace(rundown, version=_version(rundown))


def _gather(row: PlaylistItem, secrets: _Secrets) -> bool:
    """Add the item's source. False: its secret cannot be unsealed; only this item is skipped."""
    source = row.source
    assert source is not None
    try:
        opened = source.secrets
        secrets.sources[str(row.pk)] = wire_source(source.source_type, source.address, opened, source.picture_size)
    except CannotOpen as error:
        logger.error("A live item cannot be shown. item=%s error=%s", row.pk, error)
        return False
    secrets.redact.update(words_to_redact(opened))
    return True


def _version(*content: Any) -> str:
    text = json.dumps(codec.encode(content), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fixed_moments(item: PlaylistItem, day: date | None, now: datetime) -> list[datetime]:
    """The fixed time on the list's day; in other lists on the next few days, so that they work without Airlock."""
    if item.start_time is None:
        return []
    days = [day] if day else [day_of(now) + timedelta(days=number) for number in range(DAYS_AHEAD)]
    return [moment_on(each, item.start_time) for each in days]


def items_of(item: PlaylistItem, fixed: list[datetime], target_lufs: float | None = None) -> list[Item]:
    """One line, or one for each part of an asset. Each part is opened separately, so that seeking is exact."""
    base = Item(
        key=str(item.pk),
        kind=str(item.kind),
        title=item.shown_title,
        asset=item.asset_id,
        is_cut=item.start == PlaylistItem.Start.CUT,
        max_late_seconds=item.max_late_seconds,
        seconds=item.seconds,
        fixed_at=tuple(fixed),
    )
    if item.kind != PlaylistItem.Kind.ASSET or item.asset is None:
        return [base]
    base = replace(base, in_seconds=item.in_seconds, gain_db=gain_of(item.asset, target_lufs))
    if item.asset.is_growing:
        booking = item.asset.booking
        assert booking is not None
        return [replace(base, kind=GROWING, gain_db=0.0, journal=f"{booking.folder}/{booking.file_name}.json")]
    if not item.asset.is_usable:
        return [base]  # without a file it is skipped; as-run and the list's warnings say so
    return _by_parts(base, item.asset, item.in_seconds, item.out_seconds)


def _by_parts(base: Item, asset: Asset, begin: float, end: float | None) -> list[Item]:
    parts: list[AssetPart] = asset.readable_parts  # type: ignore[attr-defined]  # fetched with the list
    base = replace(base, streams=streams_of(asset))
    if len(parts) == 1:
        return [replace(base, file=parts[0].path)]
    rows: list[Item] = []
    for part, first, last in _cut(parts, begin, end):
        row = replace(base, in_seconds=first, seconds=last - first, file=part.path)
        if rows:  # for people it is one item: it is cued and skipped as a whole
            row = replace(row, key=f"{base.key}.{part.number}", fixed_at=(), part_of=base.key)
        rows.append(row)
    return rows or [base]


def _cut(parts: list[AssetPart], begin: float, end: float | None) -> list[tuple[AssetPart, float, float]]:
    """The piece of each part between the in and out points, which count through all parts."""
    found, at = [], 0.0
    for part in parts:
        first = max(0.0, begin - at)
        last = part.seconds if end is None else min(part.seconds, end - at)
        if last - first > 0.02:
            found.append((part, first, last))
        at += part.seconds
    return found


def streams_of(asset: Asset) -> str:
    """Picture and sound, by the technical data."""
    if not asset.technical:
        return "av"
    has = [name for name, kind in (("v", "pictures"), ("a", "sounds")) if asset.technical.get(kind)]
    return "".join(has) or "av"


def filler_of(channel: Channel) -> Item | None:
    asset = channel.filler
    if asset is None or not asset.is_usable:
        return None
    part = asset.parts.filter(is_readable=True).order_by("number").first()
    if part is None:
        return None
    return Item(
        key="filler",
        kind=ASSET,
        title=asset.title,
        asset=asset.pk,
        file=part.path,
        streams=streams_of(asset),
        gain_db=gain_of(asset, channel.loudness_lufs),
    )
