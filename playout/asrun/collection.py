"""Collects as-run entries from media workers, each once. Entries lost with a machine are closed with a note."""

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from assets.models import Asset
from nodes.models import Workload
from nodes.workloads.media_worker_client import WorkerSilent, fetch
from playout.lists.broadcast_days import begin_of, day_of
from playout.lists.list_timing import plan_of
from playout.models import AsRunEntry, Channel, PlaylistItem
from worker.wire.asrun import AsRunPage, AsRunRecord
from worker.wire.status import PlayoutStatus

logger = logging.getLogger(__name__)

# One check must be short, so a long backlog is collected over many checks.
ROUNDS = 2
NEVER_REPORTED = "its end was never reported"

# The planned time of each item, by list. It is computed once for all entries.
Plans = dict[int, dict[int, datetime | None]]


def collect(channel: Channel, workload: Workload, *, is_last: bool = False) -> int:
    """Copy new entries and return their number. If the media worker does not answer, the next check asks again.

    With `is_last` it is asked even if its status reports nothing new: an item may have begun since.
    """
    if channel.asrun_generation != workload.generation:
        channel.asrun_generation, channel.asrun_revision = workload.generation, 0
    if workload.status(PlayoutStatus).asrun_revision <= channel.asrun_revision and not is_last:
        return 0
    count = 0
    plans: Plans = {}
    for _ in range(ROUNDS):
        try:
            answer = fetch(workload, f"/asrun?since={channel.asrun_revision}", AsRunPage)
        except WorkerSilent:
            break
        entries = sorted(answer.entries, key=lambda entry: (entry.generation, entry.seq))
        with transaction.atomic():
            # Lock the channel first, like the code that moves it and closes its entries, or the two can deadlock.
            Channel.objects.select_for_update(no_key=True).get(pk=channel.pk)
            for entry in entries:
                write(channel, entry, plans)
            channel.asrun_revision = answer.revision
            Channel.objects.filter(pk=channel.pk).update(
                asrun_generation=channel.asrun_generation, asrun_revision=channel.asrun_revision
            )
        count += len(entries)
        if answer.is_all:
            break
    return count


def write(channel: Channel, record: AsRunRecord, plans: Plans) -> None:
    """Store one entry, or update it."""
    started_at, ended_at = record.started_at, record.ended_at
    rows = AsRunEntry.objects.filter(channel=channel)
    known = rows.filter(generation=record.generation, seq=record.seq).first()
    if known is not None and known.ended_at is not None and (ended_at is None or known.frames == record.frames):
        return  # reported again; or the media worker died and we have closed the entry
    if ended_at is None and rows.filter(generation__gt=record.generation).exists():
        # The media worker ended without reporting the end. The number of frames sent is known.
        ended_at = started_at + timedelta(seconds=record.frames / float(channel.rate))
        record = replace(record, reason="lost", note=NEVER_REPORTED)
    elif ended_at is None:
        for row in rows.filter(ended_at=None).exclude(generation=record.generation, seq=record.seq):
            end = max(started_at, row.started_at)
            if row.generation != record.generation:  # the channel was off air between the two
                end = min(end, row.started_at + timedelta(seconds=row.frames / float(channel.rate)))
            rows.filter(pk=row.pk, ended_at=None).update(ended_at=end, reason="lost", note=NEVER_REPORTED)
    item = PlaylistItem.objects.select_related("playlist").filter(pk=_item_id(record.key)).first()
    asset = Asset.objects.filter(pk=record.asset).first() if record.asset else None
    values: dict[str, Any] = {
        "kind": record.kind,
        "title": record.title[:200],
        "item": item,
        "asset": asset,
        "started_at": started_at,
        "ended_at": ended_at,
        "from_seconds": record.from_seconds,
        "frames": record.frames,
        "repeats": record.repeats,
        "reason": record.reason,
        "note": record.note,
    }
    if known is None:
        values["planned_at"] = planned_at(item, started_at, plans)
    AsRunEntry.objects.update_or_create(channel=channel, generation=record.generation, seq=record.seq, defaults=values)


def _item_id(key: str) -> int:
    whole = key.partition(".")[0]
    return int(whole) if whole.isdigit() else 0


def planned_at(item: PlaylistItem | None, now: datetime, plans: Plans) -> datetime | None:
    """The planned start of the item, if its list is for a day."""
    if item is None or item.playlist.on is None or item.inserted_at is not None:
        return None
    if item.playlist_id not in plans:
        rows = plan_of(item.playlist, now).rows
        plans[item.playlist_id] = {row.item.pk: row.starts_at for row in rows}
    return plans[item.playlist_id].get(item.pk)


def close_open(channel: Channel, at: datetime, reason: str, note: str) -> int:
    """Close the open entry of a channel whose media worker ended at that time."""
    rows = AsRunEntry.objects.filter(channel=channel, ended_at=None)
    return sum(
        AsRunEntry.objects.filter(pk=row.pk, ended_at=None).update(
            ended_at=max(at, row.started_at), reason=reason, note=note
        )
        for row in rows
    )


def today(channel: Channel, now: datetime, count: int = 12) -> list[AsRunEntry]:
    """The newest entries of this broadcast day."""
    begin = begin_of(day_of(now)) - timedelta(minutes=1)
    return list(AsRunEntry.objects.filter(channel=channel, started_at__gte=begin)[:count])
