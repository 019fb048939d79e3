"""`manage.py stop_recording RECORDER`: stop a recorder by hand from the command line."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.models import Recorder
from scheduling.recording.controls import stop_now


class Command(BaseCommand):
    help = "Stop a recorder now, as the button in the admin does. What was recorded is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("recorder", help="Its name.")

    def handle(self, *args: Any, **options: Any) -> None:
        recorder = Recorder.objects.filter(name=options["recorder"]).first()
        if recorder is None:
            raise CommandError(f"There is no recorder called {options['recorder']}.")
        outcome = stop_now(recorder, by="command line")
        if not outcome.is_good:
            raise CommandError(outcome.text)
        self.stdout.write(outcome.text)
