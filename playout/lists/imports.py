"""Imports playlists from files of other systems. A preview comes first; all items are saved, or none (P-12)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from assets.models import Asset
from playout.lists.copies import keep_known
from playout.lists.import_formats import MOST_BYTES, NotReadable, PlaylistFile, Wanted, read
from playout.lists.import_matching import Match, find
from playout.lists.reservations import ListChange
from playout.models import Playlist, PlaylistItem

__all__ = ["LEFT_OUT", "MOST_BYTES", "NotReadable", "Preview", "Row", "look", "read", "save"]

# A person's choice for a line of the file: an asset, or this.
LEFT_OUT = 0


@dataclass(frozen=True)
class Row:
    """One entry, the item that it becomes, and what is wrong with it. `candidates` are offered to the user."""

    wanted: Wanted
    item: PlaylistItem | None = None
    problem: str = ""
    candidates: list[Asset] = field(default_factory=list)
    chosen: int | None = None

    @property
    def line(self) -> int:
        return self.wanted.line

    @property
    def is_left_out(self) -> bool:
        return self.chosen == LEFT_OUT

    @property
    def typed(self) -> str:
        """The number of an asset that was not among the candidates."""
        is_typed = self.chosen and self.chosen not in {asset.pk for asset in self.candidates}
        return str(self.chosen) if is_typed else ""


@dataclass
class Preview:
    """The items that would be saved, and the problems that prevent it."""

    rows: list[Row] = field(default_factory=list)

    @property
    def items(self) -> list[PlaylistItem]:
        return [row.item for row in self.rows if row.item is not None]

    @property
    def problems(self) -> list[tuple[int, str]]:
        return [(row.line, row.problem) for row in self.rows if row.problem]

    @property
    def is_good(self) -> bool:
        return bool(self.items) and not self.problems


def look(file: PlaylistFile, assets: Any, choices: Mapping[int, int] | None = None) -> Preview:
    """Find each entry in `assets` (those the user may use). `choices` are a person's, by line; they win."""
    usable = assets.filter(pk__in=Asset.objects.usable().values("pk"))
    choices = choices or {}
    by_hand = {row.pk: row for row in usable.filter(pk__in=choices.values())}
    preview, count = Preview(), 0
    for entry, match in zip(file.entries, find(file.entries, usable), strict=True):
        chosen = choices.get(entry.line)
        if chosen == LEFT_OUT:
            preview.rows.append(Row(entry, candidates=match.candidates, chosen=LEFT_OUT))
            continue
        asset = by_hand.get(chosen) if chosen is not None else match.asset
        problem = entry.problem or ("" if asset else _why_none(entry, match, chosen))
        item = _item(entry, asset, count) if asset is not None and not problem else None
        if item is not None and not (problem := _why_not(item)):
            count += 1
        preview.rows.append(Row(entry, None if problem else item, problem, match.candidates, chosen))
    return preview


def _item(entry: Wanted, asset: Asset, position: int) -> PlaylistItem:
    return PlaylistItem(
        position=position,
        asset=asset,
        title=entry.title if entry.title != asset.title else "",
        in_seconds=entry.in_seconds,
        out_seconds=entry.out_seconds,
    )


def _why_none(entry: Wanted, match: Match, chosen: int | None) -> str:
    if chosen is not None:
        return f"There is no asset {chosen} that you can use here."
    if match.is_ambiguous:
        return f"“{entry.name}” is ambiguous: several assets have this name."
    return f"“{entry.name}” is not in the library or not ready."


def save(preview: Preview, playlist: Playlist, now: datetime) -> int:
    """Replace all items of the list in one transaction."""
    if not preview.is_good:
        raise ValueError("a list with problems is not saved")
    items = preview.items
    with transaction.atomic():
        change = ListChange(playlist, now)
        for item in items:
            item.playlist = playlist
        gone = keep_known(playlist, items)
        PlaylistItem.objects.filter(pk__in=[row.pk for row in gone]).delete()
        PlaylistItem.objects.bulk_update([item for item in items if item.pk], ["position"])
        PlaylistItem.objects.bulk_create([item for item in items if not item.pk])
        change.finish(playlist)
    return len(items)


def _why_not(item: PlaylistItem) -> str:
    try:
        item.clean()
        item.clean_fields(exclude=["playlist"])
    except ValidationError as error:
        return " ".join(error.messages)
    return ""
