"""`manage.py step_down`: makes the leader hand over to a standby, e.g. before its machine is shut down."""

import json
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.leader.election import read_status
from station.database.notify import STEP_DOWN, wake_scheduler


class Command(BaseCommand):
    help = "Ask the leading scheduler to hand over to another one. Recordings continue."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seconds", type=float, default=15.0, help="How long to wait for the new leader.")
        parser.add_argument("--json", action="store_true", help="Print JSON.")
        parser.add_argument("--dry-run", action="store_true", help="Show which scheduler would hand over; do nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        before = read_status()
        if not before.is_locked:
            raise CommandError("No scheduler leads.")
        if not before.standbys:
            raise CommandError(
                f"{before.holder} leads and no other scheduler is on standby: it would only take over again."
            )
        if options["dry_run"]:
            text = f"{before.holder} would hand over; {before.standbys} on standby."
            self._answer(options, text, holder=before.holder, epoch=before.epoch, is_done=False)
            return
        wake_scheduler(STEP_DOWN)
        deadline = time.monotonic() + options["seconds"]
        while time.monotonic() < deadline:
            status = read_status()
            if status.is_locked and status.epoch != before.epoch:
                text = f"{status.holder} now leads (epoch {status.epoch})."
                self._answer(options, text, holder=status.holder, epoch=status.epoch, is_done=True)
                return
            time.sleep(0.05)
        raise CommandError(f"{before.holder} did not hand over within {options['seconds']:g} s. Is it frozen?")

    def _answer(self, options: dict[str, Any], text: str, **facts: Any) -> None:
        self.stdout.write(json.dumps({"text": text, **facts}) if options["json"] else text)
