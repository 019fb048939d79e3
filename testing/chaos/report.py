"""The last lines of a chaos run: a table of what happened, and what went wrong."""

from collections import Counter
from collections.abc import Iterable, Mapping

from testing.chaos.verdict import LATE, BookingFacts, Facts, allowed

Wrong = Mapping[str, list[str]]


def table(facts: Facts, wrong: Wrong, faults: Mapping[str, int]) -> str:
    begun = [each for each in facts.bookings if each.starts_here and each.writing]
    disturbed = [each for each in begun if allowed(each, facts.disturbances) > LATE]
    undisturbed = [each for each in begun if each not in disturbed]
    rows = [
        ("faults", by_count(faults)),
        ("bookings", by_count(Counter(each.state for each in facts.bookings))),
        ("worst lateness", worst_lateness(undisturbed)),
        ("  after a disturbance", worst_lateness(disturbed)),
        ("longest without leader", f"{longest(span.seconds for span in facts.leaderless):.1f} s"),
    ]
    if facts.backlog:
        rows.append(("backlog", f"{by_count(facts.backlog.states)}; {len(facts.backlog.alerts)} alerts"))
    if facts.channel:
        gaps = facts.channel.off_air_seconds
        rows.append(("channel off air", f"{sum(gaps):.1f} s in {len(gaps)} gaps, the longest {longest(gaps):.1f} s"))
    rows += [(kind, str(len(stories))) for kind, stories in wrong.items()]
    return "\n".join(f"{name:24}{value}" for name, value in rows)


def findings(wrong: Wrong) -> str:
    return "\n".join(f"{kind}: {story}" for kind, stories in wrong.items() for story in stories)


def worst_lateness(bookings: list[BookingFacts]) -> str:
    return f"{longest(each.late_by.total_seconds() for each in bookings):.1f} s of {len(bookings)} bookings"


def longest(seconds: Iterable[float]) -> float:
    return max(seconds, default=0.0)


def by_count(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
