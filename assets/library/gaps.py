"""What is missing from an asset: its completeness, and its gaps after its files were read."""

import itertools
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from assets.models import Asset, AssetPart
from scheduling.models import Booking
from worker.wire import codec
from worker.wire.parts_and_gaps import Gap, Part, find_gaps, missing_seconds, with_edges


def completeness(parts: list[Part], gaps: list[Gap], wanted_from: datetime, wanted_until: datetime) -> float:
    """The recorded share of the window, in percent."""
    wanted = (wanted_until - wanted_from).total_seconds()
    if wanted <= 0:
        return 100.0
    missing = min(missing_seconds(parts, gaps, wanted_from, wanted_until), wanted)
    return round(100 * (1 - missing / wanted), 3)


def refine(asset: Asset, lengths: dict[int, tuple[int, float]]) -> dict[str, Any]:
    """Correct the frames and seconds of parts whose ffmpeg did not end cleanly, from the files themselves.

    Returns the asset's changed columns: gaps and completeness follow from the parts.
    """
    if (not lengths and asset.is_complete) or asset.wanted_from_at is None or asset.wanted_until_at is None:
        return {}
    parts: list[Part] = []
    for part in asset.parts.order_by("number"):
        if part.number in lengths and part.first_frame_at is not None:
            part.frames, part.seconds = lengths[part.number]
            part.last_frame_at = part.first_frame_at + timedelta(seconds=part.seconds)
            part.save(update_fields=["frames", "seconds", "last_frame_at"])
        parts.append(_recorded(part))
    for before, after in itertools.pairwise(parts):  # count overlapping media once
        if before.last_frame_at and after.first_frame_at:
            before.last_frame_at = min(before.last_frame_at, after.first_frame_at)
    window, tolerated = (asset.wanted_from_at, asset.wanted_until_at), settings.TOLERATED_GAP_SECONDS
    gaps = with_edges(parts, find_gaps(parts, asset.read_gaps()), *window, tolerated_seconds=tolerated)
    missing = missing_seconds(parts, gaps, *window)
    return {
        "gaps": codec.encode(gaps),
        "is_complete": _was_complete(asset) and missing <= tolerated,
        "frames": sum(part.frames for part in parts),
        "completeness_percent": completeness(parts, gaps, *window),
    }


def _recorded(part: AssetPart) -> Part:
    """An asset's part in the form that the media worker reports."""
    return Part(
        number=part.number,
        file=part.path,
        first_frame_at=part.first_frame_at,
        last_frame_at=part.last_frame_at,
        frames=part.frames,
        bytes=part.size_bytes,
        seconds=part.seconds,
        end_reason=part.end_reason,
        node=part.node_id,
    )


def _was_complete(asset: Asset) -> bool:
    """By the booking, if there is one: a part that was missing in an earlier run may be available now."""
    if asset.booking is None:
        return asset.is_complete
    return asset.booking.state == Booking.State.COMPLETED
