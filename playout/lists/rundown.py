"""What a channel's worker is told to play: the day's list or the channel's own, as plain values with absolute times."""

import hashlib
import json
import logging
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Prefetch

from assets.models import Asset, AssetPart
from playout.lists.broadcast_days import begin_of, day_of, moment_on
from playout.models import Channel, Playlist, PlaylistItem
from scheduling.models import Recorder
from scheduling.recorders.sources import full_url, options_for, words_to_redact
from station.sealing import CannotOpen

logger = logging.getLogger(__name__)

DAYS_AHEAD = 3
MOST_ITEMS = 2000
# With a list's assets, in one question for all of them: it may have a thousand.
READABLE = Prefetch(
    "asset__parts", AssetPart.objects.filter(is_readable=True).order_by("number"), to_attr="readable_parts"
)


@dataclass(frozen=True)
class Rundown:
    """`told` is open; `sources` (live sources by item) and `redact` are secret."""

    told: dict[str, Any]
    sources: dict[str, Any] = field(default_factory=dict)
    redact: list[str] = field(default_factory=list)

    @property
    def version(self) -> str:
        return str(self.told["version"])

    @property
    def words(self) -> dict[str, Any]:
        """What a worker is told of another list (POST /load)."""
        return {"rundown": self.told, "sources": self.sources, "redact": self.redact}


def lists_of(channel: Channel, now: datetime) -> list[Playlist]:
    """Today's list and tomorrow's, if the day has one; else the channel's own."""
    today = day_of(now)
    dated = Playlist.objects.filter(channel=channel, project=channel.project_id)
    found = list(dated.filter(on__in=[today, today + timedelta(days=1)]).order_by("on"))
    if found and found[0].on == today:
        return found
    return [channel.playlist] if channel.playlist else []


def rundown_of(channel: Channel, now: datetime) -> Rundown:
    """Everything the worker needs to play on by itself for a day and more."""
    lists = lists_of(channel, now)
    secrets = _Secrets()
    told = _told(lists, now, secrets)
    following = _following(channel, lists, now)
    if following is not None:
        told["following"] = _told([following], now, secrets)
        told["following_at"] = begin_of(day_of(now) + timedelta(days=1)).isoformat()
    told["version"] = _version([told, secrets.sources])
    return Rundown(told, secrets.sources, sorted(secrets.redact))


def _following(channel: Channel, lists: list[Playlist], now: datetime) -> Playlist | None:
    """What takes over tomorrow, where that is another kind of list: the worker does it by itself."""
    if any(each.on for each in lists):
        has_tomorrow = len(lists) > 1
        return None if has_tomorrow else channel.playlist
    tomorrow = day_of(now) + timedelta(days=1)
    return Playlist.objects.filter(channel=channel, project=channel.project_id, on=tomorrow).first()


@dataclass
class _Secrets:
    """Gathered on the way: live sources by item, and the words that must never be printed."""

    sources: dict[str, Any] = field(default_factory=dict)
    redact: set[str] = field(default_factory=set)


def _told(lists: list[Playlist], now: datetime, secrets: _Secrets) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for playlist in lists:
        rows = playlist.items.select_related("asset", "asset__booking", "source").order_by("position", "id")
        for number, row in enumerate(rows.prefetch_related(READABLE)[:MOST_ITEMS]):
            moments = _fixed_moments(row, playlist.on, now)
            if playlist.on and number == 0 and playlist is not lists[0]:
                moments = moments or [begin_of(playlist.on)]  # the next day begins on the second
            items += told_item(row, moments)
            if row.source is not None:
                _gather(row, secrets, items)
    first = lists[0] if lists else None
    told: dict[str, Any] = {
        "items": items,
        "loop": first is not None and not first.on and first.is_loop,
        "begins_at": begin_of(first.on).isoformat() if first is not None and first.on else None,
    }
    return {**told, "version": _version(told)}


