"""The asset of a booking: created at the first byte, updated while the recording grows, filed when it ends.

The booking's lifecycle calls `follow` (see BOOKING_FOLLOWERS). `step` finds by index what a crash left undone. Both may
be called any number of times by any number of processes.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction

from assets.library.gaps import completeness
from assets.models import Asset, AssetPart
from assets.processing import steps
from nodes import workloads
from scheduling.models import Booking
from scheduling.recording.outcome import DISK_FULL
from station.alerts import raise_alert, resolve_alert
from station.clock import house_zone, is_pretended
from station.leader_term import Term
from station.models.alert import Severity
from station.states import SCHEDULER, sql_list
from worker.wire import codec
from worker.wire.parts_and_gaps import EDGES, Part, with_edges

logger = logging.getLogger(__name__)

State = Asset.State
SYNC = timedelta(seconds=10)
LOOK = timedelta(seconds=10)
PER_STEP = 50
WITH = ("recorder", "recorder__project")
DUE_SQL = f"""SELECT clock_timestamp() WHERE
    EXISTS (SELECT FROM assets_asset WHERE state IN ({sql_list(Asset.GROWING)}))
    OR EXISTS (SELECT FROM assets_assetstep WHERE done_at IS NULL AND failed_at IS NULL)
    OR EXISTS (SELECT FROM scheduling_booking WHERE filed_at IS NULL AND size_bytes > 0
               AND state IN ({sql_list(Booking.LEAVES_FILES)}))"""  # noqa: S608  (our own states)


def step(term: Term, now: datetime) -> datetime | None:
    """File recordings that ended, report stale assets, and settle processing; one asset's error stops no other."""
    for booking in Booking.objects.to_file().select_related(*WITH).order_by("id")[:PER_STEP]:
        _alone(booking.owner, partial(file, booking, now))
    for asset in Asset.objects.live().filter(state_since_at__lt=now - settings.LIVE_ASSET_TIMEOUT):
        _alone(asset.owner, partial(alert_if_stale, asset, now))
    for pk in steps.unsettled(PER_STEP):
        _alone(f"asset:{pk}", partial(steps.sweep, pk, now))
    is_anything_going_on = Asset.objects.filter(state__in=Asset.live_states()).exists() or steps.is_under_way()
    return now + LOOK if is_anything_going_on or Booking.objects.to_file().exists() else None


def _alone(what: str, act: Callable[[], object]) -> None:
    """A-04: an error in one asset does not stop the others."""
    try:
        act()
    except (OperationalError, InterfaceError):
        raise  # the database is unavailable
    except Exception:  # the next step tries this asset again
        logger.exception("An asset could not be updated. what=%s", what)


def follow(booking: Booking, now: datetime) -> None:
    """Update the asset of a booking that was just updated (see BOOKING_FOLLOWERS)."""
    if not booking.size_bytes or booking.filed_at or is_pretended():
        return
    if booking.is_over:
        file(booking, now)
        return
    asset = Asset.objects.filter(booking=booking).first() or make(booking, now)
    if asset.state == State.ERROR and _is_moving(booking, now):
        asset.move(State.LIVE, now=now, note="the recording continues", error="")
        resolve_alert(f"stale:{asset.owner}", now=now, note="the recording continues")
    if asset.state == State.LIVE and _is_news(asset, booking, now):
        with transaction.atomic():
            # Another process may be filing it with newer data than ours: then skip this update.
            locked = Asset.objects.select_for_update(skip_locked=True).filter(pk=asset.pk, state=State.LIVE)
            if locked.first() is not None:
                sync(asset, booking, now)


def make(booking: Booking, now: datetime) -> Asset:
    """A-01: create the asset of a recording, live from its first byte."""
    name = booking.title or booking.recorder.name
    if (
        booking.schedule_id or booking.is_manual or not booking.title
    ):  # one of several: the start time distinguishes them
        name += f" {booking.starts_at.astimezone(house_zone()):%Y-%m-%d %H:%M}"
    asset, is_new = Asset.objects.get_or_create(
        booking=booking,
        defaults={
            "state": State.LIVE,
            "state_since_at": now,
            "project": booking.recorder.project,
            "title": name,
            "origin": Asset.Origin.RECORDING,
            "created_at": now,
            "created_by": booking.requested_by or SCHEDULER,
            "wanted_from_at": booking.opens_at,
            "wanted_until_at": booking.closes_at,
        },
    )
    if is_new:
        asset.events.create(at=now, old="", new=State.LIVE, by=SCHEDULER, note=f"recording of {booking}")
        logger.info("An asset is live. asset=%s booking=%s", asset.pk, booking.pk)
    return asset


def _is_news(asset: Asset, booking: Booking, now: datetime) -> bool:
    """Copy another part or gap at once, growth alone every few seconds."""
    counts = (len(booking.parts), len(booking.gaps))
    known = (asset.part_count, sum(gap.reason not in EDGES for gap in asset.read_gaps()))
    return asset.synced_at is None or now - asset.synced_at >= SYNC or counts != known


