"""One execution of a job. The row is the lock, the queue entry and the audit record."""

from datetime import datetime

from django.db import models
from django.db.models import F, Q

from jobs.models.job import Job
from station.states import Event, Machine


class RunQuerySet(models.QuerySet["Run"]):
    def live(self) -> "RunQuerySet":
        return self.filter(state__in=Run.live_states())

    def waiting(self, now: datetime) -> "RunQuerySet":
        """Runs that are due but not promoted to the queue yet."""
        return self.filter(state__in=Run.WAITING, run_at__lte=now)

    def stale(self, now: datetime) -> "RunQuerySet":
        """Running, but the lease has expired, the hard limit has passed, or there is no readable lease (J-12)."""
        over = Q(leased_until_at__lte=now) | Q(leased_until_at=None) | Q(deadline_at__lte=now) | Q(token=None)
        return self.filter(over, state=Run.State.RUNNING).order_by(F("leased_until_at").asc(nulls_first=True))


class Run(Machine):
    class State(models.TextChoices):
        SCHEDULED = "scheduled"
        QUEUED = "queued"
        RUNNING = "running"
        RETRY = "retry", "failed, will retry"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    MOVES = {
        State.SCHEDULED: {State.QUEUED, State.CANCELLED},
        State.QUEUED: {State.RUNNING, State.CANCELLED},
        State.RUNNING: {State.SUCCEEDED, State.RETRY, State.FAILED, State.CANCELLED},
        State.RETRY: {State.QUEUED, State.CANCELLED},
        State.SUCCEEDED: set(),
        State.FAILED: {State.QUEUED},
        State.CANCELLED: {State.QUEUED},
    }
    # Finished; staff may still retry a failed or cancelled run.
    OVER = (State.SUCCEEDED, State.FAILED, State.CANCELLED)
    WAITING = (State.SCHEDULED, State.RETRY)
    COLOURS = {
        State.SCHEDULED: "blue",
        State.QUEUED: "blue",
        State.RUNNING: "yellow",
        State.RETRY: "amber",
        State.SUCCEEDED: "green",
        State.FAILED: "red",
        State.CANCELLED: "grey",
    }

    class Trigger(models.TextChoices):
        PLAN = "plan", "planned"
        QUEUE = "queue", "queued"
        MANUAL = "manual", "by hand"
        BACKFILL = "backfill", "filled in"

    class Fault(models.TextChoices):
        """Why an attempt did not succeed. A crash of the job worker is not a failure of the work (J-17)."""

        RUN_TIMEOUT = "run_timeout", "took too long"
        CANCELLED = "cancelled", "cancelled"
        LEASE_LOST = "lease_lost", "taken over by another job worker"
        HANDLER_ERROR = "handler_error", "failed"
        HANDLER_CRASH = "handler_crash", "the process died"
        STALE_TIMEOUT = "stale_timeout", "the job worker stopped responding"
        WORKER_CRASHED = "worker_crashed", "the job worker died"
        WORKER_STOPPED = "worker_stopped", "the job worker was stopped"
        BAD_PAYLOAD = "bad_payload", "unreadable payload"
        POISON = "poison", "killed its job worker repeatedly"
        HOPELESS = "hopeless", "cannot succeed"

    # The job worker failed, not the work: counted and coloured separately.
    WORKER_FAULTS = (Fault.WORKER_CRASHED, Fault.WORKER_STOPPED, Fault.STALE_TIMEOUT, Fault.LEASE_LOST)

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="runs", db_index=False)
    scope = models.CharField(max_length=80, blank=True)
    project = models.ForeignKey(
        "station.Project", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    # The object it works on, e.g. "asset:12". When that is deleted, its runs are cancelled (J-25).
    owner = models.CharField(max_length=60, blank=True)
    trigger = models.CharField(max_length=8, choices=Trigger.choices)
    planned_at = models.DateTimeField(null=True)
    run_at = models.DateTimeField()
    created_at = models.DateTimeField()
    requested_by = models.CharField(max_length=150, blank=True)
    priority = models.SmallIntegerField(default=0)
    # Position in the round robin: scopes take turns, however many runs one of them has queued.
    turn = models.BigIntegerField(default=0)
    key = models.CharField(max_length=120, blank=True)
    payload = models.JSONField(null=True)
    # Job workers with this word (payloads.reader) could not read the payload: the run waits for others.
    unreadable_by = models.CharField(max_length=16, blank=True)

    attempt = models.PositiveIntegerField(default=0)
    # Attempts that do not count any more, because staff retried the run or its job worker was stopped.
    attempts_forgiven = models.PositiveIntegerField(default=0)
    # Copied from the declaration when queued, so that a process that does not know the job can still rescue the run.
    attempts_allowed = models.PositiveSmallIntegerField(default=1)
    is_reentrant = models.BooleanField(default=True)
    is_exclusive = models.BooleanField(default=False)
    # The lease. Only the holder of the token may renew it and write the result; every claim sets a new token.
    token = models.UUIDField(null=True)
    leased_until_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    worker_ref = models.BigIntegerField(null=True)
    worker_name = models.CharField(max_length=120, blank=True)
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    orphaned_times = models.PositiveSmallIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True)
    cancel_reason = models.CharField(max_length=200, blank=True)
    progress_percent = models.PositiveSmallIntegerField(null=True)
    progress_text = models.CharField(max_length=200, blank=True)
    result = models.JSONField(null=True)
    error_code = models.CharField(max_length=16, blank=True, choices=Fault.choices)
    error = models.TextField(blank=True)
    errors = models.JSONField(default=list)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            # One run per job, scope and planned time, however often it is planned (J-01).
            models.UniqueConstraint(
                fields=["job", "scope", "planned_at"],
                condition=Q(planned_at__isnull=False),
                name="run_once_per_plan",
            ),
            # One live run per key.
            models.UniqueConstraint(
                fields=["job", "key"],
                condition=Q(state__in=["scheduled", "queued", "running", "retry"]) & ~Q(key=""),
                name="run_once_per_key",
            ),
            # An exclusive job has one running run per scope (J-18).
            models.UniqueConstraint(
                fields=["job", "scope"],
                condition=Q(state="running", is_exclusive=True),
                name="run_alone_in_its_scope",
            ),
        ]
        indexes = [
            # Claiming: the ready runs of each job, in order.
            models.Index(
                F("job"), F("priority").desc(), F("turn"), F("id"), condition=Q(state="queued"), name="run_ready"
            ),
            # Claiming: the runs started by hand of a paused job, among its backlog.
            models.Index(fields=["job"], condition=Q(state="queued", trigger="manual"), name="run_ready_by_hand"),
            # Queueing: the last turn of each scope, where its next run is appended.
            models.Index(fields=["job", "scope", "-turn"], condition=Q(state="queued"), name="run_queue_of_scope"),
            # Promotion: waiting runs by due time, retries included, so that none is lost (J-06, J-21).
            models.Index(
                fields=["state", "run_at"], condition=Q(state__in=["scheduled", "retry", "queued"]), name="run_waiting"
            ),
            # Limits: running runs per job and scope. The sweep reads all of them; there are never many.
            # (No index on the lease: a heartbeat that changes no indexed column is a heap-only update.)
            models.Index(fields=["job", "scope"], condition=Q(state="running"), name="run_running"),
            # Cancelling all runs of a deleted object.
            models.Index(
                fields=["owner"],
                condition=Q(state__in=["scheduled", "queued", "running", "retry"]) & ~Q(owner=""),
                name="run_of_owner",
            ),
            # Retention, and the last result of a job.
            models.Index(
                fields=["job", "finished_at"],
                condition=Q(state__in=["succeeded", "failed", "cancelled"]),
                name="run_finished",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job} #{self.pk}"

    @property
    def attempts_left(self) -> int:
        return max(0, self.attempts_allowed + self.attempts_forgiven - self.attempt)

    @property
    def is_worker_fault(self) -> bool:
        return self.error_code in self.WORKER_FAULTS


class RunEvent(Event):
    """What staff did and what went wrong. The run itself stores when it was queued, claimed and finished (J-01)."""

    # No foreign key constraint in the database: checking it would lock the run's row again for every event, thousands
    # of times a second. Only the statements that move the run write events.
    subject = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_constraint=False)
