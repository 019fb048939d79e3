"""Admin pages of runs: waiting, running and finished, with progress, errors, cancel and retry."""

import json
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import display
from unfold.enums import ActionVariant

from jobs.badges import outcome_badge
from jobs.models import Run, RunEvent
from jobs.runs import controls
from jobs.views import run_context
from station.admin.base import EventInline, ReadOnlyRights, StationAdmin
from station.admin.buttons import BulkAction, Button, Operated
from station.admin.subjects import link_to
from station.badges import lines, trace
from station.clock import house_time, spoken

State = Run.State


class FaultFilter(admin.SimpleListFilter):
    """Separates failures of the work from failures of job workers (J-17)."""

    title = "failure"
    parameter_name = "fault"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("work", "the work failed"), ("worker", "the job worker died or stopped responding")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        if self.value() == "work":
            return queryset.exclude(error_code="").exclude(error_code__in=Run.WORKER_FAULTS)
        if self.value() == "worker":
            return queryset.filter(error_code__in=Run.WORKER_FAULTS)
        return queryset


class RunEventInline(EventInline):
    model = RunEvent


@admin.register(Run)
class RunAdmin(Operated, ReadOnlyRights, StationAdmin):
    list_display = ["number", "job", "state_shown", "progress_shown", "trigger", "attempt", "run_shown", "took_shown"]
    list_display += ["requested_by", "fault"]
    list_filter = ["state", FaultFilter, "trigger", "job"]
    list_select_related = ["job"]
    search_fields = ["=id", "job__name", "scope", "owner", "key", "worker_name"]
    show_full_result_count = False
    inlines = [RunEventInline]
    buttons = [
        Button(
            controls.cancel,
            "cancel",
            "Cancel this run?",
            "A waiting run will not start. A run that has already started is asked to stop.",
            submit="Cancel run",
            variant=ActionVariant.DANGER,
        ),
        Button(
            controls.retry,
            "refresh",
            "Retry this run?",
            "It is queued now, with its full number of attempts. Its earlier errors are kept.",
        ),
    ]
    bulk_actions = [BulkAction(controls.cancel, "cancelled"), BulkAction(controls.retry, "queued again")]
    fieldsets = [
        (None, {"fields": ["job", "scope", "now", "trigger", "requested_by", "owner_shown", "key", "priority"]}),
        ("When", {"fields": ["planned_at", "run_at", "created_at", "claimed_at", "finished_at", "took_shown"]}),
        ("Outcome", {"fields": ["attempt_shown", "worker_name", "fault", "errors_shown", "result_shown"]}),
        ("Input", {"fields": ["payload_shown"]}),
    ]
    readonly_fields = [
        "now",
        "owner_shown",
        "took_shown",
        "attempt_shown",
        "fault",
        "errors_shown",
        "result_shown",
        "payload_shown",
    ]

    @display(description="Run", ordering="id")
    def number(self, obj: Run) -> int:
        return int(obj.pk)

    @display(description="State", ordering="state")
    def state_shown(self, obj: Run) -> SafeString:
        return outcome_badge(obj.state, obj.error_code)

    @display(description="Now")
    def now(self, obj: Run) -> SafeString:
        """State and progress; the page refreshes this every two seconds until the run is over."""
        inner = render_to_string("jobs/run_now.html", run_context(obj))
        return format_html('<div id="run-now">{}</div>', mark_safe(inner))

    @display(description="Owner")
    def owner_shown(self, obj: Run) -> SafeString | str:
        return link_to(obj.owner)

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

    @display(description="All errors")
    def errors_shown(self, obj: Run) -> SafeString | str:
        if not obj.errors:
            return "–"
        return lines(
            format_html(
                "Attempt {}, {}: <strong>{}</strong><pre class='airlock-trace'>{}</pre>",
                error.get("attempt"),
                _when(error.get("at", "")),
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


def _pretty(value: Any) -> SafeString | str:
    if value is None:
        return "–"
    return trace(json.dumps(value, indent=1, ensure_ascii=False))


def _when(text: str) -> str:
    """The stored moment of an error in house time."""
    try:
        return house_time(datetime.fromisoformat(text))
    except ValueError:
        return text
