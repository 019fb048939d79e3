"""The workload of a channel: where it may run, its media worker's configuration, and the ports it reserves."""

import contextlib
from datetime import datetime

from django.conf import settings
from django.db import transaction

from nodes import workloads
from nodes.machines.placement import MEGABYTE, TRIES, Needs, NodeFull, NoPlace, choose
from nodes.machines.ports import port_of, release, reserve
from nodes.models import Node, Workload
from playout.channels.outputs import OutputType, output_config, port_needed
from playout.lists.rundown import PreparedList, filler_of, rundown_of
from playout.models import Channel, ChannelOutput
from scheduling.recorders.sources import words_to_redact
from scheduling.recording.workload_spec import DECKLINK_DEVICE
from station.folders import PLAYOUT_FOLDER, PREVIEW_FOLDER
from worker.wire import codec
from worker.wire.configuration import PlayoutConfig
from worker.wire.picture import Format

WAITING = (Channel.State.STARTING, Channel.State.FAILING_OVER)


def preview_folder(channel: Channel) -> str:
    return f"{PREVIEW_FOLDER}/{channel.pk}"


def ask_for_worker(channel: Channel, now: datetime, *, avoid: frozenset[int], node: Node | None) -> Workload | None:
    """Choose a node, reserve the ports and write the intent; None if the channel's state has changed.

    Raises NoPlace, PortTaken, NoControlPort or CannotOpen.
    """
    current = workloads.latest(channel.owner)
    if current and current.is_wanted and not current.is_over:
        return current
    outputs = [output for output in channel.outputs.all() if output.is_active]
    needs = needs_of(channel, node=node, avoid=avoid)
    config = config_of(channel, outputs, rundown_of(channel, now))
    for _ in range(TRIES):
        with contextlib.suppress(NodeFull):  # others chose it at the same time
            return _want(channel, choose(needs, now), config, now)
    raise NoPlace("Other workloads took every suitable node at the same time.")


def _want(channel: Channel, node: Node, config: PlayoutConfig, now: datetime) -> Workload | None:
    with transaction.atomic():
        # Lock the channel: if it were stopped before the intent is written, a media worker would run for nothing.
        if not Channel.objects.select_for_update().filter(pk=channel.pk, state__in=WAITING, is_wanted=True).exists():
            return None
        current = workloads.latest(channel.owner)
        if current and current.is_wanted and not current.is_over:
            return current  # another process was faster and has the ports
        _hold_ports(channel, node, ports_of(channel), now)
        spec, secret = codec.split(config)
        return workloads.want(
            channel.owner,
            node=node,
            program="playout",
            spec=spec,
            secret=secret,
            now=now,
            project=channel.project,
            supervision=supervision(),
        )


def supervision() -> workloads.Supervision:
    """A dead media worker is noticed within seconds, and one that may still send is fenced.

    A channel needs memory for raw frames: two seconds of 1080p50 for each of two items, and the encoder's.
    """
    return workloads.Supervision(
        poll_seconds=settings.PLAYOUT_POLL_SECONDS,
        silence_seconds=settings.PLAYOUT_SILENCE_SECONDS,
        is_fenced=True,
        memory_mb=settings.PLAYOUT_MEMORY_MB,
    )


def ports_of(channel: Channel) -> tuple[tuple[str, int], ...]:
    """The cards and listening ports of its outputs, which only one workload may use on a node."""
    outputs = [output for output in channel.outputs.all() if output.is_active]
    return tuple(port for output in outputs if (port := port_needed(output.type, output.address)))


def needs_of(channel: Channel, *, node: Node | None = None, avoid: frozenset[int] = frozenset()) -> Needs:
    """What the channel needs from a node: `node`, else the one it is bound to, else any."""
    return Needs(
        owner=channel.owner,
        labels=frozenset(channel.node_labels.split()),
        node=node or channel.node,
        ports=ports_of(channel),
        avoid=avoid,
    )


def _hold_ports(channel: Channel, node: Node, ports: tuple[tuple[str, int], ...], now: datetime) -> None:
    """Reserve the ports until the channel is off air, as for recorders (R-14)."""
    release(channel.owner, now=now)
    for kind, number in ports:
        reserve(
            port_of(node, kind, number),
            owner=channel.owner,
            holder=f"channel {channel}",
            starts_at=now,
            ends_at=None,
            project=channel.project,
        )


def config_of(channel: Channel, outputs: list[ChannelOutput], prepared: PreparedList) -> PlayoutConfig:
    width, height = channel.size
    cards = [DECKLINK_DEVICE.format(output.address) for output in outputs if output.type == OutputType.DECKLINK]
    sealed = [(each, each.secrets) for each in outputs]
    words = {word for _, secrets in sealed for word in words_to_redact(secrets)}
    return PlayoutConfig(
        format=Format(width, height, channel.rate),
        outputs=tuple(
            output_config(str(each.pk), each.type, each.address, secrets, channel.pk) for each, secrets in sealed
        ),
        rundown=prepared.rundown,
        sources=prepared.sources,
        filler=filler_of(channel),
        resume=channel.read_place(),
        slate=channel.slate,
        pause=channel.pause,
        preview=preview_folder(channel) if settings.WORKER_PREVIEW else "",
        spool=f"{PLAYOUT_FOLDER}/channel-{channel.pk}",
        video_bitrate=channel.video_bitrate,
        isolation_seconds=channel.isolation_seconds,
        min_free_bytes=settings.MIN_FREE_DISK_MB * MEGABYTE,
        devices=tuple(cards),
        secrets=tuple(sorted({*words, *prepared.redact}, key=len, reverse=True)),
    )
