"""A named piece of background work as the database knows it: declared in code, paused by people, placed in time."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from jobs.declared.fire_times import Cron, Every, When
from station.clock import cron, spoken
from station.clock.zones import UnknownZone, zone_of


class JobQuerySet(models.QuerySet["Job"]):
    def planned(self) -> "JobQuerySet":
        """Those the planner cares for."""
        return self.filter(is_declared=True, is_paused=False, is_plannable=True).exclude(trigger=Job.Trigger.QUEUE)


class Job(models.Model):
    """One row per declared job. The code owns what it does; people own whether it runs, and may give it other times."""

    class Trigger(models.TextChoices):
        EVERY = "every", "every so often"
        CRON = "cron", "by cron expression"
        QUEUE = "queue", "when something is queued"

    is_station_wide = True

    name = models.CharField(max_length=60, unique=True, editable=False)
    title = models.CharField(max_length=120, editable=False)
    trigger = models.CharField(max_length=6, choices=Trigger.choices, editable=False)
    every_seconds = models.FloatField(null=True, blank=True, help_text="On a grid that begins at midnight UTC.")
    delay_seconds = models.FloatField(default=0, editable=False)
    cron = models.CharField("cron expression", max_length=100, blank=True)
    zone = models.CharField("time zone", max_length=40, blank=True)
    # Somebody gave it other times than the code says: a deploy leaves them alone.
    is_customised = models.BooleanField(default=False, editable=False)
    # No longer in the code: kept for its history, never run.
    is_declared = models.BooleanField(default=True, editable=False)
    is_paused = models.BooleanField(default=False, editable=False)
    paused_by = models.CharField(max_length=150, blank=True, editable=False)
    # Its times make sense. If not, the planner leaves it alone until they do.
    is_plannable = models.BooleanField(default=True, editable=False)
    # What is wrong with its planning, for people: a bad expression, a scope provider that fails.
    plan_error = models.TextField(blank=True, editable=False)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        permissions = [("operate_job", "Can run, pause, retry and cancel jobs")]

    def __str__(self) -> str:
        return self.name

    @property
    def when(self) -> When | None:
        """The trigger as this row has it; None if it only takes what is queued. ValueError for nonsense (J-04)."""
        if self.trigger == self.Trigger.EVERY:
            return Every(self.every_seconds or 0, self.delay_seconds)
        if self.trigger == self.Trigger.CRON:
            return Cron(self.cron, self.zone)
        return None

    @property
    def in_words(self) -> str:
        """When it runs, for people."""
        if self.trigger == self.Trigger.QUEUE:
            return "when something is queued"
        if self.trigger == self.Trigger.EVERY:
            return f"every {spoken(self.every_seconds or 0)}"
        try:
            return f"{cron.describe(self.cron)} ({self.zone})"
        except ValueError as error:
            return str(error)

    def clean(self) -> None:
        """A clear word beside the field, and nothing stored (S-07)."""
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
            errors["every_seconds"] = "Between a tenth of a second and 31 days."
        if errors:
            raise ValidationError(errors)


class JobCursor(models.Model):
    """Where one job stands in one of its scopes: its next moment. Moves on whatever becomes of a run (J-20)."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="cursors")
    scope = models.CharField(max_length=80, blank=True)
    next_at = models.DateTimeField()
    # Its scope is still there. (Whether the job runs is the job's matter: a pause keeps every place.)
    is_active = models.BooleanField(default=True)

    class Meta:
        constraints = [
            # One place in time per job and scope (J-03).
            models.UniqueConstraint(fields=["job", "scope"], name="cursor_once_per_scope")
        ]
        indexes = [
            # The planner asks each job for what is due next, never for all.
            models.Index(fields=["job", "next_at"], condition=Q(is_active=True), name="cursor_due")
        ]

    def __str__(self) -> str:
        return f"{self.job}{f' ({self.scope})' if self.scope else ''}"


class JobWorker(models.Model):
    """One `manage.py runworker`: where it runs, when it was last heard of, how it ended."""

    class Ending(models.TextChoices):
        CLEAN = "clean", "ended"
        CRASHED = "crashed", "crashed"

    is_station_wide = True

    name = models.CharField(max_length=120)  # "studio-a pid 4711"
    # The machine with its process numbers, and the process's own start: enough to know that it is dead.
    place = models.CharField(max_length=120)
    pid = models.PositiveIntegerField()
    pid_started = models.CharField(max_length=20)
    heavy_slots = models.PositiveSmallIntegerField()
    light_slots = models.PositiveSmallIntegerField()
    only_jobs = models.JSONField(default=list)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    ending = models.CharField(max_length=8, blank=True, choices=Ending.choices)
    runs_done = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-started_at", "-id"]
        indexes = [
            # The sweep asks for those that should be alive.
            models.Index(fields=["heartbeat_at"], condition=Q(ended_at=None), name="jobworker_alive")
        ]

    def __str__(self) -> str:
        return self.name
