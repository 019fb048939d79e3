"""Workloads: containers or processes that Airlock asked a node to run."""

from datetime import datetime, timedelta

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from station.database.words import Words
from station.states import Event, Machine
from worker.wire import codec
from worker.wire.status import S

# What the search box of the list finds.
WORKLOAD_WORDS = Words("name", "owner")


# Why a workload is lost: neither it nor its node answers.
NODE_GONE = "node_gone"


class WorkloadQuerySet(models.QuerySet["Workload"]):
    def live(self) -> "WorkloadQuerySet":
        return self.filter(state__in=Workload.live_states())

    def to_look_at(self) -> "WorkloadQuerySet":
        """The rows reconcile checks: live workloads, and ended ones whose container is not yet removed."""
        return self.filter(removed_at=None)

    def of(self, owner: str) -> "WorkloadQuerySet":
        return self.filter(owner=owner).order_by("-generation")


class Workload(Machine):
    class State(models.TextChoices):
        REQUESTED = "requested"
        STARTING = "starting"
        RUNNING = "running"
        STOPPING = "stopping"
        EXITED = "exited"
        LOST = "lost"
        FAILED = "failed"

    MOVES = {
        State.REQUESTED: {State.STARTING, State.EXITED, State.FAILED},
        State.STARTING: {State.RUNNING, State.STOPPING, State.EXITED, State.FAILED},
        State.RUNNING: {State.STOPPING, State.EXITED, State.FAILED, State.LOST},
        State.STOPPING: {State.EXITED, State.LOST},
        State.EXITED: set(),
        State.LOST: {State.RUNNING},
        State.FAILED: set(),
    }
    OVER = (State.EXITED, State.LOST, State.FAILED)
    DEADLINES = {
        State.REQUESTED: timedelta(seconds=20),
        State.STARTING: timedelta(seconds=30),
        State.RUNNING: timedelta(seconds=30),  # each heartbeat extends it
        State.STOPPING: timedelta(seconds=30),
    }
    COLOURS = {
        State.REQUESTED: "blue",
        State.STARTING: "blue",
        State.RUNNING: "green",
        State.STOPPING: "amber",
        State.EXITED: "grey",
        State.LOST: "red",
        State.FAILED: "red",
    }
    owner = models.CharField(max_length=60)  # "booking:12"
    generation = models.PositiveIntegerField()
    project = models.ForeignKey("station.Project", null=True, on_delete=models.SET_NULL, related_name="+")
    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="workloads")
    name = models.CharField(max_length=120, unique=True)
    program = models.CharField(max_length=20)  # the program of worker/: "capture"
    spec = models.JSONField(default=dict)
    secrets_sealed = models.TextField(blank=True, editable=False)
    control_port = models.PositiveIntegerField()
    is_wanted = models.BooleanField(default=True)
    # The supervision policy; nodes.workloads.supervision_policy explains each field.
    poll_seconds = models.FloatField(default=2.0)
    silence_seconds = models.FloatField(null=True)
    is_fenced = models.BooleanField(default=False)
    memory_mb = models.PositiveIntegerField(default=1024)
    epoch = models.BigIntegerField(default=0)

    # One actor at a time calls the runtime for this row. The lease of a crashed actor expires (nodes.workloads).
    leased_until_at = models.DateTimeField(null=True, editable=False)
    # The epoch of the leader that holds the lease (0: a web process). A newer leader ignores an older one's lease.
    lease_epoch = models.BigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField()
    called_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    # Consecutive checks without an answer (P-04).
    missed_looks = models.PositiveIntegerField(default=0)
    progress_at = models.DateTimeField(null=True)
    progress = models.JSONField(default=dict)
    stop_signals = models.PositiveSmallIntegerField(default=0)
    signalled_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    exit_reason = models.CharField(max_length=40, blank=True)
    error = models.TextField(blank=True)
    log_tail = models.TextField(blank=True)
    removed_at = models.DateTimeField(null=True)

    objects = WorkloadQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            # A repeated start of the same generation finds this row.
            models.UniqueConstraint(fields=["owner", "generation"], name="workload_once_per_generation"),
            # Two live media workers of a node never share a control port.
            models.UniqueConstraint(
                fields=["node", "control_port"],
                condition=Q(state__in=["requested", "starting", "running", "stopping"]),
                name="workload_control_port_alone",
            ),
            # One sender and one writer per owner (P-14): a successor needs an unwanted or ended predecessor.
            models.UniqueConstraint(
                fields=["owner"],
                condition=Q(is_wanted=True, state__in=["requested", "starting", "running", "stopping"]),
                name="workload_one_wanted",
            ),
        ]
        indexes = [
            # The search box of the list: words by their beginnings.
            GinIndex(WORKLOAD_WORDS, name="workload_words"),
            # Reconcile queries the workloads that are not removed yet.
            models.Index(fields=["node"], condition=Q(removed_at=None), name="workload_to_look_at"),
        ]

    def __str__(self) -> str:
        return self.name

    def status(self, kind: type[S]) -> S:
        """What its media worker reported last (`progress`), or an empty report before the first."""
        return codec.decode(kind, {"owner": self.owner, "generation": self.generation or 0, **self.progress})

    @property
    def wanted_end_at(self) -> datetime | None:
        """When its media worker is to end by itself."""
        return codec.decode(datetime, self.spec["ends_at"]) if self.spec.get("ends_at") else None

    @property
    def is_wanted_and_live(self) -> bool:
        """Does it serve its owner now, or will it? Then the owner needs no other."""
        return self.is_wanted and not self.is_over

    @property
    def is_settled(self) -> bool:
        """Is it running and wanted? Then it only needs regular checks."""
        return self.is_wanted and self.state == self.State.RUNNING


class WorkloadEvent(Event):
    subject = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="events")
