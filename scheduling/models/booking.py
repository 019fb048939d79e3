"""Bookings: one planned window on one recorder, which starts, stops, or is missed."""

from datetime import datetime, timedelta

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import BigIntegerRangeField, DateTimeRangeField, RangeOperators
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange, NumericRange
from django.db.models import F, Func, Q, Value
from psycopg.types.multirange import TimestamptzMultirange

from station.database.words import Words
from station.states import Event, Machine
from worker.wire import codec
from worker.wire.parts_and_gaps import Gap, Part


class BookingQuerySet(models.QuerySet["Booking"]):
    def live(self) -> "BookingQuerySet":
        return self.filter(state__in=Booking.live_states())

    def active(self) -> "BookingQuerySet":
        """Bookings that have, or should have, a running media worker."""
        return self.filter(state__in=Booking.ACTIVE)

    def overdue(self, moment: datetime) -> "BookingQuerySet":
        """Bookings that should have started by `moment` but have not."""
        return self.filter(state__in=[Booking.State.PLANNED, Booking.State.ARMED], opens_at__lte=moment)

    def before_start(self) -> "BookingQuerySet":
        """Planned and armed bookings."""
        return self.filter(state__in=[Booking.State.PLANNED, Booking.State.ARMED])

    def to_file(self) -> "BookingQuerySet":
        """Ended bookings with recorded files that are not in the library yet."""
        return self.filter(filed_at=None, size_bytes__gt=0, state__in=Booking.LEAVES_FILES)

    def overlapping(self, recorder_id: int, *windows: tuple[datetime, datetime]) -> "BookingQuerySet":
        """Live bookings whose padded window overlaps one of these.

        It uses the expressions of the exclusion constraint, so that PostgreSQL uses its index, however long the
        recorder's history is.
        """
        rows = self.live().alias(lane=LANE, window=WINDOW)
        one = NumericRange(recorder_id, recorder_id, "[]")
        spans = TimestamptzMultirange(DateTimeTZRange(*window) for window in windows)
        return rows.filter(lane__overlap=one, window__overlap=spans)