def _gather(row: PlaylistItem, secrets: _Secrets, items: list[dict[str, Any]]) -> None:
    """A source whose secret cannot be opened is one item less, not a channel less."""
    assert row.source is not None
    try:
        secrets.sources[str(row.pk)], words = source_of(row.source)
    except CannotOpen as error:
        logger.error("A live item cannot be shown. item=%s error=%s", row.pk, error)
        items[-1] |= {"kind": "asset", "file": ""}
        return
    secrets.redact.update(words)


def _version(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _fixed_moments(item: PlaylistItem, day: date | None, now: datetime) -> list[datetime]:
    """Of a day's list the one moment; of any other the next few days', so that a worker alone knows them."""
    if item.start_time is None:
        return []
    days = [day] if day else [day_of(now) + timedelta(days=number) for number in range(DAYS_AHEAD)]
    return [moment_on(each, item.start_time) for each in days]


def told_item(item: PlaylistItem, fixed: list[datetime]) -> list[dict[str, Any]]:
    """One line, or several where an asset has several parts: each is opened on its own, so that seeking is exact."""
    base: dict[str, Any] = {"key": str(item.pk), "kind": item.kind, "title": item.shown_title, "asset": item.asset_id}
    base |= {"start": item.start, "max_late_seconds": item.max_late_seconds, "seconds": item.seconds}
    base |= {"fixed_at": [moment.isoformat() for moment in fixed]}
    if item.kind != PlaylistItem.Kind.ASSET or item.asset is None:
        return [base]
    base["in"] = item.in_seconds
    if item.asset.is_growing:
        booking = item.asset.booking
        assert booking is not None
        return [{**base, "kind": "growing", "journal": f"{booking.folder}/{booking.file_name}.json"}]
    if not item.asset.is_usable:
        return [{**base, "file": ""}]  # passed over with a word in as-run, and in the list's warnings
    return _by_parts(base, item.asset, item.in_seconds, item.out_seconds)


def _by_parts(base: dict[str, Any], asset: Asset, begin: float, end: float | None) -> list[dict[str, Any]]:
    parts: list[AssetPart] = asset.readable_parts  # type: ignore[attr-defined]  # fetched with the list
    streams = streams_of(asset)
    if len(parts) == 1:
        return [{**base, "file": parts[0].path, "streams": streams}]
    rows: list[dict[str, Any]] = []
    for part, first, last in _cut(parts, begin, end):
        span: dict[str, Any] = {"in": first, "seconds": last - first}
        if rows:  # one item to people: it is reached, skipped and left out as a whole
            span |= {"key": f"{base['key']}.{part.number}", "fixed_at": [], "part_of": base["key"]}
        rows.append({**base, **span, "file": part.path, "streams": streams})
    return rows or [{**base, "file": ""}]


def _cut(parts: list[AssetPart], begin: float, end: float | None) -> list[tuple[AssetPart, float, float]]:
    """Which stretch of which part: the in and out points count through all of them."""
    found, at = [], 0.0
    for part in parts:
        first = max(0.0, begin - at)
        last = part.seconds if end is None else min(part.seconds, end - at)
        if last - first > 0.02:
            found.append((part, first, last))
        at += part.seconds
    return found


def streams_of(asset: Asset) -> str:
    """What it has, as far as its technical data say."""
    if not asset.technical:
        return "av"
    has = [name for name, kind in (("v", "pictures"), ("a", "sounds")) if asset.technical.get(kind)]
    return "".join(has) or "av"


def source_of(recorder: Recorder) -> tuple[dict[str, Any], list[str]]:
    """A recorder's source as a worker is told it, and the words that must never be printed."""
    secrets = recorder.secrets
    url = full_url(recorder.source_type, recorder.address, secrets)
    options = options_for(recorder.source_type, recorder.address)
    told = {"type": recorder.source_type, "url": url, "options": options, "size": recorder.picture_size}
    return told, words_to_redact(secrets)


def filler_of(channel: Channel) -> dict[str, Any] | None:
    asset = channel.filler
    if asset is None or not asset.is_usable:
        return None
    part = asset.parts.filter(is_readable=True).order_by("number").first()
    if part is None:
        return None
    told = {"key": "filler", "kind": "asset", "title": asset.title, "asset": asset.pk, "file": part.path}
    return {**told, "streams": streams_of(asset)}
