"""`manage.py step_down`: have the leader hand over to a standby, e.g. before its machine is taken down."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.leader import read_status
from scheduling.wakeup import STEP_DOWN, wake_scheduler


class Command(BaseCommand):
    help = "Ask the leading scheduler to hand over to another one. Recordings are not touched."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seconds", type=float, default=15.0, help="How long to wait for the new leader.")

    def handle(self, *args: Any, **options: Any) -> None:
        before = read_status()
        if not before.is_locked:
            raise CommandError("No scheduler leads.")
        if not before.standbys:
            raise CommandError(f"{before.holder} leads, and no other scheduler waits: it would only take over again.")
        wake_scheduler(STEP_DOWN)
        deadline = time.monotonic() + options["seconds"]
        while time.monotonic() < deadline:
            status = read_status()
            if status.is_locked and status.epoch != before.epoch:
                self.stdout.write(f"{status.holder} leads now (epoch {status.epoch}).")
                return
            time.sleep(0.05)
        raise CommandError(f"{before.holder} has not handed over within {options['seconds']:g} s. Is it frozen?")
