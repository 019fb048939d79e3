"""Jobs: when each runs next and how it went last; pause, resume, run now, fill in. And the workers that do the work."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from jobs.badges import outcome_badge
from jobs.declared import registration
from jobs.declared.payloads import BadPayload
from jobs.figures import is_alive, with_figures
from jobs.models import Job, JobWorker, Run
from jobs.runs.queue import NotQueued, run_by_hand
from station import audit
from station.admin.base import ReadOnlyAdmin, StationAdmin, dialog, redirect_after_dialog, report, who
from station.badges import badge, stamp
from station.clock import database_now, spoken

State = Run.State
SCOPES_BY_HAND = 100
TIMES: dict[str, list[str]] = {Job.Trigger.EVERY: ["every_seconds"], Job.Trigger.CRON: ["cron", "zone"]}


@admin.register(Job)
class JobAdmin(StationAdmin):
    list_display = ["name", "state_shown", "words", "next_shown", "last_shown", "title"]
    list_filter = ["is_paused", "trigger", "is_declared"]
    search_fields = ["name", "title"]
    ordering = ["name"]
    actions = ["pause_selected", "resume_selected"]
    actions_detail = ["run_now", "pause", "resume", "backfill"]
    readonly_fields = ["name", "title", "state_shown", "words", "next_shown", "last_shown", "runs_link"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        times = (
            {Job.Trigger.EVERY: ["every_seconds"], Job.Trigger.CRON: ["cron", "zone"]}.get(obj.trigger, [])
            if obj
            else []
        )
        shown = ["name", "title", "state_shown", "words", "next_shown", "last_shown", "runs_link"]
        described = "What you change here survives the next deploy."
        sets: list[Any] = [(None, {"fields": shown})]
        return [*sets, ("Its times", {"fields": times, "description": described})] if times else sets

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_figures(super().get_queryset(request))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # jobs are declared in code

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # their history stays

    def save_model(self, request: HttpRequest, obj: Job, form: Any, change: bool) -> None:
        if form.changed_data:
            obj.is_customised = True
        super().save_model(request, obj, form, change)
        if form.changed_data:
            registration.aim_anew(obj, database_now())
            messages.info(request, f"{obj} runs {obj.in_words} from now on.")

    # --- what is shown ---

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

    # --- what can be done ---

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("jobs.operate_job"))

    def _job(self, request: HttpRequest, obj: Any) -> Job | None:
        return obj if isinstance(obj, Job) else self.get_queryset(request).filter(pk=obj).first()

    def has_pause_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        job = self._job(request, obj)
        return job is not None and not job.is_paused and self.has_operate_permission(request)

    def has_resume_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        job = self._job(request, obj)
        return job is not None and job.is_paused and self.has_operate_permission(request)

    def has_run_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        job = self._job(request, obj)
        return job is not None and job.is_declared and self.has_operate_permission(request)

    def has_backfill_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        job = self._job(request, obj)
        fires = job is not None and job.trigger != Job.Trigger.QUEUE and job.is_declared
        return fires and self.has_operate_permission(request)

    @action(
        description="Run now",
        icon="play_arrow",
        permissions=["run"],
        url_path="run-now",
        variant=ActionVariant.PRIMARY,
        dialog=dialog("Run it now?", "Once, whatever its plan, also while it is paused. Its next time stays.", "Run"),
    )
    def run_now(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        job = self._get(request, object_id)
        here = redirect_after_dialog(reverse("admin:jobs_job_change", args=[object_id]))
        scopes = list(job.cursors.filter(is_active=True).exclude(scope="").values_list("scope", flat=True)) or [""]
        try:
            runs = [run_by_hand(job.name, scope=scope, by=who(request)) for scope in scopes[:SCOPES_BY_HAND]]
        except (NotQueued, BadPayload) as refusal:
            messages.error(request, str(refusal))
            return here
        audit.record(who(request), "run now", job, note=f"runs {', '.join(str(run.pk) for run in runs)}")
        messages.success(request, f"{len(runs)} run{'s' if len(runs) > 1 else ''} of {job} queued.")
        if len(runs) == 1 and request.user.has_perm("jobs.view_run", runs[0]):
            return redirect_after_dialog(reverse("admin:jobs_run_change", args=[runs[0].pk]))
        return here

    @action(
        description="Pause",
        icon="pause",
        permissions=["pause"],
        url_path="pause",
        dialog=dialog("Pause this job?", "Nothing of it starts until it is resumed. What runs now runs on.", "Pause"),
    )
    def pause(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        job = self._get(request, object_id)
        self._pause(request, job)
        messages.success(request, f"{job} is paused.")
        return redirect_after_dialog(reverse("admin:jobs_job_change", args=[object_id]))

    @action(
        description="Resume",
        icon="play_circle",
        permissions=["resume"],
        url_path="resume",
        dialog=dialog("Resume this job?", "It goes on where it stood and catches up as it is told to.", "Resume"),
    )
    def resume(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        job = self._get(request, object_id)
        self._resume(request, job)
        messages.success(request, f"{job} goes on.")
        return redirect_after_dialog(reverse("admin:jobs_job_change", args=[object_id]))

    @action(description="Fill in …", icon="history", permissions=["backfill"], url_path="backfill")
    def backfill(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Only leads to the page that asks which span; nothing happens yet."""
        return redirect("job-backfill", pk=object_id)

    def _get(self, request: HttpRequest, object_id: int) -> Job:
        job: Job = get_object_or_404(self.get_queryset(request), pk=object_id)
        if not self.has_operate_permission(request):
            raise PermissionDenied
        return job

    def _pause(self, request: HttpRequest, job: Job) -> None:
        registration.pause(job, now=database_now(), by=who(request))
        audit.record(who(request), "pause", job)

    def _resume(self, request: HttpRequest, job: Job) -> None:
        registration.resume(job, now=database_now(), by=who(request))
        audit.record(who(request), "resume", job)

    @admin.action(description="Pause", permissions=["operate"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        def act(job: Job) -> tuple[bool, str]:
            if job.is_paused:
                return False, "paused already"
            self._pause(request, job)
            return True, ""

        report(request, queryset, act, "paused")

    @admin.action(description="Resume", permissions=["operate"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        def act(job: Job) -> tuple[bool, str]:
            if not job.is_paused:
                return False, "not paused"
            self._resume(request, job)
            return True, ""

        report(request, queryset, act, "resumed")


@admin.register(JobWorker)
class JobWorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "state_shown", "heartbeat_shown", "running_shown", "runs_done", "slots", "started_shown"]
    list_filter = ["ending"]
    search_fields = ["name"]

    @display(description="State")
    def state_shown(self, obj: JobWorker) -> SafeString:
        if obj.ending == JobWorker.Ending.CRASHED:
            return badge("crashed", "red")
        if obj.ended_at:
            return badge("ended", "grey")
        return badge("working", "green") if is_alive(obj, database_now()) else badge("silent", "amber")

    @display(description="Last heartbeat", ordering="heartbeat_at")
    def heartbeat_shown(self, obj: JobWorker) -> str:
        if obj.ended_at:
            return stamp(obj.heartbeat_at)
        return f"{spoken(max(0.0, (database_now() - obj.heartbeat_at).total_seconds()))} ago"

    @display(description="Runs now")
    def running_shown(self, obj: JobWorker) -> int:
        return Run.objects.filter(state=State.RUNNING, worker_ref=obj.pk).count()

    @display(description="Slots")
    def slots(self, obj: JobWorker) -> str:
        only = f", only {', '.join(obj.only_jobs)}" if obj.only_jobs else ""
        return f"{obj.heavy_slots} heavy, {obj.light_slots} light{only}"

    @display(description="Since", ordering="started_at")
    def started_shown(self, obj: JobWorker) -> str:
        return stamp(obj.started_at)
