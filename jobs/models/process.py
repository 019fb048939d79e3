"""The record of a process that declares jobs: where it runs, its version, its last heartbeat."""

from django.db import models
from django.db.models import Q


class Process(models.Model):
    """One running process of ours. Its record outlives it."""

    is_station_wide = True

    name = models.CharField(max_length=120)  # "studio-a pid 4711"
    # Machine, boot and process namespace, with the start time of the process: enough to prove that it is dead.
    place = models.CharField(max_length=120)
    pid = models.PositiveIntegerField()
    pid_started = models.CharField(max_length=20)
    version = models.CharField(max_length=40, blank=True)
    # Every job in its code, with a word for how it reads the payload (jobs/definitions/payloads.py:reader).
    declares = models.JSONField(default=dict)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Scheduler(Process):
    """One `manage.py runscheduler` process, whether it leads or stands by."""

    class Meta:
        ordering = ["-started_at", "-id"]
        constraints = [
            # A process updates its own record.
            models.UniqueConstraint(fields=["place", "pid", "pid_started"], name="scheduler_once_per_process")
        ]


class JobWorker(Process):
    """One `manage.py runworker` process: what it takes, and how it ended."""

    class Ending(models.TextChoices):
        CLEAN = "clean", "ended"
        CRASHED = "crashed", "crashed"

    heavy_slots = models.PositiveSmallIntegerField()
    light_slots = models.PositiveSmallIntegerField()
    # It takes runs of these jobs only; empty: of all that it declares.
    only_jobs = models.JSONField(default=list)
    ending = models.CharField(max_length=8, blank=True, choices=Ending.choices)
    runs_done = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-started_at", "-id"]
        indexes = [
            # The sweep reads the job workers that should be alive.
            models.Index(fields=["heartbeat_at"], condition=Q(ended_at=None), name="jobworker_alive")
        ]

    def takes(self, name: str) -> bool:
        return name in self.declares and (not self.only_jobs or name in self.only_jobs)