# What the search box of the list finds.
BOOKING_WORDS = Words("title", "requested_by", "folder", "file_name")
LANE = Func(F("recorder_id"), F("recorder_id"), Value("[]"), function="int8range", output_field=BigIntegerRangeField())
WINDOW = Func(F("opens_at"), F("closes_at"), function="tstzrange", output_field=DateTimeRangeField())


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
        State.STARTING: {State.RECORDING, State.RETRY_WAIT, State.STOPPING, State.CANCELLING},
        State.RETRY_WAIT: {State.STARTING, State.STOPPING, State.CANCELLING},
        State.RECORDING: {State.RETRY_WAIT, State.STOPPING, State.CANCELLING},
        State.STOPPING: {State.COMPLETED, State.PARTIAL, State.FAILED},
        State.CANCELLING: {State.CANCELLED},
        State.COMPLETED: set(),
        State.PARTIAL: set(),
        State.FAILED: set(),
        State.MISSED: set(),
        State.SKIPPED: {State.PLANNED},
        State.CANCELLED: {State.PLANNED},
    }
    # A person may still restore the last two until their window ends.
    OVER = (State.COMPLETED, State.PARTIAL, State.FAILED, State.MISSED, State.SKIPPED, State.CANCELLED)
    LEAVES_FILES = (State.COMPLETED, State.PARTIAL, State.FAILED, State.CANCELLED)
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

    class Late(models.TextChoices):
        START = "start", "start late"
        SKIP = "skip", "skip it"

    class Skip(models.TextChoices):
        """Why a booking was skipped."""

        CONFLICT = "conflict", "the recorder is taken"
        BY_HAND = "by_hand", "skipped by hand"
        PAUSED = "paused", "its schedule is paused"
        LATE = "late", "too late to start"
        REPLACED = "replaced", "replaced by another booking"
        OFF = "off", "its recorder was switched off"

    project_path = "recorder__project"

    # The schedule and the occurrence it was made from; empty if it was booked by hand.
    schedule = models.ForeignKey(
        "scheduling.Schedule", null=True, editable=False, on_delete=models.SET_NULL, related_name="bookings"
    )
    planned_start_at = models.DateTimeField(null=True, editable=False)
    local_start = models.CharField(max_length=21, blank=True, editable=False)
    recorder = models.ForeignKey("scheduling.Recorder", on_delete=models.PROTECT, related_name="bookings")
    title = models.CharField(max_length=120, blank=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    # The window with its padding: the time the recorder is occupied.
    opens_at = models.DateTimeField(editable=False)
    closes_at = models.DateTimeField(editable=False)
    requested_by = models.CharField(max_length=150, blank=True, editable=False)
    is_manual = models.BooleanField(default=False, editable=False)
    # Its times were edited by hand: an edit of the schedule does not change it.
    is_edited = models.BooleanField(default=False, editable=False)
    # The requested padding; opens_at and closes_at hold what the neighbours leave of it.
    pad_before_seconds = models.PositiveIntegerField("padding before", default=0, editable=False)
    pad_after_seconds = models.PositiveIntegerField("padding after", default=0, editable=False)
    late_start = models.CharField(max_length=8, choices=Late.choices, default=Late.START, editable=False)
    min_useful_seconds = models.PositiveIntegerField(default=30, editable=False)
    max_late_seconds = models.PositiveIntegerField(null=True, editable=False)
    skip_reason = models.CharField(max_length=10, blank=True, choices=Skip.choices, editable=False)
    # The epoch of the leader that armed it; an older leader may not start it.
    epoch = models.BigIntegerField(default=0, editable=False)

    attempts = models.PositiveIntegerField(default=0, editable=False)
    next_attempt_at = models.DateTimeField(null=True, editable=False)
    errors = models.JSONField(default=list, editable=False)
    # Punctuality: when it was claimed, dispatched, its container created, its first frame and byte recorded.
    claimed_at = models.DateTimeField(null=True, editable=False)
    dispatched_at = models.DateTimeField(null=True, editable=False)
    late_by_seconds = models.FloatField(null=True, editable=False)
    container_at = models.DateTimeField(null=True, editable=False)
    first_frame_at = models.DateTimeField(null=True, editable=False)
    first_byte_at = models.DateTimeField(null=True, editable=False)
    # Pre-flight: the findings, their time, and the time of the next check.
    preflight = models.JSONField(default=list, editable=False)
    preflight_at = models.DateTimeField(null=True, editable=False)
    next_preflight_at = models.DateTimeField(null=True, editable=False)
    folder = models.CharField(max_length=400, blank=True, editable=False)
    file_name = models.CharField(max_length=200, blank=True, editable=False)
    outcome = models.CharField(max_length=40, blank=True, editable=False)
    parts = models.JSONField(default=list, editable=False)
    # While it records: the newest state of the parts that grew since `parts` was written. So a poll writes one part
    # and not thousands. Use `read_parts`.
    growing = models.JSONField(default=list, editable=False)
    gaps = models.JSONField(default=list, editable=False)
    frames = models.BigIntegerField(default=0, editable=False)
    size_bytes = models.BigIntegerField(default=0, editable=False)
    # When the library took over its files; empty until then.
    filed_at = models.DateTimeField(null=True, editable=False)

    objects = BookingQuerySet.as_manager()

    class Meta:
        ordering = ["-starts_at", "-id"]
        constraints = [
            # Checked first, because an inverted window would make tstzrange fail with an unclear error.
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")) & Q(closes_at__gt=F("opens_at")),
                name="booking_ends_after_start",
            ),
            # Each window of a rule is booked once, however often it is planned.
            models.UniqueConstraint(fields=["schedule", "planned_start_at"], name="booking_once_per_occurrence"),
            # No double booking, whatever the code does. A range of one id needs no extension.
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
            # The loop queries the active bookings ...
            models.Index(
                fields=["id"],
                condition=Q(state__in=["starting", "retry_wait", "recording", "stopping", "cancelling"]),
                name="booking_active",
            ),
            # ... and those that open next.
            models.Index(fields=["opens_at"], condition=Q(state="planned"), name="booking_to_arm"),
            # A new leader queries the bookings that an older leader armed; there are never many.
            models.Index(fields=["epoch"], condition=Q(state="armed"), name="booking_armed"),
            # Pre-flight queries the bookings to check next.
            models.Index(
                fields=["next_preflight_at"],
                condition=Q(state="planned", next_preflight_at__isnull=False),
                name="booking_preflight",
            ),
            # The library queries ended bookings with files it has not taken over.
            models.Index(
                fields=["id"],
                condition=Q(filed_at=None, size_bytes__gt=0)
                & Q(state__in=["completed", "partial", "failed", "cancelled"]),
                name="booking_to_file",
            ),
            # The search box of the list: words by their beginnings.
            GinIndex(BOOKING_WORDS, name="booking_words"),
            # Pages that list bookings by time: today, tonight, the calendar.
            models.Index(fields=["starts_at"], name="booking_by_start"),
        ]

    def read_parts(self) -> list[Part]:
        """The columns `parts` and `growing`, decoded."""
        return self.overlay_growing(self.read_stored_parts())

    def read_stored_parts(self) -> list[Part]:
        """The column `parts`, decoded."""
        return codec.decode(list[Part], self.parts, "parts")

    def overlay_growing(self, stored: list[Part]) -> list[Part]:
        newest = {part.number: part for part in codec.decode(list[Part], self.growing, "growing")}
        return [newest.get(part.number, part) for part in stored]

    def read_gaps(self) -> list[Gap]:
        """The column `gaps`, decoded."""
        return codec.decode(list[Gap], self.gaps, "gaps")

    def __str__(self) -> str:
        return self.title or f"{self.recorder} #{self.pk}"

    @property
    def useful_seconds(self) -> float:
        """A late start must leave this much of the window: the configured seconds, at most half of a short window."""
        return min(float(self.min_useful_seconds), (self.ends_at - self.starts_at).total_seconds() / 2)

    @property
    def owner(self) -> str:
        """The owner name of its workloads and reservations."""
        return f"booking:{self.pk}"


class BookingEvent(Event):
    subject = models.ForeignKey(Booking, on_delete=models.CASCADE, related_name="events")
