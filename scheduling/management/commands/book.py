"""`manage.py book RECORDER START END`: book a window from the command line."""

from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Recorder
from station import audit
from station.clock import database_now, house_time
from station.clock import house_zone as the_house
from station.clock.zones import UnknownZone, to_utc, zone_of


class Command(BaseCommand):
    help = "Book a window on a recorder, as the form in the admin does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("recorder", help="Its name.")
        parser.add_argument("start", help="Like 2026-03-29T20:15, in house time unless --zone or an offset is given.")
        parser.add_argument("end", help="The same.")
        parser.add_argument("--zone", help="A time zone like Europe/Berlin (default: the house's).")
        parser.add_argument("--title", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        recorder = Recorder.objects.filter(name=options["recorder"]).first()
        if recorder is None:
            raise CommandError(f"There is no recorder called {options['recorder']}.")
        starts_at, ends_at = (self._moment(options[name], options["zone"]) for name in ("start", "end"))
        now = database_now()
        if ends_at <= now:
            raise CommandError("That window is past.")
        try:
            booking = book(recorder, starts_at, ends_at, now=now, by="command line", title=options["title"][:120])
        except BookingRefused as refusal:
            raise CommandError(str(refusal)) from refusal
        audit.record("command line", "add", booking)
        self.stdout.write(
            f"Booking {booking.pk}: {recorder}, {house_time(booking.starts_at)} to {house_time(booking.ends_at)}."
        )

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
