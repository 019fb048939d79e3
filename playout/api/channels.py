"""The HTTP API of channels: status, actions, as-run; create, change, delete."""

from datetime import date, datetime
from typing import Any, Literal

from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Router, Schema, Status
from ninja.errors import HttpError

from assets.models import Asset
from nodes import workloads
from nodes.models import Node
from playout.asrun import exports
from playout.channels import controls
from playout.lists.broadcast_days import day_of, is_plannable
from playout.lists.reservations import settle, watch_soon
from playout.models import Channel, ChannelOutput, Playlist, PlaylistItem
from station.api_support import (
    CONFLICT,
    UNPROCESSABLE,
    Answer,
    answer,
    check,
    one,
    project_of,
    remove,
    store,
    validate,
    visible,
)
from station.clock import database_now
from worker.wire import codec
from worker.wire.status import PlayoutStatus

channels = Router(tags=["channels"])


class ChannelOut(Schema):
    id: int
    name: str
    project: str | None
    is_wanted: bool
    state: str
    since: datetime
    node: str | None
    item: dict[str, Any] | None
    next: dict[str, Any] | None
    outputs: list[dict[str, Any]]
    restart_count: int
    error: str


class OutputIn(Schema):
    """Secrets are part of the address and are sealed when it is stored."""

    type: str
    address: str
    constant_bitrate: str = ""
    monitored_at: str = ""
    is_active: bool = True


class ChannelChange(Schema):
    """Fields that are left out stay unchanged. `outputs` replaces all outputs. Takes effect at the next start."""

    name: str | None = None
    playlist: int | None = None
    filler: int | None = None
    picture: str | None = None
    fit: str | None = None
    video_bitrate: str | None = None
    loudness_lufs: float | None = None
    slate: str | None = None
    pause: str | None = None
    isolation_seconds: int | None = None
    node: int | None = None
    node_labels: str | None = None
    outputs: list[OutputIn] | None = None


class ChannelIn(ChannelChange):
    name: str
    project: str


class CueIn(Schema):
    item: int
    take: bool = False


class InsertIn(Schema):
    asset: int
    in_seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    out_seconds: float | None = Field(None, gt=0, allow_inf_nan=False)
    take: bool = False


def channel_out(channel: Channel) -> ChannelOut:
    workload = workloads.latest(channel.owner)
    is_up = workload is not None and not workload.is_over and bool(workload.progress)
    status = workload.status(PlayoutStatus) if workload is not None and is_up else None
    return ChannelOut(
        id=channel.pk,
        name=channel.name,
        project=channel.project.slug if channel.project else None,
        is_wanted=channel.is_wanted,
        state=channel.state,
        since=channel.state_since_at,
        node=workload.node.name if workload is not None and is_up else None,
        item=codec.encode_object(status.item) if status and status.item else None,
        next=codec.encode_object(status.next) if status and status.next else None,
        outputs=[codec.encode_object(output) for output in status.outputs] if status else [],
        restart_count=channel.restart_count,
        error=channel.error,
    )


@channels.get("/", response=list[ChannelOut])
def list_channels(request: HttpRequest) -> list[ChannelOut]:
    """All channels that you may see."""
    return [channel_out(row) for row in visible(Channel.objects.select_related("project"), request)]


@channels.get("/{pk}", response=ChannelOut)
def get_channel(request: HttpRequest, pk: int) -> ChannelOut:
    return channel_out(one(Channel.objects.all(), request, pk))


@channels.post("/", response={201: ChannelOut})
def make_channel(request: HttpRequest, wanted: ChannelIn) -> Status[ChannelOut]:
    """The new channel is off air. 422 says what is wrong."""
    channel = Channel(project=project_of(request, wanted.project, "playout.add_channel"), state_since_at=timezone.now())
    _write(request, channel, wanted, "add")
    return Status(201, channel_out(channel))


@channels.patch("/{pk}", response=ChannelOut)
def change_channel(request: HttpRequest, pk: int, wanted: ChannelChange) -> ChannelOut:
    channel = one(Channel.objects.all(), request, pk)
    _write(request, channel, wanted, "change")
    return channel_out(channel)


@channels.delete("/{pk}", response={204: None})
def delete_channel(request: HttpRequest, pk: int) -> Status[None]:
    """Only a channel that was never on air can be deleted: the others keep their as-run log."""
    channel = one(Channel.objects.all(), request, pk)
    if channel.is_wanted or channel.state != Channel.State.OFF_AIR or channel.asrun.exists():
        raise HttpError(CONFLICT, f"{channel} is or was on air. Its as-run log must be kept.")
    if channel.playlists.exists():
        raise HttpError(CONFLICT, f"{channel} has lists of its own. Delete them first.")
    remove(request, channel)
    return Status(204, None)


RELATED = {"playlist": Playlist, "filler": Asset, "node": Node}


def _write(request: HttpRequest, channel: Channel, wanted: ChannelChange, verb: str) -> None:
    given = wanted.dict(exclude_unset=True, exclude={"outputs", "project"})
    for name, value in given.items():
        rows = RELATED[name]._default_manager.all() if name in RELATED else None
        setattr(channel, name, one(rows, request, value) if rows is not None and value is not None else value)
    with transaction.atomic():
        store(request, channel, verb, fields=list(given) if verb == "change" else None)
        if wanted.outputs is not None:
            check(request, "playout.change_channel", channel)
            channel.outputs.all().delete()
            for each in wanted.outputs:
                output = ChannelOutput(channel=channel, **each.dict())
                store(request, output, "add", permission="playout.change_channel", of=channel)
        elif "video_bitrate" in given:  # is there still room for it in a constant bitrate?
            for output in channel.outputs.exclude(constant_bitrate=""):
                output.channel = channel
                validate(output, f"output {output}")
        settle(channel, database_now())  # its node or its list may be another one
        watch_soon([channel], database_now())


@channels.post("/{pk}/cue", response=Answer)
def cue(request: HttpRequest, pk: int, cued: CueIn) -> Answer:
    """Play this item next, or with `take` now."""
    channel = one(Channel.objects.all(), request, pk)
    item = one(PlaylistItem.objects.all(), request, cued.item)
    return answer(request, controls.cue, channel, item=item, take=cued.take)


@channels.post("/{pk}/insert", response=Answer)
def insert(request: HttpRequest, pk: int, wanted: InsertIn) -> Answer:
    """Insert a clip after the item on air, or with `take` now. It also needs the permission to change the list."""
    channel = one(Channel.objects.all(), request, pk)
    asset = one(Asset.objects.all(), request, wanted.asset)
    return answer(request, controls.insert, channel, **{**wanted.dict(), "asset": asset})


@channels.get("/{pk}/as-run")
def as_run(request: HttpRequest, pk: int, day: date | None = None) -> dict[str, Any]:
    """The as-run log of a broadcast day (default: today)."""
    channel = one(Channel.objects.all(), request, pk)
    on = day or day_of(timezone.now())
    if not is_plannable(on):
        raise HttpError(UNPROCESSABLE, f"There is no as-run log for {on}.")
    rows = [exports.row_of(entry) for entry in exports.entries_of(channel, on)]
    return {"channel": channel.name, "day": on.isoformat(), "entries": rows}


@channels.post("/{pk}/{word}", response=Answer)
def steer(request: HttpRequest, pk: int, word: Literal["start", "stop", "play", "pause", "skip", "move"]) -> Answer:
    """The same actions as the buttons. 409 with the reason if the action is not possible."""
    return answer(request, controls.TRANSPORT[word], one(Channel.objects.all(), request, pk))
