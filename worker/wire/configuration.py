"""The one line of JSON a worker gets on standard input, read into values. It is secret and never printed."""

import json
import os
import select
import sys
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

WAIT_SECONDS = 15.0
MOMENTS = ("begins_at", "ends_at")


class ConfigError(Exception):
    """The config is missing or makes no sense."""


@dataclass(frozen=True)
class Control:
    """Where the worker answers, and to whom."""

    owner: str
    generation: int
    token: str = field(repr=False)
    host: str
    port: int


@dataclass(frozen=True)
class Source:
    """`type` is one of worker.media.sources.TYPES; `url` may hold secrets; `options` are ffmpeg's, by name."""

    type: str
    url: str = field(repr=False)
    options: dict[str, str] = field(default_factory=dict)
    size: str = "1280x720"
    rate: str = "25"


@dataclass(frozen=True)
class CaptureConfig:
    control: Control
    source: Source
    media: Path
    folder: str
    name: str
    container: str
    ends_at: datetime | None
    begins_at: datetime | None
    first_part: int
    preview: str
    video_bitrate: str
    min_free_bytes: int
    split_seconds: int  # 0: one file
    split_offset_seconds: int  # house time ahead of UTC
    secrets: tuple[str, ...] = field(repr=False)


def read_line(wait_seconds: float = WAIT_SECONDS) -> str | None:
    """The config line, or None when nobody hands one over in time: then whoever started us is gone."""
    ready, _, _ = select.select([sys.stdin], [], [], wait_seconds)
    if not ready:
        return None
    line = sys.stdin.readline()
    return line if line.endswith("\n") else None


def inside(root: Path, relative: str) -> Path:
    """A path below `root`; anything that would leave it is an error (S-04)."""
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ConfigError("a path in the config leaves the media folder")
    return path


def parse_capture(line: str) -> CaptureConfig:
    try:
        raw: dict[str, Any] = json.loads(line)
        media = Path(os.environ.get("AIRLOCK_MEDIA", "/media"))
        begins_at, ends_at = (datetime.fromisoformat(raw[name]) if raw.get(name) else None for name in MOMENTS)
        config = CaptureConfig(
            control=Control(**raw["control"]),
            source=Source(**raw["source"]),
            media=media,
            folder=raw["folder"],
            name=raw["name"],
            container=raw.get("container", "mpegts"),
            ends_at=ends_at,
            begins_at=begins_at,
            first_part=int(raw.get("first_part", 1)),
            preview=raw.get("preview", ""),
            video_bitrate=raw.get("video_bitrate", "4M"),
            min_free_bytes=int(raw.get("min_free_bytes", 64 * 1024 * 1024)),
            split_seconds=int(raw.get("split_seconds", 0)),
            split_offset_seconds=int(raw.get("split_offset_seconds", 0)),
            secrets=tuple(raw.get("secrets", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{type(error).__name__} in the config") from None
    if config.container not in {"mpegts", "fmp4"}:
        raise ConfigError("unknown container format")
    if config.split_seconds < 0:
        raise ConfigError("a recording cannot be split that often")
    if "/" in config.name or config.name in {"", ".", ".."}:
        raise ConfigError("the file name is not a plain name")
    inside(media, config.folder)
    inside(media, config.preview)
    return config
