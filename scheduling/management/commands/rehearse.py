"""`manage.py rehearse --from DAY --to DAY`: shows what would happen in that time; nothing is changed."""

import json
import logging
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.models import Booking
from scheduling.rules.rehearsal import CannotRehearse, Happening, rehearse
from station.clock import house_zone
from station.clock import spoken as spoken_span
from station.clock.zones import UnknownZone, next_changes, to_utc, zone_of

State = Booking.State
LATE_SECONDS = 1.0
WORDS = {
    State.COMPLETED: "recorded",
    State.SKIPPED: "SKIPPED",
    State.MISSED: "MISSED",
    State.FAILED: "FAILED",
    State.PARTIAL: "PARTIAL",
}


class Command(BaseCommand):
    help = "Run the real planning and loop over a span of time on a simulated clock. Nothing is changed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="begins", required=True, help="Like 2026-03-28 or 2026-03-28T18:00.")
        parser.add_argument("--to", dest="ends", required=True, help="In the same form; a day means its first moment.")
        parser.add_argument("--zone", help="The time zone of these times and of the output (default: house time).")
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            zone = zone_of(options["zone"]) if options["zone"] else house_zone()
            begins, ends = (to_utc(datetime.fromisoformat(options[name]), zone) for name in ("begins", "ends"))
        except UnknownZone as error:
            raise CommandError(str(error)) from error
        except ValueError as error:
            raise CommandError(f"Not a day or time like 2026-03-28T18:00: {error}") from error
        logging.disable(logging.WARNING)  # the log must not say that rehearsed bookings really ran
        try:
            happenings = rehearse(begins, ends)
        except CannotRehearse as fault:
            raise CommandError(str(fault)) from fault
        finally:
            logging.disable(logging.NOTSET)
        if options["json"]:
            self.stdout.write(json.dumps([_as_dict(each) for each in happenings], indent=1))
            return
        changes = [each for each in next_changes(str(zone), begins, count=9, within=ends - begins) if each.at < ends]
        for each in happenings:
            while changes and changes[0].at <= each.booking.starts_at:
                self._say_change(changes.pop(0))
            self.stdout.write(_line(each, zone))
        for change in changes:
            self._say_change(change)
        self.stdout.write(_summary(happenings))

    def _say_change(self, change: Any) -> None:
        word = "forward" if change.by > timedelta(0) else "back"
        self.stdout.write(
            f"{change.local_before:%Y-%m-%d %H:%M}          -- the clocks go {word} to {change.local_after:%H:%M} --"
        )


def _line(each: Happening, zone: Any) -> str:
    booking = each.booking
    starts, ends = booking.starts_at.astimezone(zone), booking.ends_at.astimezone(zone)
    word = WORDS.get(State(each.state), each.state)
    late = f", picture {each.late_seconds:.1f} s late" if each.late_seconds > LATE_SECONDS else ""
    reason = f": {each.notes[-1]}" if each.state in {State.SKIPPED, State.MISSED, State.FAILED, State.PARTIAL} else ""
    length = spoken_span((booking.ends_at - booking.starts_at).total_seconds())
    window = f"{starts:%Y-%m-%d %H:%M:%S %Z} - {ends:%H:%M:%S} ({length})"
    return f"{window}  {booking.recorder}: {booking}  {word}{late}{reason}"


def _summary(happenings: list[Happening]) -> str:
    counts: dict[str, int] = {}
    for each in happenings:
        counts[each.state] = counts.get(each.state, 0) + 1
    late = sum(each.late_seconds > LATE_SECONDS for each in happenings)
    words = ", ".join(f"{count} {WORDS.get(State(state), state).lower()}" for state, count in sorted(counts.items()))
    return f"{len(happenings)} bookings: {words or 'nothing'}; {late} with a late picture. Nothing was changed."


def _as_dict(each: Happening) -> dict[str, Any]:
    booking = each.booking
    return {
        "recorder": booking.recorder.name,
        "title": str(booking),
        "starts_at": booking.starts_at.isoformat(),
        "ends_at": booking.ends_at.isoformat(),
        "state": each.state,
        "skip_reason": booking.skip_reason,
        "late_seconds": round(each.late_seconds, 3),
        "notes": list(each.notes),
    }
