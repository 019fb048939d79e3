"""The timeline bar below the player: what was recorded, what is missing, and how it maps to media time."""

from dataclasses import asdict, dataclass
from typing import Any

from django.urls import reverse

from assets.files import locations
from assets.models import Asset, AssetPart
from station.clock import house_time

WIDTH = 1000.0


@dataclass(frozen=True)
class Stretch:
    """A piece of the bar: its position and its tooltip."""

    x: float
    width: float
    kind: str
    words: str


@dataclass(frozen=True)
class Segment:
    """A piece of media: its range on the bar (0 to 1) and its range in media seconds."""

    x0: float
    x1: float
    t0: float
    t1: float


def clock(seconds: float) -> str:
    """Seconds of media as text: 2:03.4, or 1:02:03 from one hour on."""
    whole = int(seconds)
    text = f"{whole // 60}:{whole % 60:02d}.{int(seconds * 10) % 10}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}" if whole >= 3600 else text


def segments_of(asset: Asset, parts: list[AssetPart]) -> list[Segment]:
    """Each part on the bar: by time of day for a recording, from zero for an imported file."""
    start, span = asset.wanted_from_at, asset.span
    done, result = 0.0, []
    if start is None or span is None or not span.total_seconds():
        total = sum(part.seconds for part in parts) or 1.0
        for part in parts:
            result.append(Segment(done / total, (done + part.seconds) / total, done, done + part.seconds))
            done += part.seconds
        return result
    whole = span.total_seconds()
    for part in parts:
        if part.first_frame_at is None or part.last_frame_at is None:
            done += part.seconds
            continue
        x0 = (part.first_frame_at - start).total_seconds() / whole
        x1 = (part.last_frame_at - start).total_seconds() / whole
        result.append(Segment(_bound(x0), _bound(x1), done, done + part.seconds))
        done += part.seconds
    return result


def x_of(segments: list[Segment], seconds: float) -> float | None:
    """The position of a media second on the bar, or None."""
    for each in segments:
        if each.t0 <= seconds <= each.t1 and each.t1 > each.t0:
            return each.x0 + (each.x1 - each.x0) * (seconds - each.t0) / (each.t1 - each.t0)
    return None


def stretches_of(asset: Asset, segments: list[Segment]) -> list[Stretch]:
    """Recorded parts, gaps, and black, silence and freeze."""
    found = [
        _stretch(each.x0, each.x1, "there", f"recorded, {clock(each.t0)} to {clock(each.t1)} of the media")
        for each in segments
    ]
    start, span = asset.wanted_from_at, asset.span
    if start is not None and span is not None and span.total_seconds():
        for gap in asset.read_gaps():
            x0, x1 = (gap.from_at - start) / span, (gap.to_at - start) / span
            words = f"missing: {gap.seconds:.1f} s from {house_time(gap.from_at)}, {gap.reason}"
            found.append(_stretch(_bound(x0), _bound(x1), "gap", words))
    for each in asset.findings:
        first, last = x_of(segments, each["from_seconds"]), x_of(segments, each["to_seconds"])
        if first is not None and last is not None:
            words = f"{each['kind']}, {clock(each['from_seconds'])} to {clock(each['to_seconds'])}"
            found.append(_stretch(first, last, each["kind"], words))
    return found


def context_of(asset: Asset) -> dict[str, Any]:
    """Template context of assets/media.html."""
    parts = list(asset.parts.order_by("number"))
    segments = segments_of(asset, parts)
    is_live = asset.state == Asset.State.LIVE and asset.booking_id is not None
    has_proxy = locations.product(asset.pk, locations.PROXY) is not None
    source = ""
    if is_live:
        source = reverse("media-live", args=[asset.booking_id, "index.m3u8"])
    elif has_proxy and asset.state != Asset.State.DELETED:
        source = reverse("media-product", args=[asset.pk, locations.PROXY])
    return {
        "asset": asset,
        "source": source,
        "is_live": is_live,
        "poster": _product_url(asset, locations.POSTER),
        "filmstrip": _product_url(asset, locations.FILMSTRIP),
        "stretches": stretches_of(asset, segments),
        "segments": [asdict(each) for each in segments],
        "from_words": house_time(asset.wanted_from_at) if asset.wanted_from_at else "0:00",
        "until_words": house_time(asset.wanted_until_at)
        if asset.wanted_until_at
        else clock(asset.duration_seconds or 0),
    }


def _product_url(asset: Asset, name: str) -> str:
    return reverse("media-product", args=[asset.pk, name]) if locations.product(asset.pk, name) else ""


def _stretch(x0: float, x1: float, kind: str, words: str) -> Stretch:
    return Stretch(round(x0 * WIDTH, 2), round(max((x1 - x0) * WIDTH, 1.5), 2), kind, words)


def _bound(x: float) -> float:
    return min(1.0, max(0.0, x))
