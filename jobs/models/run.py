"""One execution of a job: the row is the lock, the queue and the audit log."""

from datetime import datetime

from django.db import models
from django.db.models import F, Q

from jobs.models.job import Job
from station.states import Event, Machine


class RunQuerySet(models.QuerySet["Run"]):
    def live(self) -> "RunQuerySet":
        return self.filter(state__in=Run.live_states())

    def waiting(self, now: datetime) -> "RunQuerySet":
        """Those whose time has come, though nobody has said so yet."""
        return self.filter(state__in=Run.WAITING, run_at__lte=now)

    def stale(self, now: datetime) -> "RunQuerySet":
        """Running, but the lease ran out, the hard limit passed, or there is none that could be read (J-12)."""
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
    # Over, though a person may have them tried again.
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
        BACKFILL = "backfill", "filled in later"

    class Fault(models.TextChoices):
        """Why an attempt did not succeed. A crash of the worker is not a failure of the work (J-17)."""

        RUN_TIMEOUT = "run_timeout", "took too long"
        CANCELLED = "cancelled", "cancelled"
        LEASE_LOST = "lease_lost", "taken over by another worker"
        HANDLER_ERROR = "handler_error", "failed"
        HANDLER_CRASH = "handler_crash", "its process died"
        STALE_TIMEOUT = "stale_timeout", "its worker went silent"
        WORKER_CRASHED = "worker_crashed", "its worker died"
        WORKER_STOPPED = "worker_stopped", "its worker was stopped"
        BAD_PAYLOAD = "bad_payload", "unreadable payload"
        POISON = "poison", "killed its worker again and again"
        HOPELESS = "hopeless", "would fail again"

    # The worker's end, not the work's: counted and coloured apart.
    WORKER_FAULTS = (Fault.WORKER_CRASHED, Fault.WORKER_STOPPED, Fault.STALE_TIMEOUT, Fault.LEASE_LOST)

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="runs", db_index=False)
    scope = models.CharField(max_length=80, blank=True)
    project = models.ForeignKey(
        "station.Project", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    # What it is about, "asset:12": when that goes, its runs are cancelled (J-25).
    owner = models.CharField(max_length=60, blank=True)
    trigger = models.CharField(max_length=8, choices=Trigger.choices)
    planned_at = models.DateTimeField(null=True)
    run_at = models.DateTimeField()
    created_at = models.DateTimeField()
    requested_by = models.CharField(max_length=150, blank=True)
    priority = models.SmallIntegerField(default=0)
    # The scope's place in the round: scopes take turns, however much one of them has queued.
    turn = models.BigIntegerField(default=0)
    key = models.CharField(max_length=120, blank=True)
    payload = models.JSONField(null=True)

    attempt = models.PositiveIntegerField(default=0)
    # Attempts before this one do not count: somebody asked for a fresh try.
    attempts_forgiven = models.PositiveIntegerField(default=0)
    # What the code said when it was queued, so that a process that does not know the job can still rescue it.
    attempts_allowed = models.PositiveSmallIntegerField(default=1)
    is_reentrant = models.BooleanField(default=True)
    is_exclusive = models.BooleanField(default=False)
    # The lease: whoever knows the token may renew it and write the end; it changes with every claim.
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
            # The lock of a plan: one run per job, scope and moment, whoever plans it and how often (J-01).
            models.UniqueConstraint(
                fields=["job", "scope", "planned_at"],
                condition=Q(planned_at__isnull=False),
                name="run_once_per_plan",
            ),
            # Queued twice under one key is queued once, until it is over.
            models.UniqueConstraint(
                fields=["job", "key"],
                condition=Q(state__in=["scheduled", "queued", "running", "retry"]) & ~Q(key=""),
                name="run_once_per_key",
            ),
            # The last guard against overlap (J-18): of an exclusive job one run per scope at a time.
            models.UniqueConstraint(
                fields=["job", "scope"],
                condition=Q(state="running", is_exclusive=True),
                name="run_alone_in_its_scope",
            ),
        ]
        indexes = [
            # The claim: of each job what is ready, in its order.
            models.Index(
                F("job"), F("priority").desc(), F("turn"), F("id"), condition=Q(state="queued"), name="run_ready"
            ),
            # By hand a paused job may run too; this finds those among a paused backlog.
            models.Index(fields=["job"], condition=Q(state="queued", trigger="manual"), name="run_ready_by_hand"),
            # The end of each scope's queue: where its next run takes its turn.
            models.Index(fields=["job", "scope", "-turn"], condition=Q(state="queued"), name="run_queue_of_scope"),
            # What waits for its time, retries included, so that none is ever lost (J-06, J-21); and the next instant.
            models.Index(
                fields=["state", "run_at"], condition=Q(state__in=["scheduled", "retry", "queued"]), name="run_waiting"
            ),
            # Limits: how many run, of which job and scope. The sweep reads it whole; there are never many.
            # (No index on the lease: a heartbeat that changes no index is rewritten in place.)
            models.Index(fields=["job", "scope"], condition=Q(state="running"), name="run_running"),
            # Everything about a thing that goes.
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
    """What people did, and what went wrong. When it was queued, claimed and done stands in the run itself (J-01)."""

    # Without a constraint in the database: checking it would lock the run's row once more for every event, thousands of
    # times a second. Events are written only by the statements that move the run.
    subject = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_constraint=False)
