"""A job worker without threads or processes: the tests claim, renew and finish runs step by step."""

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from jobs.definitions.job_decorator import registry
from jobs.definitions.run_context import RunContext
from jobs.job_worker.handler_call import Success, call
from jobs.models import JobWorker
from jobs.runs import claiming, process_records, promotion
from jobs.runs.claiming import Claimant, Claimed
from jobs.runs.finishing import Failure, succeed
from jobs.runs.leases import Beat, Held
from jobs.runs.queue import job_row
from jobs.runs.unreadable import fail_or_set_aside
from station.clock import database_now


class HandWorker:
    """Does what a real job worker does in the database, one call at a time."""

    def __init__(self, *names: str) -> None:
        self.specs = {job_row(name).pk: registry.jobs[name] for name in names}
        self.row: JobWorker = process_records.register(heavy=1, light=1, only=[], now=database_now())
        self.who = Claimant(self.row.pk, self.row.name)

    def claim(self, room: int = 1, now: datetime | None = None) -> list[Claimed]:
        now = now or database_now()
        promotion.promote(now, now)
        free = [job for job, spec in self.specs.items() if not spec.concurrency]
        claimed = claiming.claim(self.specs, free, room, self.who, now) if free else []
        for job, spec in self.specs.items():
            if spec.concurrency and len(claimed) < room:
                claimed += claiming.claim_counted(job, spec, room - len(claimed), self.who, now)
        return claimed

    def execute(self, run: Claimed) -> Any:
        """Call the real handler; returns its outcome."""
        spec = self.specs[run.job_id]
        context = RunContext(run.id, spec.name, run.scope, run.attempt, run.trigger, run.planned_at, run.token)
        return call(spec, context, run.payload)

    def finish(self, run: Claimed, outcome: Any = None) -> bool:
        """Write the result as the result writer does; False if the lease was lost."""
        outcome = outcome or Success(None)
        now = database_now()
        if isinstance(outcome, Success):
            return run.id in succeed([run], [outcome.result], now=now, by=self.who.name)
        assert isinstance(outcome, Failure)
        spec = self.specs[run.job_id]
        return fail_or_set_aside(run, outcome, spec, now=now, by=self.who.name) is not None

    def beat(self, *runs: Claimed) -> Beat:
        """Renew the leases, on Django's connection."""
        from jobs.runs.leases import renew

        held = {run.token: Held(run.id, self.specs[run.job_id].lease_seconds) for run in runs}
        connection.ensure_connection()
        return renew(connection.connection, held)


def later(seconds: float) -> datetime:
    return database_now() + timedelta(seconds=seconds)


def work_off(*names: str, limit: int = 200) -> list[tuple[str, Any]]:
    """Execute all waiting runs of these jobs, and the runs they add, in this thread; returns (job, outcome) of each."""
    worker, done = HandWorker(*names), list[tuple[str, Any]]()
    while len(done) < limit:
        claimed = worker.claim()
        if not claimed:
            return done
        outcome = worker.execute(claimed[0])
        worker.finish(claimed[0], outcome)
        done.append((worker.specs[claimed[0].job_id].name, outcome))
    raise AssertionError(f"more than {limit} runs; the last ones: {done[-3:]}")
