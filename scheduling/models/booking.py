"""One planned window on one recorder: the unit that starts, stops, and is missed."""

from datetime import datetime, timedelta

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Func, Q, Value

from station.states import Event, Machine


class BookingQuerySet(models.QuerySet["Booking"]):
    def live(self) -> "BookingQuerySet":
        return self.filter(state__in=Booking.live_states())

    def active(self) -> "BookingQuerySet":
        """Those that have, or should have, something running."""
        return self.filter(state__in=Booking.ACTIVE)

    def due(self, now: datetime) -> "BookingQuerySet":
        return self.filter(state__in=[Booking.State.PLANNED, Booking.State.ARMED], opens_at__lte=now)

    def overlapping(self, recorder_id: int, opens_at: datetime, closes_at: datetime) -> "BookingQuerySet":
        return self.live().filter(recorder_id=recorder_id, opens_at__lt=closes_at, closes_at__gt=opens_at)


class Booking(Machine):
    class State(models.TextChoices):
        PLANNED = "planned"
        ARMED = "armed"
        STARTING = "starting"
        RECORDING = "recording"
        RETRY_WAIT = "retry_wait", "waiting to retry"
        STOPPING = "stopping"
        CANCELLING = "cancelling"
        COMPLETED = "completed"
        PARTIAL = "partial"
        FAILED = "failed"
        MISSED = "missed"
        SKIPPED = "skipped"
        CANCELLED = "cancelled"

    MOVES = {
        State.PLANNED: {State.ARMED, State.MISSED, State.SKIPPED, State.CANCELLED},
        State.ARMED: {State.STARTING, State.PLANNED, State.MISSED, State.SKIPPED, State.CANCELLED},
        State.STARTING: {State.RECORDING, State.RETRY_WAIT, State.STOPPING, State.CANCELLING, State.FAILED},
        State.RETRY_WAIT: {State.STARTING, State.STOPPING, State.CANCELLING, State.FAILED},
        State.RECORDING: {State.RETRY_WAIT, State.STOPPING, State.CANCELLING},
        State.STOPPING: {State.COMPLETED, State.PARTIAL, State.FAILED},
        State.CANCELLING: {State.CANCELLED},
        State.COMPLETED: set(),
        State.PARTIAL: set(),
        State.FAILED: set(),
        State.MISSED: set(),
        State.SKIPPED: set(),
        State.CANCELLED: set(),
    }
    ACTIVE = (State.STARTING, State.RETRY_WAIT, State.RECORDING, State.STOPPING, State.CANCELLING)
    DEADLINES = {
        State.STARTING: timedelta(seconds=45),
        State.RETRY_WAIT: timedelta(seconds=60),
        State.STOPPING: timedelta(seconds=60),
        State.CANCELLING: timedelta(seconds=60),
    }
    COLOURS = {
        State.PLANNED: "blue",
        State.ARMED: "blue",
        State.STARTING: "blue",
        State.RETRY_WAIT: "amber",
        State.RECORDING: "yellow",
        State.STOPPING: "amber",
        State.CANCELLING: "amber",
        State.COMPLETED: "green",
        State.PARTIAL: "amber",
        State.FAILED: "red",
        State.MISSED: "red",
        State.SKIPPED: "grey",
        State.CANCELLED: "grey",
    }
    project_path = "recorder__project"

    recorder = models.ForeignKey("scheduling.Recorder", on_delete=models.PROTECT, related_name="bookings")
    title = models.CharField(max_length=120, blank=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    # The window with its padding: from when to when the recorder is really taken.
    opens_at = models.DateTimeField(editable=False)
    closes_at = models.DateTimeField(editable=False)
    requested_by = models.CharField(max_length=150, blank=True, editable=False)
    is_manual = models.BooleanField(default=False, editable=False)

    attempts = models.PositiveIntegerField(default=0, editable=False)
    next_attempt_at = models.DateTimeField(null=True, editable=False)
    errors = models.JSONField(default=list, editable=False)
    late_by_seconds = models.FloatField(null=True, editable=False)
    first_frame_at = models.DateTimeField(null=True, editable=False)
    folder = models.CharField(max_length=400, blank=True, editable=False)
    file_name = models.CharField(max_length=200, blank=True, editable=False)
    outcome = models.CharField(max_length=40, blank=True, editable=False)
    parts = models.JSONField(default=list, editable=False)
    gaps = models.JSONField(default=list, editable=False)
    frames = models.BigIntegerField(default=0, editable=False)
    size_bytes = models.BigIntegerField(default=0, editable=False)

    objects = BookingQuerySet.as_manager()

    class Meta:
        ordering = ["-starts_at", "-id"]
        constraints = [
            # Asked first, because an inverted window would make tstzrange fail with a puzzling error.
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")) & Q(closes_at__gt=F("opens_at")),
                name="booking_ends_after_start",
            ),
            # No double booking, whatever the code above does. A range of one id needs no extension.
            ExclusionConstraint(
                name="booking_no_overlap",
                index_type="GIST",
                expressions=[
                    (
                        Func(F("recorder_id"), F("recorder_id"), Value("[]"), function="int8range"),
                        RangeOperators.OVERLAPS,
                    ),
                    (Func(F("opens_at"), F("closes_at"), function="tstzrange"), RangeOperators.OVERLAPS),
                ],
                condition=Q(
                    state__in=["planned", "armed", "starting", "retry_wait", "recording", "stopping", "cancelling"]
                ),
            ),
        ]
        indexes = [
            # The loop asks for what is active ...
            models.Index(
                fields=["id"],
                condition=Q(state__in=["starting", "retry_wait", "recording", "stopping", "cancelling"]),
                name="booking_active",
            ),
            # ... and for what opens next.
            models.Index(fields=["opens_at"], condition=Q(state__in=["planned", "armed"]), name="booking_due"),
        ]

    def __str__(self) -> str:
        return self.title or f"{self.recorder} #{self.pk}"

    @property
    def owner(self) -> str:
        """Our name towards nodes: workloads and reservations carry it."""
        return f"booking:{self.pk}"


class BookingEvent(Event):
    subject = models.ForeignKey(Booking, on_delete=models.CASCADE, related_name="events")
