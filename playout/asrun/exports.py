"""Exports the as-run log of a broadcast day and the programme guide of the coming days (P-10)."""

import csv
import io
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

from django.db.models import Q

from playout.lists.broadcast_days import begin_of, day_of
from playout.lists.list_timing import plan_of
from playout.models import AsRunEntry, Channel, Playlist
from station.clock import house_zone

COLUMNS = ("planned", "began", "ended", "zone", "seconds", "title", "kind", "asset", "reason", "difference", "note")
EXACT = ("began_utc", "ended_utc")
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
    """For spreadsheets: house time without fractions, which they read as times in every language, and its offset.

    The exact times are in the columns in UTC; a spreadsheet keeps those as text.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS + EXACT, lineterminator="\r\n")
    writer.writeheader()
    for entry in entries:
        writer.writerow({name: _harmless(value) for name, value in _csv_row(entry).items()})
    return out.getvalue()


def _csv_row(entry: AsRunEntry) -> dict[str, Any]:
    began = entry.started_at.astimezone(house_zone())
    times = {"planned": entry.planned_at, "began": began, "ended": entry.ended_at}
    shown = {name: moment.astimezone(house_zone()) if moment else None for name, moment in times.items()}
    return {
        **row_of(entry),
        **{name: f"{moment:%Y-%m-%d %H:%M:%S}" if moment else None for name, moment in shown.items()},
        "zone": f"UTC{began.isoformat()[-6:]}",  # “+01:00” alone would be a formula
        "began_utc": _exact(entry.started_at),
        "ended_utc": _exact(entry.ended_at) if entry.ended_at else None,
    }


def _exact(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _harmless(value: Any) -> Any:
    """Keep a spreadsheet from running a title as a formula (S-06)."""
    return f"'{value}" if isinstance(value, str) and value.startswith(RISKY) else value


def as_xmltv(channel: Channel, now: datetime, days: int = 7) -> bytes:
    """The lists of the coming days as a programme guide."""
    root = ElementTree.Element("tv", {"generator-info-name": "Airlock"})
    name = f"channel-{channel.pk}.airlock"
    element = ElementTree.SubElement(root, "channel", {"id": name})
    ElementTree.SubElement(element, "display-name").text = printable(channel.name) or name
    first = day_of(now)
    lists = Playlist.objects.filter(channel=channel, on__gte=first, on__lt=first + timedelta(days=days)).order_by("on")
    begun = [(row, row.starts_at) for playlist in lists for row in plan_of(playlist, now).rows if row.starts_at]
    for number, (row, starts_at) in enumerate(begun):
        following = begun[number + 1][1] if number + 1 < len(begun) else None
        # An item that is cut by a fixed start or by the next day ends there.
        ends_at = min((moment for moment in (row.ends_at, following) if moment is not None), default=None)
        if ends_at is None or _stamp(ends_at) == _stamp(starts_at) or ends_at < starts_at:
            continue
        times = {"start": _stamp(starts_at), "stop": _stamp(ends_at), "channel": name}
        programme = ElementTree.SubElement(root, "programme", times)
        title = printable(row.item.shown_title) or str(row.item.get_kind_display())
        ElementTree.SubElement(programme, "title").text = title
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def printable(text: str) -> str:
    """In one line, without control characters, which XML does not allow."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _stamp(moment: datetime) -> str:
    return moment.astimezone(house_zone()).strftime("%Y%m%d%H%M%S %z")
