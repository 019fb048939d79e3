"""Parts and gaps of a recording. Gaps and missing seconds are computed here only."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

MIN_GAP_SECONDS = 0.2
# Reasons for a gap: no picture inside a part; the media worker died and could not say why the part ended; nothing at
# the beginning or the end of the window.
NO_SIGNAL = "no_signal"
WORKER_DIED = "worker_died"
LATE, EARLY = "late_start", "early_end"
EDGES = (LATE, EARLY)
Span = tuple[datetime, datetime]


@dataclass
class Part:
    """One file: an uninterrupted run of ffmpeg, or a piece of one that is split by the clock.

    The media worker updates it while the file grows. The control plane fills in `node`.
    """

    number: int
    file: str
    started_at: datetime | None = None
    first_frame_at: datetime | None = None
    last_frame_at: datetime | None = None
    ended_at: datetime | None = None
    frames: int = 0
    bytes: int = 0
    seconds: float = 0.0
    end_reason: str = ""
    node: int | None = None


@dataclass(frozen=True)
class Gap:
    """Nothing was recorded from `from_at` to `to_at`."""

    from_at: datetime
    to_at: datetime
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class RecordingJournal:
    """The file beside a recording: the parts that its media workers wrote so far."""

    parts: tuple[Part, ...] = ()
    gaps: tuple[Gap, ...] = ()


def to_milliseconds(moment: datetime) -> datetime:
    """Times of frames are known to the millisecond."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def gap_between(from_at: datetime, to_at: datetime, reason: str) -> Gap:
    return Gap(from_at, to_at, round((to_at - from_at).total_seconds(), 3), reason)


def find_gaps(parts: Iterable[Part], known: Iterable[Gap]) -> list[Gap]:
    """The gaps between the parts and the `known` gaps inside parts (no signal), in order of time. None overlap."""
    # The same gap may be reported twice, the second time with its final length.
    inside = {gap.from_at: gap for gap in known if gap.reason == NO_SIGNAL}
    between: list[Gap] = []
    for (_, lost_at, before), (back_at, _, _) in itertools.pairwise(_spans(parts)):
        if (back_at - lost_at).total_seconds() >= MIN_GAP_SECONDS:
            between.append(gap_between(lost_at, back_at, before.end_reason or WORKER_DIED))
    silent = _without([(gap.from_at, gap.to_at) for gap in inside.values()], _pairs(between))
    silences = [gap_between(begin, end, NO_SIGNAL) for begin, end in silent]
    return sorted([*between, *silences], key=lambda gap: gap.from_at)


def _spans(parts: Iterable[Part]) -> list[tuple[datetime, datetime, Part]]:
    framed = [(part.first_frame_at, part.last_frame_at, part) for part in parts]
    return [(first, last, part) for first, last, part in framed if first is not None and last is not None]


def _pairs(gaps: Iterable[Gap]) -> list[Span]:
    return [(gap.from_at, gap.to_at) for gap in gaps]


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Spans that overlap or touch become one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > begin:
            found.append((begin, end))
    return found


def _without(spans: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    """What is left of the spans."""
    left = _joined(spans)
    for begin, end in _joined(removed):
        pieces = [((first, min(last, begin)), (max(first, end), last)) for first, last in left]
        left = [piece for pair in pieces for piece in pair if piece[0] < piece[1]]
    return left


def with_edges(
    parts: Iterable[Part],
    gaps: Iterable[Gap],
    wanted_from: datetime,
    wanted_until: datetime | None,
    *,
    tolerated_seconds: float,
) -> list[Gap]:
    """The gaps, plus those before the first frame and after the last one, if they are longer than tolerated."""
    spans = [(part.first_frame_at, part.last_frame_at) for part in parts]
    first = min((first for first, _ in spans if first), default=None)
    last = max((last for _, last in spans if last), default=None)
    found = [gap for gap in gaps if gap.reason not in EDGES]
    for reason, begin, end in ((LATE, wanted_from, first), (EARLY, last, wanted_until)):
        if begin and end and (end - begin).total_seconds() > tolerated_seconds:
            found.append(gap_between(to_milliseconds(begin), to_milliseconds(end), reason))
    return sorted(found, key=lambda gap: gap.from_at)


def missing_seconds(parts: Sequence[Part], gaps: Iterable[Gap], wanted_from: datetime, wanted_until: datetime) -> float:
    """How many seconds of the window are in no part."""
    recorded = [
        (max(first, wanted_from), min(last, wanted_until))
        for first, last, _ in _spans(parts)
        if first < wanted_until and last > wanted_from
    ]
    silent = [(gap.from_at, gap.to_at) for gap in gaps if gap.reason == NO_SIGNAL]
    held = sum((end - begin).total_seconds() for begin, end in _without(recorded, silent))
    return max(0.0, max(0.0, (wanted_until - wanted_from).total_seconds()) - held)
