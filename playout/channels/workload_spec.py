"""The workload of a channel: where it may run, its media worker's configuration, and the ports it reserves."""

from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import transaction

from nodes import workloads
from nodes.machines.placement import MEGABYTE, Needs, place
from nodes.machines.ports import hold, port_of, release
from nodes.models import Node, Workload
from playout.channels.outputs import OutputType, monitored_source, output_config, port_needed
from playout.channels.port_watch import check_bookings_again
from playout.lists.reservations import watch_soon
from playout.lists.rundown import PreparedList, filler_of, rundown_of
from playout.models import Channel, ChannelOutput
from scheduling.recorders.sources import words_to_redact
from scheduling.recording.workload_spec import DECKLINK_DEVICE
from station.folders import PLAYOUT_FOLDER, PREVIEW_FOLDER
from worker.wire import codec
from worker.wire.configuration import PlayoutConfig
from worker.wire.picture import Format

WAITING = (Channel.State.STARTING, Channel.State.FAILING_OVER)
# A channel is not started on a port that somebody else needs within this time. One that was on air is.
START_MARGIN = timedelta(minutes=10)


def preview_folder(channel: Channel) -> str:
    return f"{PREVIEW_FOLDER}/{channel.pk}"


def ask_for_worker(channel: Channel, now: datetime, *, avoid: frozenset[int], node: Node | None) -> Workload | None:
    """Choose a node, reserve the ports and write the intent; None if the channel's state has changed.

    Raises NoPlace, PortTaken, NoControlPort or CannotOpen.
    """
    current = workloads.latest(channel.owner)
    if current and current.is_wanted_and_live:
        return current
    outputs = [output for output in channel.outputs.all() if output.is_active]
    needs = needs_of(channel, now, node=node, avoid=avoid)
    config = config_of(channel, outputs, rundown_of(channel, now))
    return place(needs, now, partial(_want, channel, config, now))


def _want(channel: Channel, config: PlayoutConfig, now: datetime, node: Node) -> Workload | None:
    with transaction.atomic():
        # Lock the channel: if it were stopped before the intent is written, a media worker would run for nothing.
        if (
            not Channel.objects.select_for_update(no_key=True)
            .filter(pk=channel.pk, state__in=WAITING, is_wanted=True)
            .exists()
        ):
            return None
        current = workloads.latest(channel.owner)
        if current and current.is_wanted_and_live:
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


def needs_of(
    channel: Channel, now: datetime, *, node: Node | None = None, avoid: frozenset[int] = frozenset()
) -> Needs:
    """What the channel needs from a node: `node`, else the one it is bound to, else any."""
    return Needs(
        owner=channel.owner,
        labels=frozenset(channel.node_labels.split()),
        node=node or channel.node,
        ports=ports_of(channel),
        until=now + _margin(channel),
        avoid=avoid,
    )


def _hold_ports(channel: Channel, node: Node, ports: tuple[tuple[str, int], ...], now: datetime) -> None:
    """Hold the ports until the channel is off air, or until a booking that was there before needs them (R-14)."""
    release(channel.owner, now=now)
    for kind, number in sorted(ports):
        hold(
            port_of(node, kind, number),
            owner=channel.owner,
            holder=f"channel {channel}",
            now=now,
            at_least=_margin(channel),
            project=channel.project,
        )
    check_bookings_again(channel, now)
    watch_soon([channel], now)


def _margin(channel: Channel) -> timedelta:
    return START_MARGIN if channel.state == Channel.State.STARTING else timedelta(0)


def config_of(channel: Channel, outputs: list[ChannelOutput], prepared: PreparedList) -> PlayoutConfig:
    width, height = channel.size
    cards = [DECKLINK_DEVICE.format(output.address) for output in outputs if output.type == OutputType.DECKLINK]
    sealed = [(each, each.secrets) for each in outputs]
    words = {word for _, secrets in sealed for word in words_to_redact(secrets)}
    monitored = next((each for each in outputs if each.monitored_at), None)
    if monitored:
        words |= set(words_to_redact(monitored.monitored_secrets))
    return PlayoutConfig(
        format=Format(width, height, channel.rate, channel.fit),
        outputs=tuple(
            output_config(str(each.pk), each.type, each.address, secrets, channel.pk, each.constant_bitrate)
            for each, secrets in sealed
        ),
        rundown=prepared.rundown,
        sources=prepared.sources,
        monitored=monitored_source(monitored.monitored_at, monitored.monitored_secrets) if monitored else None,
        filler=filler_of(channel),
        resume=channel.read_place(),
        slate=channel.slate,
        pause=channel.pause,
        preview=preview_folder(channel) if settings.WORKER_PREVIEW else "",
        spool=f"{PLAYOUT_FOLDER}/channel-{channel.pk}",
        video_bitrate=channel.video_bitrate,
        service_name=channel.name,
        service_provider=channel.project.name if channel.project else "",
        isolation_seconds=channel.isolation_seconds,
        min_free_bytes=settings.MIN_FREE_DISK_MB * MEGABYTE,
        devices=tuple(cards),
        secrets=tuple(sorted({*words, *prepared.redact}, key=len, reverse=True)),
    )
