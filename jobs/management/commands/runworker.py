"""`manage.py runworker`: a job worker. Any number of them can run, on any machine."""

import gc
import threading
from typing import Any

import psycopg
from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from jobs.job_worker.main_loop import NoSuchJobs, Worker
from station.admission import wait_until_admitted
from station.database.roles import WORKERS, take_role
from station.database.sessions import PoolingRefused


class Command(BaseCommand):
    # Not those of pages and of the scheduler's steps: they would load both.
    requires_system_checks = [Tags.security]
    help = "Run a job worker: claim runs of jobs and execute them until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--concurrency",
            type=int,
            default=2,
            help="Heavy runs at a time (default 2); eight times as many light runs.",
        )
        parser.add_argument(
            "--jobs", default="", help="Names of the jobs to work on, separated by commas (default: all)."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["concurrency"] <= 64:
            raise CommandError("--concurrency must be from 1 to 64.")
        only = [name for name in options["jobs"].split(",") if name]
        take_role(WORKERS)
        gc.freeze()  # what is loaded now is never freed, so the collector can skip it
        try:
            worker = Worker(concurrency=options["concurrency"], only=only)
            wait_until_admitted(threading.Event())  # until then, SIGTERM ends the process at once
            code = worker.run()
        except (NoSuchJobs, PoolingRefused) as refusal:
            raise CommandError(str(refusal)) from refusal
        except (OperationalError, psycopg.OperationalError) as error:
            raise CommandError(f"The database does not answer: {str(error).strip()}") from error
        if code:
            raise SystemExit(code)
