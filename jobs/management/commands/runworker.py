"""`manage.py runworker`: a job worker. Any number of them can run, on any machine."""

import gc
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from jobs.job_worker.main_loop import NoSuchJobs, Worker
from station.database.sessions import PoolingRefused


class Command(BaseCommand):
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
        gc.freeze()  # what is loaded now is never freed, so the collector can skip it
        try:
            code = Worker(concurrency=options["concurrency"], only=only).run()
        except (NoSuchJobs, PoolingRefused) as refusal:
            raise CommandError(str(refusal)) from refusal
        except (OperationalError, psycopg.OperationalError) as error:
            raise CommandError(f"The database does not answer: {str(error).strip()}") from error
        if code:
            raise SystemExit(code)
