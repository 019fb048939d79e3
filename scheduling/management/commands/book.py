"""`manage.py book RECORDER START END`: book a window from the command line."""

from datetime import datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from scheduling.bookings.controls import book
from scheduling.models import Recorder
from station.actions.commands import ActionCommand, row_named
from station.clock import house_zone as the_house
from station.clock.zones import UnknownZone, to_utc, zone_of


class Command(ActionCommand):
    help = "Book a window on a recorder, as the form in the admin does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("recorder", help="The recorder's name.")
        parser.add_argument("start", help="Like 2026-03-29T20:15, in house time unless --zone or an offset is given.")
        parser.add_argument("end", help="The end of the window, in the same form.")
        parser.add_argument("--zone", help="A time zone like Europe/Berlin (default: house time).")
        parser.add_argument("--title", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        recorder = row_named(Recorder, options["recorder"])
        starts_at, ends_at = (self._moment(options[name], options["zone"]) for name in ("start", "end"))
        window = {"starts_at": starts_at, "ends_at": ends_at, "title": options["title"][:120]}
        self.answer(options, self.carry_out(book, recorder, **window).text)

    def _moment(self, text: str, zone: str | None) -> datetime:
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is not None:
                return moment
            return to_utc(moment, zone_of(zone) if zone else the_house())
        except UnknownZone as error:
            raise CommandError(str(error)) from error
        except ValueError as error:
            raise CommandError(f"“{text}” is not a time like 2026-03-29T20:15.") from error
