"""`manage.py stop_recording RECORDER`: stop a recorder by hand from the command line."""

from typing import Any

from django.core.management.base import CommandParser

from scheduling.models import Recorder
from scheduling.recording.controls import stop_now
from station.actions.commands import ActionCommand, row_named


class Command(ActionCommand):
    help = "Stop a recorder now, as the button in the admin does. What was recorded is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("recorder", help="The recorder's name.")

    def handle(self, *args: Any, **options: Any) -> None:
        recorder = row_named(Recorder, options["recorder"])
        self.answer(options, self.carry_out(stop_now, recorder).text)
