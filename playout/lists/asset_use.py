"""Finds the lists and channels that use an asset, and replaces it (see assets/library/usage.py)."""

from collections.abc import Iterable
from typing import Any

from django.urls import reverse

from assets.library.usage import Use
from assets.models import Asset
from playout.models import Channel, PlaylistItem
from station import audit


class PlaylistUse:
    """An entry of ASSET_USERS."""

    @staticmethod
    def uses_of(asset_ids: Iterable[int]) -> list[Use]:
        wanted = list(asset_ids)
        items = PlaylistItem.objects.filter(asset__in=wanted).select_related("playlist")
        uses = [
            Use(item.asset_id or 0, f"playlist {item.playlist}", _page("playlist", item.playlist_id)) for item in items
        ]
        fillers = Channel.objects.filter(filler__in=wanted)
        uses += [Use(each.filler_id or 0, f"filler of {each}", _page("channel", each.pk)) for each in fillers]
        return list(dict.fromkeys(uses))

    @staticmethod
    def replace(asset: Asset, other: Asset, *, by: str) -> int:
        count = 0
        for item in PlaylistItem.objects.filter(asset=asset).select_related("playlist"):
            changes: dict[str, Any] = {"asset": other}
            if other.duration_seconds and item.in_seconds >= other.duration_seconds:
                changes |= {"in_seconds": 0.0, "out_seconds": None}  # the new clip is shorter than the old in point
            PlaylistItem.objects.filter(pk=item.pk).update(**changes)
            audit.record(by, "replace", item.playlist, before={"asset": str(asset)}, after={"asset": str(other)})
            count += 1
        return count + Channel.objects.filter(filler=asset).update(filler=other)


def _page(model: str, pk: int) -> str:
    return reverse(f"admin:playout_{model}_change", args=[pk])
