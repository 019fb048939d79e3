"""The status of a media worker: its answer to GET /status, and the last line it prints."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from worker.wire import codec
from worker.wire.parts_and_gaps import Gap, Part
from worker.wire.rundown import Place


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """Three clocks at the same moment: the node's, the station's as the media worker counts it, seconds since boot."""

    node_at: datetime
    station_at: datetime
    boot_seconds: float


@dataclass(frozen=True, kw_only=True)
class WorkerStatus:
    """The status of every program. Only its identity is required, so that other versions are understood."""

    owner: str
    generation: int
    state: str = ""
    frames: int = 0
    bytes: int = 0
    last_frame_age_seconds: float | None = None
    loop_age_seconds: float = 0.0
    first_frame_at: datetime | None = None
    started_at: datetime | None = None
    ends_at: datetime | None = None  # of a program that ends by itself
    error: str = ""
    clock: ClockReading | None = None

    def news(self) -> object:
        """What its owner reacts to at once. While it stays equal, the owner is told less often."""
        return self


@dataclass(frozen=True, kw_only=True)
class CaptureStatus(WorkerStatus):
    """Totals include every part, also those of earlier generations."""

    signal: bool = False
    seconds: float = 0.0
    first_byte_at: datetime | None = None
    folder: str = ""
    restarts: int = 0
    free_bytes: int | None = None
    parts: tuple[Part, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ItemOnAir:
    key: str
    title: str = ""
    kind: str = ""
    asset: int | None = None
    started_at: datetime | None = None
    offset_seconds: float = 0.0
    seconds: float | None = None
    has_signal: bool = True


@dataclass(frozen=True, kw_only=True)
class NextItem:
    key: str
    title: str = ""
    is_ready: bool = False


@dataclass(frozen=True, kw_only=True)
class OutputStatus:
    """`state` is starting, sending or waiting."""

    key: str
    type: str
    state: str = ""
    restarts: int = 0
    error: str = ""
    bytes: int | None = None
    receivers: int | None = None  # of an output that waits for them


@dataclass(frozen=True, kw_only=True)
class ReturnStatus:
    """What arrives of a monitored output. `state` is receiving or lost; zero seconds: there is no such trouble."""

    state: str = ""
    lost_seconds: float = 0.0
    black_seconds: float = 0.0
    frozen_seconds: float = 0.0
    silent_seconds: float = 0.0
    loudness_lufs: float | None = None
    error: str = ""

    def troubles(self) -> tuple[int, ...]:
        """In whole seconds."""
        seconds = (self.lost_seconds, self.black_seconds, self.frozen_seconds, self.silent_seconds)
        return tuple(int(each) for each in seconds)


@dataclass(frozen=True, kw_only=True)
class PlayoutStatus(WorkerStatus):
    """`rundown` is the version of the current list."""

    rundown: str = ""
    item: ItemOnAir | None = None
    next: NextItem | None = None
    place: Place | None = None
    outputs: tuple[OutputStatus, ...] = ()
    asrun_revision: int = 0
    ticks: int = 0
    bars_seconds: float = 0.0
    list_failed_seconds: float = 0.0
    repeats: int = 0
    encoder_restarts: int = 0
    dropped: int = 0
    dropping_seconds: float = 0.0
    resyncs: int = 0
    slowest_look_seconds: float = 0.0
    returned: ReturnStatus | None = None

    def news(self) -> object:
        """Without the counters that change with every frame."""
        still_seconds = int(self.last_frame_age_seconds or 0.0)
        item = (self.item.key, self.item.has_signal) if self.item else None
        outputs = tuple((each.key, each.state, each.error) for each in self.outputs)
        back = self.returned.troubles() if self.returned else None
        about = (self.state, self.rundown, self.asrun_revision, self.error, self.frames > 0, still_seconds)
        return *about, item, outputs, back


S = TypeVar("S", bound=WorkerStatus)
FINAL = "final"
KINDS: dict[str, type[WorkerStatus]] = {"capture": CaptureStatus, "playout": PlayoutStatus}


def kind_of(program: str) -> type[WorkerStatus]:
    """The status type of that program."""
    return KINDS.get(program, WorkerStatus)


def final_line(status: WorkerStatus) -> str:
    """The last line that a media worker prints."""
    return json.dumps({FINAL: codec.message(status)})


def read_final(kind: type[S], line: str) -> S:
    """Raises WireError if it is another kind of line."""
    raw = codec.parse_object(line)
    if FINAL not in raw:
        raise codec.WireError(f"{FINAL} is missing")
    return codec.read_message(kind, raw[FINAL])
