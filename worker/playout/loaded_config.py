"""The configuration and the list as the playout program uses them.

Paths are checked to be inside the media folder, times are seconds since the epoch, live items have their source.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from worker.process.config_line import ConfigError, inside
from worker.wire import rundown as wire
from worker.wire.configuration import Control, Handover, Output, PlayoutConfig, Source
from worker.wire.picture import Format
from worker.wire.rundown import LIVE

MOST_GAIN_DB = 40.0
IN_MEDIA_FOLDER = ("hls", "file")


@dataclass(frozen=True)
class Item:
    """One line of the list."""

    key: str
    kind: str
    title: str
    asset: int | None = None
    file: Path | None = None
    journal: Path | None = None
    in_seconds: float = 0.0
    seconds: float | None = None  # None: until its end
    streams: str = "av"
    source: Source | None = None
    fixed_at: tuple[float, ...] = ()
    is_cut: bool = True
    max_late_seconds: float | None = None
    part_of: str = ""  # of a later part of a recording: the key of its first part
    gain_db: float = 0.0


@dataclass(frozen=True)
class Rundown:
    """The items to play, in order. See worker.wire.rundown."""

    version: str
    items: tuple[Item, ...] = ()
    is_loop: bool = False
    begins_at: float | None = None
    following: "Rundown | None" = None
    following_at: float | None = None


@dataclass(frozen=True)
class Resume:
    """Where an earlier media worker was: `offset_seconds` into the item at the time `at`."""

    key: str
    offset_seconds: float
    at: float
    is_paused: bool = False


@dataclass(frozen=True)
class ChannelSetup:
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
    monitored: Source | None = field(default=None, repr=False)
    service_name: str = ""
    service_provider: str = ""


def load_setup(handover: Handover[PlayoutConfig], media: Path) -> ChannelSetup:
    """Raises ConfigError."""
    config = handover.config
    return ChannelSetup(
        control=handover.control,
        media=media,
        format=config.format,
        outputs=tuple(_output(each, media) for each in config.outputs),
        rundown=load_rundown(config.rundown, media, config.sources),
        filler=_item(config.filler, media, config.sources) if config.filler else None,
        resume=_resume(config.resume) if config.resume else None,
        slate=config.slate,
        pause=config.pause,
        preview=inside(media, config.preview) if config.preview else None,
        spool=inside(media, config.spool),
        video_bitrate=config.video_bitrate,
        audio_bitrate=config.audio_bitrate,
        isolation_seconds=config.isolation_seconds,
        min_free_bytes=config.min_free_bytes,
        monitored=config.monitored,
        secrets=config.secrets,
        service_name=config.service_name,
        service_provider=config.service_provider,
    )


def load_rundown(rundown: wire.Rundown, media: Path, sources: Mapping[str, Source]) -> Rundown:
    """Raises ConfigError."""
    following = load_rundown(rundown.following, media, sources) if rundown.following else None
    return Rundown(
        version=rundown.version,
        items=tuple(_item(each, media, sources) for each in rundown.items),
        is_loop=rundown.is_loop,
        begins_at=rundown.begins_at.timestamp() if rundown.begins_at else None,
        following=following,
        following_at=rundown.following_at.timestamp() if following and rundown.following_at else None,
    )


def _item(item: wire.Item, media: Path, sources: Mapping[str, Source]) -> Item:
    if item.kind == LIVE and item.key not in sources:
        raise ConfigError(f"sources.{item.key} is missing")
    return Item(
        key=item.key,
        kind=item.kind,
        title=item.title,
        asset=item.asset,
        file=inside(media, item.file) if item.file else None,
        journal=inside(media, item.journal) if item.journal else None,
        in_seconds=max(0.0, item.in_seconds),
        seconds=max(0.0, item.seconds) if item.seconds is not None else None,
        streams=item.streams or "av",
        source=sources[item.key] if item.kind == LIVE else None,
        fixed_at=tuple(sorted(moment.timestamp() for moment in item.fixed_at)),
        is_cut=item.is_cut,
        max_late_seconds=item.max_late_seconds,
        part_of=item.part_of,
        gain_db=max(-MOST_GAIN_DB, min(MOST_GAIN_DB, item.gain_db)),
    )


def _output(output: Output, media: Path) -> Output:
    return replace(output, url=str(inside(media, output.url))) if output.type in IN_MEDIA_FOLDER else output


def _resume(place: wire.Place) -> Resume:
    return Resume(place.key, place.offset_seconds, place.at.timestamp(), place.is_paused)
