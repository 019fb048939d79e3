"""Admin pages of the processes that declare jobs: job workers and schedulers, with their versions."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs.models import JobWorker, Process, Run, Scheduler
from jobs.statistics import is_alive
from station.admin.base import ReadOnlyAdmin
from station.badges import badge, stamp
from station.clock import spoken


class ProcessAdmin(ReadOnlyAdmin):
    search_fields = ["name", "version"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).annotate(asked_at=Now())
        return rows

    @display(description="State")
    def state_shown(self, obj: Any) -> SafeString:
        if getattr(obj, "ending", "") == JobWorker.Ending.CRASHED:
            return badge("crashed", "red")
        if obj.ended_at:
            return badge("ended", "grey")
        return badge("working", "green") if is_alive(obj, obj.asked_at) else badge("silent", "amber")

    @display(description="Last heartbeat", ordering="heartbeat_at")
    def heartbeat_shown(self, obj: Any) -> str:
        if obj.ended_at:
            return stamp(obj.heartbeat_at)
        return f"{spoken(max(0.0, (obj.asked_at - obj.heartbeat_at).total_seconds()))} ago"

    @display(description="Number of jobs in its code")
    def jobs_shown(self, obj: Process) -> int:
        return len(obj.declares)

    @display(description="Jobs in its code")
    def declares_shown(self, obj: Process) -> str:
        return ", ".join(sorted(obj.declares)) or "–"

    @display(description="Since", ordering="started_at")
    def started_shown(self, obj: Process) -> str:
        return stamp(obj.started_at)


@admin.register(Scheduler)
class SchedulerAdmin(ProcessAdmin):
    list_display = ["name", "state_shown", "version", "heartbeat_shown", "jobs_shown", "started_shown"]
    fields = [*list_display, "place", "declares_shown"]
    readonly_fields = fields


@admin.register(JobWorker)
class JobWorkerAdmin(ProcessAdmin):
    list_display = [
        "name",
        "state_shown",
        "version",
        "heartbeat_shown",
        "running_shown",
        "runs_done",
        "slots",
        "started_shown",
    ]
    list_filter = ["ending"]
    fields = [*list_display, "ended_at", "place", "declares_shown"]
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        running = Run.objects.filter(state=Run.State.RUNNING, worker_ref=OuterRef("pk")).order_by()
        count = Subquery(running.values("worker_ref").annotate(count=Count("*")).values("count"))
        rows: QuerySet[Any] = super().get_queryset(request).annotate(running_count=Coalesce(count, 0))
        return rows

    @display(description="Running now")
    def running_shown(self, obj: Any) -> int:
        return int(obj.running_count)

    @display(description="Slots")
    def slots(self, obj: JobWorker) -> str:
        only = f", only {', '.join(obj.only_jobs)}" if obj.only_jobs else ""
        return f"{obj.heavy_slots} heavy, {obj.light_slots} light{only}"
