"""Runs: what is waiting, running and done, with progress, errors, retry and cancel."""

import json
from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from jobs.badges import outcome_badge
from jobs.models import Run, RunEvent
from jobs.runs import queue
from jobs.views import run_context
from station import audit
from station.admin.base import EventInline, ReadOnlyRights, StationAdmin, dialog, redirect_after_dialog, report, who
from station.badges import lines
from station.clock import house_time, spoken

State = Run.State
POSSIBLE = {"cancel": tuple(Run.live_states()), "retry": (State.FAILED, State.CANCELLED, State.RETRY)}


class FaultFilter(admin.SimpleListFilter):
    """Failures of the work apart from deaths of workers (J-17)."""

    title = "what went wrong"
    parameter_name = "fault"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("work", "the work failed"), ("worker", "its worker died or went silent")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        if self.value() == "work":
            return queryset.exclude(error_code="").exclude(error_code__in=Run.WORKER_FAULTS)
        if self.value() == "worker":
            return queryset.filter(error_code__in=Run.WORKER_FAULTS)
        return queryset


class RunEventInline(EventInline):
    model = RunEvent


@admin.register(Run)
class RunAdmin(ReadOnlyRights, StationAdmin):
    list_display = ["number", "job", "state_shown", "progress_shown", "trigger", "attempt", "run_shown", "took_shown"]
    list_display += ["requested_by", "fault"]
    list_filter = ["state", FaultFilter, "trigger", "job"]
    list_select_related = ["job"]
    search_fields = ["=id", "job__name", "scope", "owner", "key", "worker_name"]
    show_full_result_count = False
    inlines = [RunEventInline]
    actions = ["cancel_selected", "retry_selected"]
    actions_detail = ["cancel", "retry"]
    fieldsets = [
        (None, {"fields": ["job", "scope", "now", "trigger", "requested_by", "owner", "key", "priority"]}),
        ("When", {"fields": ["planned_at", "run_at", "created_at", "claimed_at", "finished_at", "took_shown"]}),
        ("How it went", {"fields": ["attempt_shown", "worker_name", "fault", "errors_shown", "result_shown"]}),
        ("What it was told", {"fields": ["payload_shown"]}),
    ]
    readonly_fields = ["now", "took_shown", "attempt_shown", "fault", "errors_shown", "result_shown", "payload_shown"]

    # --- what is shown ---

    @display(description="Run", ordering="id")
    def number(self, obj: Run) -> int:
        return int(obj.pk)

    @display(description="State", ordering="state")
    def state_shown(self, obj: Run) -> SafeString:
        return outcome_badge(obj.state, obj.error_code)

    @display(description="Now")
    def now(self, obj: Run) -> SafeString:
        """Asked again every second or two while it is not over."""
        inner = render_to_string("jobs/run_now.html", run_context(obj))
        return format_html('<div id="run-now">{}</div>', mark_safe(inner))

    @display(description="Progress")
    def progress_shown(self, obj: Run) -> SafeString | str:
        if obj.state != State.RUNNING or obj.progress_percent is None:
            return "–"
        return format_html(
            '<progress max="100" value="{}" title="{}"></progress> {} %',
            obj.progress_percent,
            obj.progress_text,
            obj.progress_percent,
        )

    @display(description="Due", ordering="run_at")
    def run_shown(self, obj: Run) -> str:
        return house_time(obj.run_at)

    @display(description="Took")
    def took_shown(self, obj: Run) -> str:
        if obj.claimed_at is None or obj.finished_at is None:
            return "–"
        seconds = max(0.0, (obj.finished_at - obj.claimed_at).total_seconds())
        return f"{seconds:.2f} s" if seconds < 10 else spoken(seconds)

    @display(description="Error")
    def fault(self, obj: Run) -> str:
        if not obj.error_code or obj.state == State.SUCCEEDED:
            return "–"
        text = obj.error.partition("\n")[0][:120]
        return f"{obj.error_code}: {text}" if text else obj.error_code

    @display(description="Attempt")
    def attempt_shown(self, obj: Run) -> str:
        return f"{obj.attempt} of {obj.attempts_allowed + obj.attempts_forgiven}"

    @display(description="Every error")
    def errors_shown(self, obj: Run) -> SafeString | str:
        if not obj.errors:
            return "–"
        return lines(
            format_html(
                "Attempt {}, {}: <strong>{}</strong><pre class='airlock-trace'>{}</pre>",
                error.get("attempt"),
                error.get("at", "")[:19],
                error.get("code"),
                error.get("text"),
            )
            for error in reversed(obj.errors)
        )

    @display(description="Result")
    def result_shown(self, obj: Run) -> SafeString | str:
        return _pretty(obj.result)

    @display(description="Payload")
    def payload_shown(self, obj: Run) -> SafeString | str:
        return _pretty(obj.payload)

    # --- what can be done ---

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("jobs.operate_job", obj))

    def _can(self, request: HttpRequest, obj: Any, what: str) -> bool:
        run = obj if isinstance(obj, Run) else self.get_queryset(request).filter(pk=obj).first()
        return run is not None and run.state in POSSIBLE[what] and self.has_operate_permission(request, run)

    def has_cancel_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, "cancel")

    def has_retry_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, "retry")

    @action(
        description="Cancel",
        icon="cancel",
        permissions=["cancel"],
        url_path="cancel",
        variant=ActionVariant.DANGER,
        dialog=dialog("Cancel this run?", "What waits never runs; what runs is told to stop.", "Cancel it"),
    )
    def cancel(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(request, object_id, "cancel", self._cancel)

    @action(
        description="Retry",
        icon="refresh",
        permissions=["retry"],
        url_path="retry",
        dialog=dialog("Try it again?", "Now, with a fresh count of attempts. Its errors stay on record.", "Retry"),
    )
    def retry(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(request, object_id, "retry", self._retry)

    def _do(
        self, request: HttpRequest, object_id: int, what: str, act: Callable[[HttpRequest, Run], tuple[bool, str]]
    ) -> HttpResponse:
        run: Run = get_object_or_404(self.get_queryset(request), pk=object_id)
        is_good, text = act(request, run) if self._can(request, run, what) else (False, f"it is {run.state_word}")
        if is_good:
            messages.success(request, f"{run}: {text}")
        else:
            messages.warning(request, f"{run}: nothing to do, {text}.")
        return redirect_after_dialog(reverse("admin:jobs_run_change", args=[object_id]))

    def _cancel(self, request: HttpRequest, run: Run) -> tuple[bool, str]:
        was_running = run.state == State.RUNNING
        if not queue.cancel(run, by=who(request)):
            return False, f"it is {run.state_word}"
        audit.record(who(request), "cancel", run)
        return True, "it is told to stop" if was_running else "cancelled"

    def _retry(self, request: HttpRequest, run: Run) -> tuple[bool, str]:
        if not queue.retry(run, by=who(request)):
            return False, f"it is {run.state_word}"
        audit.record(who(request), "retry", run)
        return True, "queued again"

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        report(request, queryset, lambda run: self._each(request, run, "cancel", self._cancel), "cancelled")

    @admin.action(description="Retry", permissions=["operate"])
    def retry_selected(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        report(request, queryset, lambda run: self._each(request, run, "retry", self._retry), "queued again")

    def _each(self, request: HttpRequest, run: Run, what: str, act: Any) -> tuple[bool, str]:
        if not self.has_operate_permission(request, run):
            return False, "not yours"
        return act(request, run) if run.state in POSSIBLE[what] else (False, run.state_word)


def _pretty(value: Any) -> SafeString | str:
    if value is None:
        return "–"
    return format_html("<pre class='airlock-trace'>{}</pre>", json.dumps(value, indent=1, ensure_ascii=False))
