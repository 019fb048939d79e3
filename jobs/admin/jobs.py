"""Admin pages of jobs: next run, last result; run now, pause, resume, fill in."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from jobs.badges import outcome_badge
from jobs.definitions import registration
from jobs.models import Job
from jobs.runs import controls
from jobs.statistics import with_figures
from station.admin.base import StationAdmin, find
from station.admin.buttons import BulkAction, Button, Operated
from station.badges import badge, stamp
from station.clock import database_now

TIMES: dict[str, list[str]] = {Job.Trigger.EVERY: ["every_seconds"], Job.Trigger.CRON: ["cron", "zone"]}


@admin.register(Job)
class JobAdmin(Operated, StationAdmin):
    list_display = ["name", "title", "state_shown", "words", "next_shown", "last_shown"]
    list_filter = ["is_paused", "trigger", "is_declared"]
    search_fields = ["name", "title"]
    ordering = ["name"]
    buttons = [
        Button(
            controls.run_now,
            "play_arrow",
            "Run this job now?",
            "It runs once, outside its schedule and even while it is paused. Its next planned time does not change.",
            submit="Run",
            variant=ActionVariant.PRIMARY,
            goes_to_target=True,
        ),
        Button(
            controls.pause,
            "pause",
            "Pause this job?",
            "No run of this job starts until it is resumed. A run that has already started continues.",
        ),
        Button(
            controls.resume,
            "play_circle",
            "Resume this job?",
            "It continues from where it was paused. Missed runs are caught up as the job's declaration says.",
        ),
    ]
    bulk_actions = [BulkAction(controls.pause, "paused"), BulkAction(controls.resume, "resumed")]
    actions_detail = ["backfill"]
    readonly_fields = ["name", "title", "state_shown", "words", "next_shown", "last_shown", "runs_link"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        times = TIMES.get(obj.trigger, []) if obj else []
        shown = ["name", "title", "state_shown", "words", "next_shown", "last_shown", "runs_link"]
        described = "Changes made here are kept when a new version is deployed."
        sets: list[Any] = [(None, {"fields": shown})]
        return [*sets, ("Schedule", {"fields": times, "description": described})] if times else sets

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_figures(super().get_queryset(request))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # jobs are declared in code

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # a job's history is kept

    def save_model(self, request: HttpRequest, obj: Job, form: Any, change: bool) -> None:
        if form.changed_data:
            obj.is_customised = True
        super().save_model(request, obj, form, change)
        if form.changed_data:
            registration.aim_anew(obj, database_now())
            messages.info(request, f"{obj} now runs {obj.in_words}.")

    # --- columns and fields ---

    @display(description="State")
    def state_shown(self, obj: Job) -> SafeString:
        if obj.plan_error:
            return format_html("{} {}", badge("cannot be planned", "red"), obj.plan_error)
        if not obj.is_declared:
            return badge("not in the code", "grey")
        if obj.is_paused:
            return format_html("{} by {}", badge("paused", "amber"), obj.paused_by)
        return badge("active", "green")

    @display(description="Runs")
    def words(self, obj: Job) -> str:
        return f"{obj.in_words}{' (changed by hand)' if obj.is_customised else ''}"

    @display(description="Next", ordering="next_at")
    def next_shown(self, obj: Any) -> str:
        return stamp(obj.next_at)

    @display(description="Last", ordering="last_at")
    def last_shown(self, obj: Any) -> SafeString | str:
        if not obj.last_state:
            return "–"
        return format_html("{} {}", outcome_badge(obj.last_state, obj.last_code), stamp(obj.last_at))

    @display(description="History")
    def runs_link(self, obj: Job) -> SafeString:
        url = f"{reverse('admin:jobs_run_changelist')}?job__id__exact={obj.pk}"
        return format_html('<a class="text-link" href="{}">All runs of this job</a>', url)

    # --- a button that is only a link ---

    def has_backfill_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        job = obj if isinstance(obj, Job) else find(self.get_queryset(request), obj)
        fires = job is not None and job.trigger != Job.Trigger.QUEUE and controls.backfill.is_possible(job)
        return fires and controls.backfill.may(request.user, job)

    @action(description="Missing runs …", icon="history", permissions=["backfill"], url_path="backfill")
    def backfill(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Open the page that asks for the period. Nothing is queued yet."""
        return redirect("job-backfill", pk=object_id)