def sync(asset: Asset, booking: Booking, now: datetime) -> None:
    """Copy parts, gaps and completeness from the booking."""
    known = {part.number: part for part in asset.parts.all()}
    recorded, holes = booking.read_parts(), booking.read_gaps()
    for reported in recorded:
        values = _part_values(booking, reported)
        part = known.get(reported.number)
        if part is None:
            AssetPart.objects.create(asset=asset, number=reported.number, **values)
        elif any(
            getattr(part, name) != value for name, value in values.items()
        ):  # of thousands of parts only the last one grows
            AssetPart.objects.filter(pk=part.pk).update(**values)
    until = min(told_to_stop_at(booking) or now, booking.closes_at)
    end, tolerated = until if booking.is_over else None, settings.TOLERATED_GAP_SECONDS
    gaps = with_edges(recorded, holes, booking.opens_at, end, tolerated_seconds=tolerated)
    changes = {
        "synced_at": now,
        "part_count": len(recorded),
        "gaps": codec.encode(gaps),
        "wanted_from_at": booking.opens_at,
        "wanted_until_at": until if booking.is_over else booking.closes_at,
        "completeness_percent": completeness(recorded, holes, booking.opens_at, until),
        "size_bytes": booking.size_bytes,
        "frames": booking.frames,
        "duration_seconds": round(sum(part.seconds for part in recorded), 3),
    }
    changes = {name: value for name, value in changes.items() if getattr(asset, name) != value}
    Asset.objects.filter(pk=asset.pk).update(**changes)
    for name, value in changes.items():
        setattr(asset, name, value)


def _part_values(booking: Booking, reported: Part) -> dict[str, Any]:
    """The columns of an AssetPart, from a reported part."""
    return {
        "node_id": reported.node,
        "path": f"{booking.folder}/{reported.file}",
        "first_frame_at": reported.first_frame_at,
        "last_frame_at": reported.last_frame_at,
        "frames": reported.frames,
        "seconds": reported.seconds,
        "size_bytes": reported.bytes,
        "end_reason": reported.end_reason,
    }


def file(booking: Booking, now: datetime) -> None:
    """The recording is over: hand its files to processing, once, whichever process does it first."""
    asset = Asset.objects.filter(booking=booking).first() or make(booking, now)
    with transaction.atomic():
        locked = Asset.objects.select_for_update(skip_locked=True).filter(pk=asset.pk).first()
        if locked is None:
            return  # another process has the row; the next step finds it again
        asset = locked
        if not Booking.objects.filter(pk=booking.pk, filed_at=None).update(filed_at=now):
            return
        booking.filed_at = now
        if asset.state == State.DELETED:
            return
        sync(asset, booking, now)
        if asset.state not in {State.LIVE, State.ERROR}:  # processed by hand before its recording ended
            steps.order(asset, steps.FIRST, now=now, by=SCHEDULER)
            return
        is_complete = booking.state == Booking.State.COMPLETED
        note = f"the recording ended {booking.state_word}"
        if not asset.move(State.PROCESSING, now=now, note=note, is_complete=is_complete, error=""):
            return
        steps.order(asset, steps.FIRST, now=now, by=SCHEDULER)
        resolve_alert(f"stale:{asset.owner}", now=now, note="the recording ended")
    logger.info("A recording is filed. asset=%s booking=%s", asset.pk, booking.pk)


def told_to_stop_at(booking: Booking) -> datetime | None:
    """When the recording was asked to stop, by its end time or by hand. After a full disk: the end of its window."""
    if booking.outcome == DISK_FULL:
        return booking.closes_at
    stops = booking.events.filter(new__in=[Booking.State.STOPPING, Booking.State.CANCELLING])
    return stops.order_by("at").values_list("at", flat=True).first()


def last_progress_at(asset: Asset) -> datetime:
    """When the recording last made progress."""
    booking = asset.booking
    signs = [asset.state_since_at]
    if booking is not None:
        workload = workloads.latest(booking.owner)
        signs += [workload.progress_at] if workload and workload.progress_at else []
        signs += [part.last_frame_at for part in booking.read_parts() if part.last_frame_at]
    return max(signs)


def alert_if_stale(asset: Asset, now: datetime) -> bool:
    """A-02: a live asset without progress for long is an error. A recording that makes progress may take any time."""
    silent = now - last_progress_at(asset)
    if silent < settings.LIVE_ASSET_TIMEOUT:
        return False
    minutes = int(silent.total_seconds() // 60)
    note = f"nothing was recorded for {minutes} minutes"
    if not asset.move(State.ERROR, now=now, note=note, error=f"Live, but {note}."):
        return False
    raise_alert(
        f"stale:{asset.owner}",
        f"{asset} is live, but {note}",
        now=now,
        severity=Severity.CRITICAL,
        text="Check its booking and recorder. If the signal returns, the asset continues automatically.",
        subject=asset.owner,
        project=asset.project,
    )
    return True


def _is_moving(booking: Booking, now: datetime) -> bool:
    return any(part.last_frame_at and now - part.last_frame_at < SYNC for part in booking.read_parts())
