"""The HTTP API of playlists: times and warnings; create, change, fill, delete."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Router, Schema, Status
from ninja.errors import HttpError

from assets.models import Asset
from playout.lists.copies import keep_known
from playout.lists.list_timing import plan_of
from playout.lists.reservations import ListChange, ListClash
from playout.lists.rundown import MOST_ITEMS
from playout.models import Channel, Playlist, PlaylistItem
from scheduling.models import Recorder
from station import audit
from station.api_support import CONFLICT, by, check, one, project_of, remove, store, visible
from station.clock import database_now

playlists = Router(tags=["playlists"])


class ItemOut(Schema):
    id: int
    kind: str
    title: str
    asset: int | None
    in_seconds: float
    seconds: float | None
    starts_at: datetime | None
    warnings: list[str]


class PlaylistOut(Schema):
    id: int
    name: str
    channel: int | None
    on: date | None
    is_loop: bool


class PlaylistDetail(PlaylistOut):
    seconds: float
    items: list[ItemOut]


class PlaylistChange(Schema):
    """Fields that are left out stay unchanged."""

    name: str | None = None
    channel: int | None = None
    on: date | None = None
    is_loop: bool | None = None


class PlaylistIn(PlaylistChange):
    name: str
    project: str


class ItemIn(Schema):
    kind: str = "asset"
    asset: int | None = None
    source: int | None = None
    title: str = ""
    in_seconds: float = 0.0
    out_seconds: float | None = None
    length_seconds: float | None = None
    start_time: time | None = None
    start: str = "cut"
    max_late_seconds: int | None = None


class ItemsIn(Schema):
    items: list[ItemIn] = Field(max_length=MOST_ITEMS)


@playlists.get("/", response=list[PlaylistOut])
def list_playlists(request: HttpRequest, channel: int | None = None, on: date | None = None) -> list[PlaylistOut]:
    rows = visible(Playlist.objects.all(), request)
    rows = rows.filter(channel=channel) if channel is not None else rows
    rows = rows.filter(on=on) if on is not None else rows
    return [PlaylistOut(**_head(row)) for row in rows]


@playlists.get("/{pk}", response=PlaylistDetail)
def get_playlist(request: HttpRequest, pk: int) -> PlaylistDetail:
    """The list with its items, their planned times and warnings."""
    return _detail(one(Playlist.objects.all(), request, pk))


@playlists.post("/", response={201: PlaylistDetail})
def make_playlist(request: HttpRequest, wanted: PlaylistIn) -> Status[PlaylistDetail]:
    """The new list is empty; PUT its items. 422 says what is wrong."""
    playlist = Playlist(project=project_of(request, wanted.project, "playout.add_playlist"))
    _write(request, playlist, wanted, "add")
    return Status(201, _detail(playlist))


@playlists.patch("/{pk}", response=PlaylistDetail)
def change_playlist(request: HttpRequest, pk: int, wanted: PlaylistChange) -> PlaylistDetail:
    playlist = one(Playlist.objects.all(), request, pk)
    _write(request, playlist, wanted, "change")
    return _detail(playlist)


@playlists.put("/{pk}/items", response=PlaylistDetail)
def put_items(request: HttpRequest, pk: int, wanted: ItemsIn) -> PlaylistDetail:
    """Replace all items, in this order. All are stored, or none. A channel on air follows within seconds."""
    playlist = one(Playlist.objects.all(), request, pk)
    check(request, "playout.change_playlist", playlist)
    items = []
    for position, each in enumerate(wanted.items):
        values = each.dict()
        asset, source = values.pop("asset"), values.pop("source")
        item = PlaylistItem(playlist=playlist, position=position, **values)
        item.asset = one(Asset.objects.all(), request, asset) if asset is not None else None
        item.source = one(Recorder.objects.all(), request, source) if source is not None else None
        items.append(item)
    with _reserving(playlist):
        for row in keep_known(playlist, items):
            audit.record(by(request), "delete", row, before=audit.values_of(row))
            row.delete()
        for item in items:
            verb, where = "change" if item.pk else "add", f"item {item.position + 1}"
            store(request, item, verb, permission="playout.change_playlist", of=playlist, where=where)
    return _detail(playlist)


@playlists.delete("/{pk}", response={204: None})
def delete_playlist(request: HttpRequest, pk: int) -> Status[None]:
    """409 if a channel uses the list."""
    playlist = one(Playlist.objects.all(), request, pk)
    with _reserving(playlist, is_deleted=True):
        remove(request, playlist)
    return Status(204, None)


def _write(request: HttpRequest, playlist: Playlist, wanted: PlaylistChange, verb: str) -> None:
    given = wanted.dict(exclude_unset=True, exclude={"project"})
    if given.get("channel") is not None:
        given["channel"] = one(Channel.objects.all(), request, given["channel"])
    for name, value in given.items():
        setattr(playlist, name, value)
    with _reserving(playlist):
        store(request, playlist, verb, fields=list(given) if verb == "change" else None)


@contextmanager
def _reserving(playlist: Playlist, *, is_deleted: bool = False) -> Iterator[None]:
    """Change the list and the reservations of its live items, or nothing: 409 names who has a device or port (P-15)."""
    try:
        with transaction.atomic():
            change = ListChange(playlist, database_now())
            yield
            change.finish(None if is_deleted else playlist)
    except ListClash as clash:
        raise HttpError(CONFLICT, str(clash)) from clash


def _detail(playlist: Playlist) -> PlaylistDetail:
    planned = plan_of(playlist, timezone.now())
    items = [
        ItemOut(
            id=row.item.pk,
            kind=row.item.kind,
            title=row.item.shown_title,
            asset=row.item.asset_id,
            in_seconds=row.item.in_seconds,
            seconds=row.item.seconds,
            starts_at=row.starts_at,
            warnings=list(row.warnings),
        )
        for row in planned.rows
    ]
    return PlaylistDetail(**_head(playlist), seconds=planned.seconds, items=items)


def _head(playlist: Playlist) -> dict[str, Any]:
    names = ("name", "on", "is_loop")
    return {"id": playlist.pk, "channel": playlist.channel_id, **{name: getattr(playlist, name) for name in names}}
