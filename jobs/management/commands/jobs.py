"""`manage.py jobs`: list every job with its next run and last result, and the job workers."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs.statistics import JobFigures, read_figures
from station.clock import house_time


class Command(BaseCommand):
    help = "List the jobs with next run, last result and counts, and the job workers."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print JSON, for scripts.")

    def handle(self, *args: Any, **options: Any) -> None:
        figures = read_figures()
        if options["json"]:
            self.stdout.write(json.dumps(figures.as_dict(), indent=1, default=str))
            return
        for job in figures.jobs:
            self.stdout.write(_line(job))
        alive = [worker for worker in figures.workers if worker.is_alive]
        names = ", ".join(f"{worker.name} ({worker.version})" for worker in alive)
        words = "job worker" if len(alive) == 1 else "job workers"
        self.stdout.write(
            f"{len(alive)} {words}: {names}" if alive else "No job worker is running. Start one: manage.py runworker"
        )


def _line(job: JobFigures) -> str:
    marks = [mark for mark, is_on in (("PAUSED", job.is_paused), ("NOT IN THE CODE", not job.is_declared)) if is_on]
    upcoming = f"next {house_time(job.next_at)}" if job.next_at else "nothing planned"
    last = f"last {job.last_state} {house_time(job.last_at)}" if job.last_at else "never ran"
    counts = f"{job.queued} queued, {job.running} running"
    if job.failed:
        counts += f", {job.failed} failed"
    if job.worker_crashed:
        counts += f", {job.worker_crashed} lost with their job worker"
    words = f"{job.name}: {job.in_words}; {upcoming}; {last}; {counts}"
    if job.plan_error:
        words += f"; CANNOT BE PLANNED: {job.plan_error}"
    return " ".join([*marks, words])
