"""Schedules: a rule (once, daily, weekly or cron, in a time zone) with policies, from which bookings are made."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from scheduling.rules.recurrence import MAX_COUNT, Kind, Rule, describe
from station.clock import cron
from station.clock.zones import UnknownZone, zone_of

MAX_LENGTH = timedelta(days=7)


def house_zone_name() -> str:
    return str(settings.HOUSE_TIME_ZONE)


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def to_plan(self, now: datetime) -> "ScheduleQuerySet":
        """Schedules with new windows inside the planning horizon, the longest overdue first."""
        return self.filter(is_paused=False, plan_due_at__lte=now).order_by("plan_due_at")


class Schedule(models.Model):
    class Repeats(models.TextChoices):
        ONCE = Kind.ONCE.value, "Once"
        DAILY = Kind.DAILY.value, "Every day"
        WEEKLY = Kind.WEEKLY.value, "On weekdays"
        CRON = Kind.CRON.value, "Cron expression"

    class Ends(models.TextChoices):
        WALL = "wall", "at the local end time"
        ELAPSED = "elapsed", "after the exact length"

    class Late(models.TextChoices):
        START = "start", "start late"
        SKIP = "skip", "skip it"

    class Overlap(models.TextChoices):
        SKIP = "skip", "skip this one"
        QUEUE = "queue", "start when the recorder is free"
        REPLACE = "replace", "replace the planned booking"

    project_path = "recorder__project"

    name = models.CharField(max_length=80)
    recorder = models.ForeignKey("scheduling.Recorder", on_delete=models.PROTECT, related_name="schedules")
    kind = models.CharField("repeats", max_length=8, choices=Repeats.choices, default=Repeats.DAILY)
    zone = models.CharField("time zone", max_length=40, default=house_zone_name)
    first_on = models.DateField("first day")
    start_time = models.TimeField(
        null=True, blank=True, help_text="Local time in the zone above. Not needed with a cron expression."
    )
    length = models.DurationField(help_text="Hours:minutes:seconds, like 1:30:00.")
    weekdays = models.CharField(max_length=7, blank=True, help_text="Digits from 0 (Monday) to 6 (Sunday).")
    cron = models.CharField(
        "cron expression", max_length=100, blank=True, help_text="Minute, hour, day, month, weekday: 15 20 * * MON-FRI"
    )
    until_on = models.DateField("last day", null=True, blank=True)
    count = models.PositiveIntegerField(
        "how many times",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_COUNT)],
        help_text="Skipped recordings count too.",
    )
    ends = models.CharField(
        "recording ends",
        max_length=8,
        choices=Ends.choices,
        default=Ends.WALL,
        help_text="Makes a difference only on the two days a year when the clocks change.",
    )
    # Keys of occurrences (recurrence.key_of) that were skipped by hand.
    exceptions = models.JSONField(default=list, blank=True, editable=False)

    pad_before_seconds = models.PositiveIntegerField(
        "padding before",
        null=True,
        blank=True,
        validators=[MaxValueValidator(3600)],
        help_text="Seconds. Leave empty to use the recorder's padding.",
    )
    pad_after_seconds = models.PositiveIntegerField(
        "padding after",
        null=True,
        blank=True,
        validators=[MaxValueValidator(3600)],
        help_text="Seconds. Leave empty to use the recorder's padding.",
    )
    late_start = models.CharField("if it cannot start on time", max_length=8, choices=Late.choices, default=Late.START)
    min_useful_seconds = models.PositiveIntegerField(
        default=30, help_text="A late start must leave at least this many seconds of the window."
    )
    max_late_seconds = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Skip the recording if it would start later than this. Leave empty for no limit.",
    )
    overlap = models.CharField("if the recorder is taken", max_length=8, choices=Overlap.choices, default=Overlap.SKIP)
    is_paused = models.BooleanField(default=False, editable=False)

    created_by = models.CharField(max_length=150, blank=True, editable=False)
    # When the next window comes inside the planning horizon. Empty: there are no more.
    plan_due_at = models.DateTimeField(null=True, editable=False)
    planned_until_at = models.DateTimeField(null=True, editable=False)
    plan_error = models.TextField(blank=True, editable=False)

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        indexes = [
            # Planning queries due schedules and the next due time, never all rows.
            models.Index(fields=["plan_due_at"], condition=Q(is_paused=False), name="schedule_to_plan"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def rule(self) -> Rule:
        start_time = self.start_time
        return Rule(
            kind=Kind(self.kind),
            zone=self.zone,
            first_on=self.first_on,
            length=self.length,
            weekdays=frozenset(int(digit) for digit in self.weekdays),
            cron=self.cron,
            until_on=self.until_on,
            count=self.count,
            is_elapsed=self.ends == self.Ends.ELAPSED,
            exceptions=frozenset(self.exceptions),
            **({"start_time": start_time} if start_time else {}),
        )

    @property
    def in_words(self) -> str:
        return describe(self.rule)

    def clean(self) -> None:  # noqa: C901  one check for each field, side by side
        """Show each error of the rule at its field (S-07)."""
        wrong: dict[str, Any] = {}
        try:
            zone_of(self.zone)
        except UnknownZone as error:
            wrong["zone"] = str(error)
        if self.kind == self.Repeats.CRON:
            try:
                self.cron = cron.normalise(self.cron)
            except cron.BadCron as error:
                wrong["cron"] = str(error)
        else:
            self.cron = ""
            if self.start_time is None:
                wrong["start_time"] = "Enter a start time."
        if self.kind == self.Repeats.WEEKLY:
            if not self.weekdays:
                wrong["weekdays"] = "Choose at least one day."
            elif not set(self.weekdays) <= set("0123456"):
                wrong["weekdays"] = "Enter digits from 0 (Monday) to 6 (Sunday)."
        else:
            self.weekdays = ""
        if self.length is not None and not timedelta(seconds=1) <= self.length <= MAX_LENGTH:
            wrong["length"] = "Enter a length between one second and seven days."
        if self.until_on and self.first_on and self.until_on < self.first_on:
            wrong["until_on"] = "The last day is before the first day."
        if wrong:
            raise ValidationError(wrong)
