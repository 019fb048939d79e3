"""`manage.py run_job NAME`: run a job now, like the Run now button in the admin."""

import json
import time
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.models import Run
from jobs.runs.controls import run_now
from jobs.runs.queue import NotQueued, job_row
from station.actions.commands import ActionCommand


class Command(ActionCommand):
    help = "Run a job now, outside its schedule and even while it is paused. With --wait: exit code 1 if it fails."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="Name of the job; manage.py jobs lists them.")
        parser.add_argument("--scope", default="", help="The scope to run it in.")
        parser.add_argument("--payload", default="", help="Payload as JSON, for jobs that take one.")
        parser.add_argument("--wait", action="store_true", help="Wait until the run is over and print its result.")
        parser.add_argument("--seconds", type=float, default=600.0, help="Longest time to wait (default 600).")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            payload = json.loads(options["payload"]) if options["payload"] else None
        except ValueError as error:
            raise CommandError(f"--payload is not JSON: {error}") from error
        try:
            job = job_row(options["name"])
        except NotQueued as refusal:
            raise CommandError(str(refusal)) from refusal
        outcome = self.carry_out(run_now, job, scope=options["scope"], payload=payload)
        self.answer(options, outcome.text)
        run = outcome.target
        assert isinstance(run, Run)
        if options["wait"]:
            self._wait(run, options["seconds"])

    def _wait(self, run: Run, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        shown = ""
        while not run.is_over:
            if time.monotonic() > deadline:
                raise CommandError(f"Run {run.pk} is still {run.state_word} after {seconds:g} s. It continues.")
            time.sleep(0.1)
            run.refresh_from_db()
            percent = "" if run.progress_percent is None else f"{run.progress_percent} % "
            if run.progress_text and (shown := f"{percent}{run.progress_text}") != getattr(self, "_shown", ""):
                self._shown = shown
                self.stdout.write(shown)
        if run.state != Run.State.SUCCEEDED:
            raise CommandError(f"Run {run.pk} {run.state_word} ({run.error_code}): {run.error}")
        self.stdout.write(json.dumps(run.result) if run.result is not None else "Done.")
