"""The configuration of a media worker: one line of JSON on standard input. It contains secrets and is never printed."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from worker.wire import codec
from worker.wire.picture import Format
from worker.wire.rundown import Item, Place, Rundown

CONTAINERS = ("mpegts", "fmp4")
OUTPUT_TYPES = ("srt", "rtmp", "udp", "rtp", "hls", "file", "decklink")
MEGABYTE = 1024 * 1024
SOUND_BITRATE = "192k"
C = TypeVar("C")


def bits_per_second(text: str) -> float:
    """Reads `800k`, `4M` or a number of bits."""
    units = {"k": 1e3, "M": 1e6}
    return float(text[:-1]) * units[text[-1]] if text[-1] in units else float(text)


def least_constant_bitrate(video: str, sound: str = SOUND_BITRATE) -> float:
    """What a transport stream needs for this picture and sound, its tables and its clock."""
    return bits_per_second(video) * 1.06 + bits_per_second(sound) * 1.1 + 120_000


@dataclass(frozen=True)
class Control:
    """The workload of the media worker, and the address it listens on."""

    owner: str
    generation: int
    token: str = field(repr=False)
    host: str
    port: int


@dataclass(frozen=True)
class LaunchClock:
    """The station's time when the line was written, and how far the node's clock is ahead as far as we know."""

    station_at: datetime
    node_offset_seconds: float = 0.0


@dataclass(frozen=True)
class Source:
    """`type` is one of worker.media.sources.TYPES; `url` may contain secrets; `options` are ffmpeg options by name."""

    type: str
    url: str = field(default="", repr=False)
    options: dict[str, str] = field(default_factory=dict)
    size: str = "1280x720"
    rate: str = "25"


@dataclass(frozen=True)
class Output:
    """`url` contains no secret. `secret` has ffmpeg options by name, which are kept off ffmpeg's command line."""

    key: str
    type: str
    url: str
    options: dict[str, str] = field(default_factory=dict)
    secret: dict[str, str] = field(default_factory=dict, repr=False)
    constant_bitrate: str = ""  # of the transport stream, filled with null packets; empty: a variable rate

    def problem(self) -> str:
        return "" if self.type in OUTPUT_TYPES else f"type must be one of {', '.join(OUTPUT_TYPES)}"


@dataclass(frozen=True, kw_only=True)
class CaptureConfig:
    """`folder` and `preview` are relative to the media folder. `devices` are device files for the container."""

    source: Source = field(repr=False, metadata=codec.SECRET)
    folder: str
    name: str
    container: str = "mpegts"
    begins_at: datetime | None = None
    ends_at: datetime | None = None
    first_part: int = 1
    preview: str = ""
    video_bitrate: str = "4M"
    min_free_bytes: int = 64 * MEGABYTE
    split_seconds: int = 0  # 0: one file
    split_offset_seconds: int = 0  # how far house time is ahead of UTC
    programme: int = 0  # its number in the transport stream; 0: all
    follows: bool = False  # another recording of this source ends when this one begins
    devices: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False, metadata=codec.SECRET)

    def problem(self) -> str:
        if self.container not in CONTAINERS:
            return f"container must be one of {', '.join(CONTAINERS)}"
        if self.split_seconds < 0:
            return "split_seconds must not be negative"
        if "/" in self.name or self.name in {"", ".", ".."}:
            return "name must be a plain file name"
        return ""


@dataclass(frozen=True, kw_only=True)
class PlayoutConfig:
    """`preview` and `spool` are relative to the media folder. `sources` are those of live items, by item key."""

    format: Format
    outputs: tuple[Output, ...] = field(default=(), repr=False, metadata=codec.SECRET)
    rundown: Rundown
    filler: Item | None = None
    resume: Place | None = None
    slate: str = "bars"
    pause: str = "hold"
    preview: str = ""
    spool: str
    video_bitrate: str = "4M"
    audio_bitrate: str = SOUND_BITRATE
    service_name: str = ""
    service_provider: str = ""
    isolation_seconds: float | None = None
    min_free_bytes: int = 0
    devices: tuple[str, ...] = ()
    sources: dict[str, Source] = field(default_factory=dict, repr=False, metadata=codec.SECRET)
    # Where one of the outputs can be received, to check what really goes out.
    monitored: Source | None = field(default=None, repr=False, metadata=codec.SECRET)
    secrets: tuple[str, ...] = field(default=(), repr=False, metadata=codec.SECRET)


@dataclass(frozen=True)
class ProbeConfig:
    """Read a source for a few seconds, as a recording does, and report whether it sends a picture."""

    source: Source
    seconds: float = 8.0
    secrets: tuple[str, ...] = field(default=(), repr=False)
    container: str = "mpegts"
    programme: int = 0


@dataclass(frozen=True)
class ProbeAnswer:
    """`unrecorded` names the tracks that the container cannot hold; `programmes` are those of the source."""

    ok: bool
    error: str = ""
    tracks: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()
    programmes: tuple[int, ...] = ()


@dataclass(frozen=True)
class DiskAnswer:
    """The space in the media folder, after a check that it is writable."""

    free_bytes: int
    total_bytes: int
    node_at: datetime | None = None  # the node's clock


@dataclass(frozen=True)
class Handover(Generic[C]):
    """The whole line for a media worker that answers on a port."""

    control: Control
    config: C
    clock: LaunchClock | None = None  # None: from a control plane that does not send it


def write_handover(control: Control, config: codec.Json, clock: LaunchClock | None = None) -> str:
    """`config` is an encoded configuration, joined from its open and its sealed fields (see `codec.split`)."""
    line = {codec.VERSION_FIELD: codec.VERSION, "control": codec.encode(control), "config": config}
    if clock is not None:
        line["clock"] = codec.encode(clock)
    return json.dumps(line, allow_nan=False)


def read_handover(kind: type[C], line: str) -> Handover[C]:
    """Raises WireError."""
    raw = codec.parse_object(line)
    codec.check_version(raw)
    clock = codec.decode_field(LaunchClock, raw, "clock") if "clock" in raw else None
    return Handover(codec.decode_field(Control, raw, "control"), codec.decode_field(kind, raw, "config"), clock)
