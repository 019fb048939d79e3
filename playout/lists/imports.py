"""Imports playlists from M3U, XSPF, CSV and JSON files. A preview comes first; all items are saved, or none (P-12)."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from django.core.exceptions import ValidationError
from django.db import transaction

from assets.models import Asset
from playout.lists.copies import keep_known
from playout.lists.reservations import ListChange
from playout.models import Playlist, PlaylistItem
from station.clock.lengths import seconds_of

MOST_BYTES = 2 * 1024 * 1024
MOST_LINES = 2000  # the most items of a list that a channel plays


class NotReadable(Exception):
    """The file cannot be read. The text says why."""


@dataclass(frozen=True)
class Wanted:
    """One entry of the file. `line` is shown in error messages."""

    line: int
    name: str
    title: str = ""
    in_seconds: float = 0.0
    out_seconds: float | None = None
    problem: str = ""


@dataclass
class Preview:
    """The items that would be saved, and the problems that prevent it."""

    items: list[PlaylistItem] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return bool(self.items) and not self.problems


def read(name: str, content: bytes) -> list[Wanted]:
    """Read the file by its file extension. Raises NotReadable."""
    if len(content) > MOST_BYTES:
        raise NotReadable(f"The file is larger than {MOST_BYTES // 1024 // 1024} MB.")
    readers: dict[str, Callable[[str], Iterable[Wanted]]] = {
        "m3u": _m3u,
        "m3u8": _m3u,
        "xspf": _xspf,
        "csv": _csv,
        "json": _json,
    }
    reader = readers.get(name.rpartition(".")[2].lower())
    if reader is None:
        raise NotReadable("The name must end in .m3u, .m3u8, .xspf, .csv or .json.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotReadable(f"The file is not UTF-8 (byte {error.start}).") from error
    found = list(reader(text))
    if not found:
        raise NotReadable("There is no entry in the file.")
    if len(found) > MOST_LINES:
        raise NotReadable(f"There are more than {MOST_LINES} entries in the file.")
    return found


def look(wanted: list[Wanted], assets: Any) -> Preview:
    """Find each entry in `assets` (those the user may use). List the line and reason of each that is not found."""
    preview = Preview()
    usable = assets.filter(pk__in=Asset.objects.usable().values("pk"))
    for position, entry in enumerate(wanted):
        asset, problem = (None, entry.problem) if entry.problem else _find(usable, entry.name)
        if not problem and asset is not None:
            item = PlaylistItem(
                position=position,
                asset=asset,
                title=entry.title if entry.title != asset.title else "",
                in_seconds=entry.in_seconds,
                out_seconds=entry.out_seconds,
            )
            problem = _why_not(item)
            preview.items.append(item)
        if problem:
            preview.problems.append((entry.line, problem))
    return preview


def save(preview: Preview, playlist: Playlist, now: datetime) -> int:
    """Replace all items of the list in one transaction."""
    if not preview.is_good:
        raise ValueError("a list with problems is not saved")
    with transaction.atomic():
        change = ListChange(playlist, now)
        for item in preview.items:
            item.playlist = playlist
        gone = keep_known(playlist, preview.items)
        PlaylistItem.objects.filter(pk__in=[row.pk for row in gone]).delete()
        PlaylistItem.objects.bulk_update([item for item in preview.items if item.pk], ["position"])
        PlaylistItem.objects.bulk_create([item for item in preview.items if not item.pk])
        change.finish(playlist)
    return len(preview.items)


def _find(assets: Any, name: str) -> tuple[Asset | None, str]:
    """Find an asset by number, file name or title. Several matches are an error."""
    if name.isdecimal() and (found := assets.filter(pk=int(name[:18])).first()):
        return found, ""
    # The end of a path or of a URL. Not urlsplit: it raises for a line like "http://[".
    file = unquote(re.split(r"[?#]", name)[0] if "://" in name else name).replace("\\", "/").rpartition("/")[2]
    for rows in (assets.filter(title=name), assets.filter(parts__path__endswith=f"/{file}").distinct()):
        matches = list(rows[:2])
        if len(matches) == 1:
            return matches[0], ""
        if matches:
            return None, f"“{name}” is ambiguous: several assets have this name."
    return None, f"“{name}” is not in the library or not ready."


def _why_not(item: PlaylistItem) -> str:
    try:
        item.clean()
        item.clean_fields(exclude=["playlist"])
    except ValidationError as error:
        return " ".join(error.messages)
    return ""


def _m3u(text: str) -> Iterator[Wanted]:
    title = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.upper().startswith("#EXTINF:"):
            title = line.partition(",")[2].strip()
        elif line and not line.startswith("#"):
            yield Wanted(number, line, title)
            title = ""


def _xspf(text: str) -> Iterator[Wanted]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise NotReadable("A document type or entities are not allowed.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  (no entities: refused above)
    except ElementTree.ParseError as error:
        raise NotReadable(f"This is not XSPF: {error}.") from error
    space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    for number, track in enumerate(root.iter(f"{space}track"), 1):
        location = (track.findtext(f"{space}location") or "").strip()
        title = (track.findtext(f"{space}title") or "").strip()
        problem = "" if location or title else "The track has neither location nor title."
        yield Wanted(number, location or title, title, problem=problem)


def _csv(text: str) -> Iterator[Wanted]:
    rows = csv.DictReader(io.StringIO(text))
    if not rows.fieldnames or not {"asset", "title", "file"} & set(rows.fieldnames):
        raise NotReadable("The first line must name the columns, with one of asset, title or file (and in, out).")
    try:
        for row in rows:
            yield _entry(rows.line_num, row)
    except csv.Error as error:
        raise NotReadable(f"Line {rows.line_num}: {error}.") from error


def _json(text: str) -> Iterator[Wanted]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotReadable(f"This is not JSON: {error}.") from error
    rows = content.get("items") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise NotReadable("A list of items is expected, or an object with “items”.")
    for number, row in enumerate(rows, 1):
        yield _entry(number, row) if isinstance(row, dict) else Wanted(number, "", problem="This is not an object.")


def _entry(line: int, row: dict[str, Any]) -> Wanted:
    name = str(row.get("asset") or row.get("file") or row.get("title") or "").strip()
    if not name:
        return Wanted(line, "", problem="It has no asset, file or title.")
    try:
        begin = seconds_of(row.get("in"))
        end = seconds_of(row.get("out"))
    except ValueError as error:
        return Wanted(line, name, problem=str(error))
    return Wanted(line, name, str(row.get("title") or "").strip()[:200], begin or 0.0, end)
