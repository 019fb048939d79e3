"""What a booking asks of a node: where it may run, the configuration of its media worker, and the port it holds."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from nodes import workloads
from nodes.machines.placement import Needs, lacks_room, place
from nodes.machines.ports import port_of, release, reserve
from nodes.models import Node, Workload
from scheduling.models import Booking
from scheduling.recorders.file_names import Values, file_name, render_folder
from scheduling.recorders.sources import SourceType, port_needed, wire_source, words_to_redact
from scheduling.recording.disk_forecast import bytes_needed
from station.alerts import raise_alert
from station.clock import house_zone
from station.folders import PREVIEW_FOLDER
from worker.wire import codec
from worker.wire.configuration import CaptureConfig, Source
from worker.wire.status import CaptureStatus

MEGABYTE = 1024 * 1024
DECKLINK_DEVICE = "/dev/blackmagic/io{}"


def ask_for_worker(booking: Booking, now: datetime) -> Workload | None:
    """Choose a node, hold the port, write the intent; None if the booking has changed state.

    Raises NoPlace, PortTaken, NoControlPort or CannotOpen.
    """
    previous = workloads.latest(booking.owner)
    if previous and previous.is_wanted_and_live:
        return previous
    needs = needs_of(booking, previous)
    source = source_of(booking)

    def want(node: Node) -> Workload | None:
        if lacks_room(node, needs):
            _warn_of_room(booking, node, needs, now)
        return _want(booking, node, previous, source, now)

    return place(needs, now, want)


def _want(booking: Booking, node: Node, previous: Workload | None, source: Source, now: datetime) -> Workload | None:
    with transaction.atomic():
        # Locked: if the booking ended between this check and the intent, a media worker would run without a booking.
        still = (
            Booking.objects.select_for_update(no_key=True).filter(pk=booking.pk, state=Booking.State.STARTING).first()
        )
        if still is None:
            return None
        # It may have been extended since it was read: the media worker gets the current window.
        booking.opens_at, booking.closes_at = still.opens_at, still.closes_at
        current = workloads.latest(booking.owner)
        if current and current.is_wanted_and_live:
            return current  # another process was faster and holds the port
        _hold_port(booking, node, now)
        spec, secret = codec.split(config_of(booking, previous, source))
        return workloads.want(
            booking.owner,
            node=node,
            program="capture",
            spec=spec,
            secret=secret,
            now=now,
            project=booking.recorder.project,
            epoch=booking.epoch,
        )


def _warn_of_room(booking: Booking, node: Node, needs: Needs, now: datetime) -> None:
    """Warn before the disk is full; the booking is recorded as far as there is space (R-18)."""
    free, wanted = (node.free_bytes or 0) // MEGABYTE, needs.room_bytes // MEGABYTE
    raise_alert(
        f"disk_forecast:{booking.owner}",
        f"{booking}: not enough disk space on {node.name}",
        now=now,
        text=f"{free} MB are free, about {wanted} MB are needed. The recording ends when the disk is full.",
        subject=booking.owner,
        project=booking.recorder.project,
    )


def needs_of(booking: Booking, previous: Workload | None = None) -> Needs:
    """What this booking needs from a node."""
    recorder = booking.recorder
    return Needs(
        owner=booking.owner,
        labels=frozenset(recorder.node_labels.split()),
        node=recorder.node,
        ports=(port,) if (port := port_needed(recorder.source_type, recorder.address)) else (),
        until=booking.closes_at,
        avoid=frozenset([previous.node_id]) if previous else frozenset(),
        since=booking.opens_at,
        room_bytes=bytes_needed(booking),
    )


def _hold_port(booking: Booking, node: Node, now: datetime) -> None:
    needed = port_needed(booking.recorder.source_type, booking.recorder.address)
    port = port_of(node, *needed) if needed else None
    release(booking.owner, now=now, except_port=port)
    if port:
        reserve(
            port,
            owner=booking.owner,
            holder=f"{booking.recorder} (booking {booking.pk})",
            starts_at=booking.opens_at,
            ends_at=booking.closes_at,
            project=booking.recorder.project,
        )


def name_files(booking: Booking) -> tuple[str, str]:
    """Folder and file name, fixed at the first start so that all parts are in one folder."""
    if booking.folder:
        return booking.folder, booking.file_name
    recorder = booking.recorder
    values: Values = {
        "project": recorder.project.slug if recorder.project else "station",
        "recorder": recorder.name,
        "booking": booking.pk,
        "starts_at": booking.starts_at.astimezone(house_zone()),
    }
    folder, name = render_folder(recorder.folder_template, values), file_name(values)
    Booking.objects.filter(pk=booking.pk, folder="").update(folder=folder, file_name=name)
    booking.folder, booking.file_name = folder, name
    return folder, name


def config_of(booking: Booking, previous: Workload | None, source: Source) -> CaptureConfig:
    recorder = booking.recorder
    folder, name = name_files(booking)
    # Parts of all generations on all nodes: a number is never used twice.
    reported = previous.status(CaptureStatus).parts if previous else ()
    is_card = recorder.source_type == SourceType.DECKLINK
    return CaptureConfig(
        source=source,
        folder=folder,
        name=name,
        container=recorder.container,
        begins_at=booking.opens_at,
        ends_at=booking.closes_at,
        first_part=max((part.number for part in [*booking.read_parts(), *reported]), default=0) + 1,
        preview=f"{PREVIEW_FOLDER}/booking-{booking.pk}" if settings.WORKER_PREVIEW else "",
        video_bitrate=recorder.video_bitrate,
        min_free_bytes=settings.MIN_FREE_DISK_MB * MEGABYTE // 2,
        split_seconds=recorder.split_minutes * 60,
        split_offset_seconds=_house_offset_seconds(booking.starts_at),
        programme=recorder.programme or 0,
        follows=_follows(booking),
        devices=(DECKLINK_DEVICE.format(recorder.address),) if is_card else (),
        secrets=tuple(words_to_redact(recorder.secrets)),
    )


def _follows(booking: Booking) -> bool:
    """Another booking of this recorder ends where this one begins: nothing may be lost at the border."""
    others = Booking.objects.active().filter(recorder=booking.recorder, closes_at=booking.opens_at)
    return others.exclude(pk=booking.pk).exists()


def _house_offset_seconds(moment: datetime) -> int:
    """How far house time is ahead of UTC: files are split at the quarter hours of house time."""
    offset = moment.astimezone(house_zone()).utcoffset()
    return int(offset.total_seconds()) if offset else 0


def source_of(booking: Booking) -> Source:
    """The source as the media worker receives it, secrets included. Raises CannotOpen."""
    recorder = booking.recorder
    return wire_source(recorder.source_type, recorder.address, recorder.secrets, recorder.picture_size)
