"""Reads playlist files of other systems: M3U, XSPF, CSV (comma, semicolon, tab), JSON, and ffplayout's JSON (P-12)."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from station.clock.lengths import seconds_of

MOST_BYTES = 2 * 1024 * 1024
MOST_LINES = 2000  # the most items of a list that a channel plays
MOST_TITLE = 200
ENDINGS = ".m3u, .m3u8, .xspf, .csv, .tsv, .txt or .json"
COLUMNS = {
    "asset": ("asset", "id", "number"),
    "file": ("file", "filename", "file name", "path", "source", "location"),
    "title": ("title", "name"),
    "in": ("in", "tc in", "mark in", "in point"),
    "out": ("out", "tc out", "mark out", "out point"),
}
NAMING = ("asset", "file", "title")


class NotReadable(Exception):
    """The file cannot be read. The text says why."""


@dataclass(frozen=True)
class Wanted:
    """One entry of the file. `line` is shown in messages; `asset` is a number of the library."""

    line: int
    asset: str = ""
    file: str = ""
    title: str = ""
    in_seconds: float = 0.0
    out_seconds: float | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        return self.asset or self.file or self.title

    @property
    def path(self) -> str:
        """The file's path with slashes, without the host or drive of an address."""
        is_address = "://" in self.file
        # Not urlsplit: it raises for a line like "http://[".
        return (unquote(re.split(r"[?#]", self.file)[0]) if is_address else self.file).replace("\\", "/")


@dataclass(frozen=True)
class PlaylistFile:
    """The entries of a file, and the day that it is for, if it says so."""

    entries: list[Wanted]
    on: date | None = None


def read(name: str, content: bytes, rate: Fraction | None = None) -> PlaylistFile:
    """Read the file by its ending; `rate` is for timecodes with frames. Raises NotReadable."""
    if len(content) > MOST_BYTES:
        raise NotReadable(f"The file is larger than {MOST_BYTES // 1024 // 1024} MB.")
    readers: dict[str, Callable[[str, Fraction | None], Iterable[Wanted]]] = {
        "m3u": _m3u,
        "m3u8": _m3u,
        "xspf": _xspf,
        "csv": _csv,
        "tsv": _csv,
        "txt": _csv,
        "json": _json,
    }
    reader = readers.get(name.rpartition(".")[2].lower())
    if reader is None:
        raise NotReadable(f"The name must end in {ENDINGS}.")
    text = _text(content)
    found = list(reader(text, rate))
    if not found:
        raise NotReadable("There is no entry in the file.")
    if len(found) > MOST_LINES:
        raise NotReadable(f"There are more than {MOST_LINES} entries in the file.")
    return PlaylistFile(found, _day_of(text) if reader is _json else None)


def _text(content: bytes) -> str:
    """UTF-8, UTF-16 with a byte order mark (Excel's “Unicode text”), or Windows-1252."""
    names = ["utf-16"] if content[:2] in {b"\xff\xfe", b"\xfe\xff"} else ["utf-8-sig", "cp1252"]
    for name in names:
        try:
            text = content.decode(name)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise NotReadable("The file is not text in UTF-8, UTF-16 or Windows-1252.")


def _m3u(text: str, rate: Fraction | None) -> Iterator[Wanted]:
    title = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.upper().startswith("#EXTINF:"):
            # Attributes in quotes may have commas: #EXTINF:-1 group="a,b",The title
            title = re.sub(r'"[^"]*"', "", line).partition(",")[2].strip()
        elif line and not line.startswith("#"):
            yield Wanted(number, file=line, title=title[:MOST_TITLE])
            title = ""


def _xspf(text: str, rate: Fraction | None) -> Iterator[Wanted]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise NotReadable("A document type or entities are not allowed.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  (no entities: refused above)
    except (ElementTree.ParseError, ValueError) as error:
        raise NotReadable(f"This is not XSPF: {error}.") from error
    space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    for number, track in enumerate(root.iter(f"{space}track"), 1):
        location = (track.findtext(f"{space}location") or "").strip()
        title = (track.findtext(f"{space}title") or "").strip()
        problem = "" if location or title else "The track has neither location nor title."
        yield Wanted(number, file=location, title=title[:MOST_TITLE], problem=problem)


def _csv(text: str, rate: Fraction | None) -> Iterator[Wanted]:
    head = next((line for line in text.splitlines() if line.strip()), "")
    hint = re.match(r"^sep=(.)$", head.strip())  # Excel's own first line
    delimiter = hint[1] if hint else max(",;\t", key=head.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    filled = (row for row in rows if any(cell.strip() for cell in row))
    try:
        if hint:
            next(filled)
        names = [_column(cell) for cell in next(filled, [])]
        if not set(NAMING) & set(names):
            raise NotReadable("The first line must name the columns, with one of asset, title or file (and in, out).")
        for row in filled:
            cells = {name: cell for name, cell in zip(names, row, strict=False) if name}
            yield _entry(rows.line_num, cells, rate)
    except csv.Error as error:
        raise NotReadable(f"Line {rows.line_num}: {error}.") from error


def _column(text: str) -> str:
    plain = " ".join(text.strip().lower().replace("_", " ").split())
    return next((name for name, spellings in COLUMNS.items() if plain in spellings), "")


def _json(text: str, rate: Fraction | None) -> Iterator[Wanted]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotReadable(f"This is not JSON: {error}.") from error
    rows = content.get("items", content.get("program")) if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise NotReadable("A list of items is expected, or an object with “items” or “program” (ffplayout).")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            yield Wanted(number, problem="This is not an object.")
            continue
        named = {_column(str(key)): value for key, value in row.items()}
        # ffplayout writes an out point for every clip; at the clip's end it is none.
        length, out = row.get("duration"), named.get("out")
        if isinstance(length, int | float) and isinstance(out, int | float) and out >= length:
            named["out"] = None
        yield _entry(number, named, rate)


def _day_of(text: str) -> date | None:
    content = json.loads(text)
    try:
        return date.fromisoformat(content["date"])
    except (KeyError, TypeError, ValueError):
        return None


def _entry(line: int, row: dict[str, Any], rate: Fraction | None) -> Wanted:
    asset, file, title = (str(row.get(name) or "").strip() for name in NAMING)
    if not (asset or file or title):
        return Wanted(line, problem="It has no asset, file or title.")
    if asset and not (asset.isascii() and asset.isdigit()):  # a title in the column “asset”
        asset, title = "", title or asset
    begin, end, problem = 0.0, None, ""
    try:
        begin, end = seconds_of(row.get("in"), rate) or 0.0, seconds_of(row.get("out"), rate)
    except ValueError as error:
        problem = str(error)
    return Wanted(line, asset, file, title[:MOST_TITLE], begin, end, problem)
