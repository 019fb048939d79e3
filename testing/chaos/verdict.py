"""The judgement of a chaos run, from facts alone: what was lost, doubled, stuck, late, off air or not reported."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

# A recording begins at most this long after its window opens, measured by the first bytes on the disk.
LATE = timedelta(seconds=2)
# After a disturbance ends, a recording begins within this time: a leader takes over and starts a media worker.
RECOVERY = timedelta(seconds=5)
# Without a disturbance there is always a leader. The watcher looks only a few times a second.
LEADERLESS = timedelta(seconds=1.5)
TWO_WRITERS_SECONDS = 1.0
TWO_SENDERS_SECONDS = 2.0
OFF_AIR_SECONDS = 20.0
QUIET_AT_END_SECONDS = 2.0
# A completed recording misses at most the tolerated seconds, and half a second at its ends.
MISSING_SECONDS = 5.5
RECORDED = ("completed", "partial")


@dataclass(frozen=True)
class Span:
    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()

    def overlap(self, other: "Span") -> float:
        return (min(self.end, other.end) - max(self.begin, other.begin)).total_seconds()


@dataclass(frozen=True)
class Disturbance(Span):
    """A time in which an injected fault may delay a start: for everybody, or for an owner whose own row was locked."""

    what: str
    owner: str = ""


@dataclass(frozen=True)
class BookingFacts:
    owner: str
    state: str
    story: str
    window: Span
    is_over: bool = True
    # What the recorded files hold, by decoding them, and when each of them was seen to grow.
    held_seconds: float = 0.0
    writing: tuple[Span, ...] = ()
    # False for a recording that was moved here during the run.
    starts_here: bool = True

    @property
    def late_by(self) -> timedelta:
        begun = min((span.begin for span in self.writing), default=self.window.end)
        return begun - self.window.begin


@dataclass(frozen=True)
class ChannelFacts:
    state: str
    # One for each sender: from its first to its last packet.
    senders: tuple[Span, ...]
    off_air_seconds: tuple[float, ...]
    quiet_seconds: float


@dataclass(frozen=True)
class BacklogFacts:
    expected: int
    states: Counter[str]
    # (title, count) of each alert about missed bookings of the backlog.
    alerts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Facts:
    bookings: Sequence[BookingFacts] = ()
    channel: ChannelFacts | None = None
    backlog: BacklogFacts | None = None
    disturbances: Sequence[Disturbance] = ()
    leaderless: Sequence[Span] = ()
    doubled: Iterable[str] = field(default_factory=set)  # owners with two media workers at once
    leftovers: Sequence[str] = ()  # media workers that still run although their booking is over


def judge(facts: Facts) -> dict[str, list[str]]:
    """What went wrong, by kind. All lists are empty if nothing did."""
    wrong: dict[str, list[str]] = {kind: [] for kind in ("lost", "doubled", "stuck", "late", "untrue")}
    wrong["doubled"] += sorted(facts.doubled)
    wrong["stuck"] += facts.leftovers
    for booking in facts.bookings:
        if not booking.is_over:
            wrong["stuck"].append(booking.story)
        elif booking.state not in RECORDED or not booking.held_seconds:
            wrong["lost"].append(booking.story)
        elif booking.state == "completed" and missing_seconds(booking) > MISSING_SECONDS:
            wrong["untrue"].append(f"{missing_seconds(booking):.1f} s are missing: {booking.story}")
        wrong["doubled"] += [f"{seconds:.1f} s: {booking.story}" for seconds in two_writers(booking)]
        if booking.starts_here and booking.held_seconds and booking.late_by > allowed(booking, facts.disturbances):
            late = booking.late_by.total_seconds()
            limit = allowed(booking, facts.disturbances).total_seconds()
            wrong["late"].append(f"{late:.1f} s late, {limit:.1f} s allowed: {booking.story}")
    wrong["leaderless"] = judge_leaders(facts.leaderless, facts.disturbances)
    wrong["channel"] = judge_channel(facts.channel) if facts.channel else []
    wrong["unsummarised"] = judge_backlog(facts.backlog) if facts.backlog else []
    return wrong


def allowed(booking: BookingFacts, disturbances: Iterable[Disturbance]) -> timedelta:
    """How late this booking may begin."""
    own = [each for each in disturbances if each.owner in {"", booking.owner}]
    return excused_until(booking.window.begin, LATE, own) - booking.window.begin


def excused_until(begin: datetime, grace: timedelta, disturbances: Iterable[Disturbance]) -> datetime:
    """A moment after `begin`, or after the end of the disturbance in the way. Several in a row add up."""
    until = begin + grace
    for each in sorted(disturbances, key=lambda each: each.begin):
        if each.begin <= until:
            until = max(until, each.end + RECOVERY)
    return until


def judge_leaders(leaderless: Iterable[Span], disturbances: Sequence[Disturbance]) -> list[str]:
    shared = [each for each in disturbances if not each.owner]
    return [
        f"no leader for {span.seconds:.1f} s until {span.end:%H:%M:%S}"
        for span in leaderless
        if span.end > excused_until(span.begin, LEADERLESS, shared)
    ]


def missing_seconds(booking: BookingFacts) -> float:
    return booking.window.seconds - booking.held_seconds


def two_writers(booking: BookingFacts) -> list[float]:
    """For how long two files of one recording grew at the same time."""
    pairs = (first.overlap(second) for first, second in itertools.combinations(booking.writing, 2))
    return [seconds for seconds in pairs if seconds > TWO_WRITERS_SECONDS]


def judge_channel(channel: ChannelFacts) -> list[str]:
    pairs = (first.overlap(second) for first, second in itertools.combinations(channel.senders, 2))
    wrong = [f"two senders for {seconds:.1f} s" for seconds in pairs if seconds > TWO_SENDERS_SECONDS]
    wrong += [f"off air for {seconds:.1f} s" for seconds in channel.off_air_seconds if seconds > OFF_AIR_SECONDS]
    if channel.state != "on_air":
        wrong.append(f"{channel.state} at the end")
    if channel.quiet_seconds > QUIET_AT_END_SECONDS:
        wrong.append(f"no packet in the last {channel.quiet_seconds:.1f} s")
    return wrong


def judge_backlog(backlog: BacklogFacts) -> list[str]:
    wrong = []
    if backlog.states != Counter(missed=backlog.expected):
        wrong.append(f"of {backlog.expected} bookings whose window had passed: {dict(backlog.states)}")
    if [count for _, count in backlog.alerts] != [backlog.expected]:
        titles = "; ".join(f"{title} ({count})" for title, count in backlog.alerts[:5]) or "none"
        wrong.append(f"{len(backlog.alerts)} alerts instead of one for {backlog.expected} bookings: {titles}")
    return wrong
