"""Exports the as-run log of a broadcast day and the programme guide of the coming days (P-10)."""

import csv
import io
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

from django.db.models import Q

from playout.lists.broadcast_days import begin_of, day_of
from playout.lists.list_timing import plan_of
from playout.models import AsRunEntry, Channel, Playlist
from station.clock import house_zone

COLUMNS = ("planned", "began", "ended", "seconds", "title", "kind", "asset", "reason", "difference", "note")
# A spreadsheet treats text that begins like this as a formula.
RISKY = ("=", "+", "-", "@", "\t", "\r")


def entries_of(channel: Channel, day: date) -> list[AsRunEntry]:
    """The entries of a broadcast day in order, including one that began before and was still on air."""
    begin, end = begin_of(day), begin_of(day + timedelta(days=1))
    rows = AsRunEntry.objects.filter(channel=channel, started_at__lt=end)
    rows = rows.filter(Q(started_at__gte=begin) | Q(ended_at__gt=begin) | Q(ended_at=None))
    return list(rows.select_related("asset").order_by("started_at", "generation", "seq"))


def row_of(entry: AsRunEntry) -> dict[str, Any]:
    seconds = (entry.ended_at - entry.started_at).total_seconds() if entry.ended_at else None
    late = (entry.started_at - entry.planned_at).total_seconds() if entry.planned_at else None
    return {
        "planned": _local(entry.planned_at),
        "began": _local(entry.started_at),
        "ended": _local(entry.ended_at),
        "seconds": round(seconds, 3) if seconds is not None else None,
        "title": entry.title,
        "kind": entry.kind,
        "asset": entry.asset_id,
        "reason": entry.reason_word,
        "difference": round(late, 3) if late is not None else None,
        "note": entry.note,
    }


def _local(moment: datetime | None) -> str | None:
    return moment.astimezone(house_zone()).isoformat(timespec="milliseconds") if moment else None


def as_csv(entries: Iterable[AsRunEntry]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for entry in entries:
        writer.writerow({name: _harmless(value) for name, value in row_of(entry).items()})
    return out.getvalue()


def _harmless(value: Any) -> Any:
    """Keep a spreadsheet from running a title as a formula (S-06)."""
    return f"'{value}" if isinstance(value, str) and value.startswith(RISKY) else value


def as_xmltv(channel: Channel, now: datetime, days: int = 7) -> bytes:
    """The lists of the coming days as a programme guide."""
    root = ElementTree.Element("tv", {"generator-info-name": "Airlock"})
    name = f"channel-{channel.pk}.airlock"
    element = ElementTree.SubElement(root, "channel", {"id": name})
    ElementTree.SubElement(element, "display-name").text = printable(channel.name)
    first = day_of(now)
    lists = Playlist.objects.filter(channel=channel, on__gte=first, on__lt=first + timedelta(days=days)).order_by("on")
    begun = [(row, row.starts_at) for playlist in lists for row in plan_of(playlist, now).rows if row.starts_at]
    for number, (row, starts_at) in enumerate(begun):
        following = begun[number + 1][1] if number + 1 < len(begun) else None
        # An item that is cut by a fixed start or by the next day ends there.
        ends_at = min((moment for moment in (row.ends_at, following) if moment is not None), default=None)
        if ends_at is None or ends_at <= starts_at:
            continue
        times = {"start": _stamp(starts_at), "stop": _stamp(ends_at), "channel": name}
        programme = ElementTree.SubElement(root, "programme", times)
        ElementTree.SubElement(programme, "title").text = printable(row.item.shown_title)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def printable(text: str) -> str:
    """Remove control characters, which XML does not allow."""
    return "".join(char for char in text if char.isprintable() or char == " ")


def _stamp(moment: datetime) -> str:
    return moment.astimezone(house_zone()).strftime("%Y%m%d%H%M%S %z")
