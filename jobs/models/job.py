"""Jobs and their cursors, as stored in the database."""

from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from jobs.definitions.fire_times import CatchUp, Cron, Every, When
from station.clock import cron, spoken
from station.clock.zones import UnknownZone, zone_of


class JobQuerySet(models.QuerySet["Job"]):
    def planned(self) -> "JobQuerySet":
        """Jobs that the planner makes runs for."""
        return self.filter(is_declared=True, is_paused=False, is_plannable=True).exclude(trigger=Job.Trigger.QUEUE)


class Job(models.Model):
    """One row per declared job. The code defines what it does; staff may pause it or change its times."""

    class Trigger(models.TextChoices):
        EVERY = "every", "at an interval"
        CRON = "cron", "by cron expression"
        QUEUE = "queue", "only when queued"

    is_station_wide = True

    name = models.CharField(max_length=60, unique=True, editable=False)
    title = models.CharField(max_length=120, editable=False)
    trigger = models.CharField(max_length=6, choices=Trigger.choices, editable=False)
    every_seconds = models.FloatField(null=True, blank=True, help_text="Counted from midnight UTC.")
    delay_seconds = models.FloatField(default=0, editable=False)
    cron = models.CharField("cron expression", max_length=100, blank=True)
    zone = models.CharField("time zone", max_length=40, blank=True)
    # Staff changed the times that the code declares. A deploy does not overwrite them.
    is_customised = models.BooleanField(default=False, editable=False)
    # False: in the code of no live process. Kept for its history, never run.
    is_declared = models.BooleanField(default=True, editable=False)
    # The rest of the declaration, so that a leader whose code lacks the job can plan it. Only code can name its scopes.
    has_scopes = models.BooleanField(default=False, editable=False)
    attempts = models.PositiveSmallIntegerField(default=1, editable=False)
    is_reentrant = models.BooleanField(default=True, editable=False)
    is_exclusive = models.BooleanField(default=False, editable=False)
    catch_up_mode = models.CharField(max_length=6, default="latest", editable=False)
    catch_up_window_seconds = models.FloatField(default=86400, editable=False)
    catch_up_per_turn = models.PositiveIntegerField(default=10, editable=False)
    is_paused = models.BooleanField(default=False, editable=False)
    paused_by = models.CharField(max_length=150, blank=True, editable=False)
    # False: its times are invalid. The planner skips it until they are valid again.
    is_plannable = models.BooleanField(default=True, editable=False)
    # Why it cannot be planned, shown to staff: a bad expression, or a scope provider that fails.
    plan_error = models.TextField(blank=True, editable=False)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        permissions = [("operate_job", "Can run, pause, retry and cancel jobs")]

    def __str__(self) -> str:
        return self.name

    @property
    def when(self) -> When | None:
        """The trigger stored in this row; None for a job that is only queued. ValueError if it is invalid (J-04)."""
        if self.trigger == self.Trigger.EVERY:
            return Every(self.every_seconds or 0, self.delay_seconds)
        if self.trigger == self.Trigger.CRON:
            return Cron(self.cron, self.zone)
        return None

    @property
    def catch_up(self) -> CatchUp:
        mode: Literal["latest", "every"] = "every" if self.catch_up_mode == "every" else "latest"
        return CatchUp(mode, self.catch_up_window_seconds, self.catch_up_per_turn)

    @property
    def in_words(self) -> str:
        """When the job runs, as text for staff."""
        if self.trigger == self.Trigger.QUEUE:
            return "only when queued"
        if self.trigger == self.Trigger.EVERY:
            return f"every {spoken(self.every_seconds or 0).removesuffix(' 00 min')}"
        try:
            return f"{cron.describe(self.cron)} ({self.zone})"
        except ValueError as error:
            return str(error)

    def clean(self) -> None:
        """An invalid time is reported beside its field, and nothing is stored (S-07)."""
        errors: dict[str, Any] = {}
        if self.trigger == self.Trigger.CRON:
            try:
                self.cron = cron.normalise(self.cron)
            except cron.BadCron as error:
                errors["cron"] = str(error)
            try:
                zone_of(self.zone)
            except UnknownZone as error:
                errors["zone"] = str(error)
        if self.trigger == self.Trigger.EVERY and not 0.1 <= (self.every_seconds or 0) <= 31 * 86400:
            errors["every_seconds"] = "Enter a value between 0.1 seconds and 31 days."
        if errors:
            raise ValidationError(errors)


class JobCursor(models.Model):
    """The next planned time of one job in one scope. It advances whatever the result of a run is (J-20)."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="cursors")
    scope = models.CharField(max_length=80, blank=True)
    next_at = models.DateTimeField()
    # The scope still exists. A pause is stored with the job and does not change this.
    is_active = models.BooleanField(default=True)

    class Meta:
        constraints = [
            # One next time per job and scope (J-03).
            models.UniqueConstraint(fields=["job", "scope"], name="cursor_once_per_scope")
        ]
        indexes = [
            # The planner reads the next due cursor of each job, never all cursors.
            models.Index(fields=["job", "next_at"], condition=Q(is_active=True), name="cursor_due")
        ]

    def __str__(self) -> str:
        return f"{self.job}{f' ({self.scope})' if self.scope else ''}"
