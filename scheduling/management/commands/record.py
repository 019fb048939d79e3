"""`manage.py record RECORDER`: start a recorder by hand from the command line."""

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from scheduling.models import Recorder
from scheduling.recording.controls import start_now
from station.actions.commands import ActionCommand, row_named


class Command(ActionCommand):
    help = "Start a recorder now, as the button in the admin does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("recorder", help="The recorder's name.")
        parser.add_argument(
            "--minutes", type=float, help="How long at most (default: the setting RECORD_NOW_MAX_HOURS)."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        recorder = row_named(Recorder, options["recorder"])
        minutes = options["minutes"]
        if minutes is not None and not minutes > 0:
            raise CommandError("--minutes must be more than 0.")
        length = timedelta(minutes=minutes) if minutes else None
        self.answer(options, self.carry_out(start_now, recorder, length=length).text)
