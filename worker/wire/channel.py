"""What a playout worker is told: format, outputs, what to play, and where to go on. Read into values, never printed."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from worker.wire.configuration import ConfigError, Control, Source, inside
from worker.wire.picture import Format

KINDS = ("asset", "growing", "live", "slate")
OUTPUT_TYPES = ("srt", "rtmp", "udp", "rtp", "hls", "file", "decklink")
MOST_ITEMS = 5000


@dataclass(frozen=True)
class Output:
    """`url` holds no secret; `secret` are ffmpeg's options by name, and reach it outside of its command line."""

    key: str
    type: str
    url: str
    options: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Item:
    """One line of the list. Moments are seconds since the epoch, spans seconds."""

    key: str
    kind: str
    title: str
    asset: int | None = None
    file: Path | None = None
    journal: Path | None = None
    in_seconds: float = 0.0
    seconds: float | None = None  # None: as long as it is
    streams: str = "av"
    source: Source | None = None
    fixed_at: tuple[float, ...] = ()
    is_cut: bool = True
    max_late_seconds: float | None = None
    part_of: str = ""  # of a later part of a recording: the key of its first


@dataclass(frozen=True)
class Rundown:
    """What is to be played, in order. `begins_at`: the first item belongs at that moment (a list for a day)."""

    version: str
    items: tuple[Item, ...] = ()
    is_loop: bool = False
    begins_at: float | None = None
    # The list that takes over at that moment, whether anybody tells us again or not.
    following: "Rundown | None" = None
    following_at: float | None = None


@dataclass(frozen=True)
class Resume:
    """Where an earlier worker was: `offset_seconds` into the item at the moment `at`."""

    key: str
    offset_seconds: float
    at: float
    is_paused: bool = False


@dataclass(frozen=True)
class PlayoutConfig:
    control: Control
    media: Path
    format: Format
    outputs: tuple[Output, ...]
    rundown: Rundown
    filler: Item | None
    resume: Resume | None
    slate: str
    pause: str
    preview: Path | None
    spool: Path
    video_bitrate: str
    audio_bitrate: str
    isolation_seconds: float | None
    secrets: tuple[str, ...] = field(repr=False)
    min_free_bytes: int = 0


def moment(text: str) -> float:
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError("a moment needs a zone")
    return parsed.timestamp()


def parse_playout(line: str) -> PlayoutConfig:
    """Raises ConfigError; its text holds nothing of the config."""
    try:
        raw: dict[str, Any] = json.loads(line)
        media = Path(os.environ.get("AIRLOCK_MEDIA", "/media"))
        control = Control(**raw["control"])
        picture = raw["format"]
        sources = raw.get("sources") or {}
        config = PlayoutConfig(
            control=control,
            media=media,
            format=Format(int(picture["width"]), int(picture["height"]), Fraction(*picture["rate"])),
            outputs=tuple(_output(each, media) for each in raw.get("outputs", ())),
            rundown=parse_rundown(raw["rundown"], media, sources),
            filler=_item(raw["filler"], media, sources) if raw.get("filler") else None,
            resume=_resume(raw.get("resume")),
            slate=raw.get("slate", "bars"),
            pause=raw.get("pause", "hold"),
            preview=inside(media, raw["preview"]) if raw.get("preview") else None,
            spool=inside(media, raw["spool"]),
            video_bitrate=raw.get("video_bitrate", "4M"),
            audio_bitrate=raw.get("audio_bitrate", "192k"),
            isolation_seconds=raw.get("isolation_seconds"),
            min_free_bytes=int(raw.get("min_free_bytes", 0)),
            secrets=tuple(raw.get("secrets", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{type(error).__name__} in the config") from None
    if config.format.width % 2 or config.format.height % 2 or not 1 <= config.format.rate <= 120:
        raise ConfigError("a format that cannot be")
    return config


def parse_rundown(raw: dict[str, Any], media: Path, sources: Mapping[str, Any]) -> Rundown:
    """Also what POST /load brings. Raises ValueError, KeyError, TypeError or ConfigError."""
    items = raw["items"]
    if len(items) > MOST_ITEMS:
        raise ConfigError(f"more than {MOST_ITEMS} items")
    parsed = tuple(_item(each, media, sources) for each in items)
    if len({item.key for item in parsed}) != len(parsed):
        raise ConfigError("two items of one key")
    begins_at = moment(raw["begins_at"]) if raw.get("begins_at") else None
    following = parse_rundown(raw["following"], media, sources) if raw.get("following") else None
    at = moment(raw["following_at"]) if following is not None else None
    return Rundown(str(raw["version"]), parsed, bool(raw.get("loop")), begins_at, following, at)


def _item(raw: dict[str, Any], media: Path, sources: Mapping[str, Any]) -> Item:
    kind = raw["kind"]
    if kind not in KINDS:
        raise ConfigError("an unknown kind of item")
    key = str(raw["key"])
    source = Source(**{**raw.get("source", {}), **sources.get(key, {})}) if kind == "live" else None
    seconds = raw.get("seconds")
    return Item(
        key=key,
        kind=kind,
        title=str(raw.get("title", "")),
        asset=raw.get("asset"),
        file=inside(media, raw["file"]) if raw.get("file") else None,
        journal=inside(media, raw["journal"]) if raw.get("journal") else None,
        in_seconds=max(0.0, float(raw.get("in", 0.0))),
        seconds=max(0.0, float(seconds)) if seconds is not None else None,
        streams=raw.get("streams") or "av",
        source=source,
        fixed_at=tuple(sorted(moment(each) for each in raw.get("fixed_at", ()))),
        is_cut=raw.get("start", "cut") == "cut",
        max_late_seconds=raw.get("max_late_seconds"),
        part_of=str(raw.get("part_of") or ""),
    )


def _output(raw: dict[str, Any], media: Path) -> Output:
    if raw["type"] not in OUTPUT_TYPES:
        raise ConfigError("an unknown type of output")
    url = str(raw["url"])
    if raw["type"] in {"hls", "file"}:
        url = str(inside(media, url))
    return Output(str(raw["key"]), raw["type"], url, raw.get("options") or {}, raw.get("secret") or {})


def _resume(raw: dict[str, Any] | None) -> Resume | None:
    if not raw:
        return None
    return Resume(str(raw["key"]), float(raw["offset_seconds"]), moment(raw["at"]), bool(raw.get("is_paused")))
