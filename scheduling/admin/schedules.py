"""Admin of schedules: the rule with its next ten windows, pause and resume, and what an edit does to its bookings."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget

from scheduling.models import Booking, Schedule
from scheduling.models.schedule import house_zone_name
from scheduling.rules import controls
from scheduling.rules.recurrence import WEEKDAY_WORDS
from scheduling.rules.replanning import discard, replan
from scheduling.views.schedules import preview_context
from station import audit
from station.admin.base import StationAdmin, VisibleFilter, who
from station.admin.buttons import BulkAction, Button, Operated
from station.badges import badge, stamp
from station.clock import database_now
from station.clock.zones import zone_names


class ScheduleForm(forms.ModelForm):
    weekdays = forms.MultipleChoiceField(
        choices=[(str(number), word) for number, word in enumerate(WEEKDAY_WORDS)],
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="For “On weekdays”.",
    )
    zone = forms.ChoiceField(
        label="Time zone",
        choices=lambda: [(name, name) for name in zone_names()],
        initial=house_zone_name,
        widget=UnfoldAdminSelectWidget,
    )

    class Meta:
        model = Schedule
        exclude: list[str] = []
        labels = {"min_useful_seconds": "Shortest useful recording", "max_late_seconds": "Maximum lateness"}
        help_texts = {
            "min_useful_seconds": "Seconds. A late start must leave at least this much of the window.",
            "max_late_seconds": "Seconds. Skip the recording if it would start later. Leave empty for no limit.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["weekdays"] = list(self.initial.get("weekdays") or "")

    def clean_weekdays(self) -> str:
        return "".join(sorted(self.cleaned_data["weekdays"]))


@admin.register(Schedule)
class ScheduleAdmin(Operated, StationAdmin):
    form = ScheduleForm
    list_display = ["name", "state_shown", "recorder", "words", "next_shown"]
    list_filter = ["kind", "is_paused", ("recorder__project", VisibleFilter), ("recorder", VisibleFilter)]
    list_select_related = ["recorder", "recorder__project"]
    search_fields = ["name", "recorder__name"]
    readonly_fields = ["state_shown", "preview"]
    buttons = [
        Button(
            controls.pause,
            "pause",
            "Pause this schedule?",
            "Its planned recordings are skipped until it is resumed. What is recording now continues.",
        ),
        Button(
            controls.resume,
            "play_arrow",
            "Resume this schedule?",
            "It continues with its next window; what the pause skipped is planned again where the recorder is free.",
        ),
    ]
    bulk_actions = [BulkAction(controls.pause, "paused"), BulkAction(controls.resume, "resumed")]
    fieldsets = [
        (None, {"fields": ["name", "recorder", "state_shown"]}),
        (
            "When",
            {
                "fields": [
                    "kind",
                    "zone",
                    "first_on",
                    "start_time",
                    "length",
                    "weekdays",
                    "cron",
                    "until_on",
                    "count",
                    "ends",
                ]
            },
        ),
        ("What this means", {"fields": ["preview"]}),
        ("Padding", {"fields": ["pad_before_seconds", "pad_after_seconds"]}),
        ("Policies", {"fields": ["late_start", "min_useful_seconds", "max_late_seconds", "overlap"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Schedule]:
        planned = Booking.objects.filter(schedule=OuterRef("pk"), state=Booking.State.PLANNED).order_by("starts_at")
        upcoming = Subquery(planned.values("starts_at")[:1])
        rows: QuerySet[Schedule] = super().get_queryset(request).annotate(next_start_at=upcoming)
        return rows

    @display(description="State")
    def state_shown(self, obj: Schedule) -> SafeString:
        if obj.pk is None:
            return badge("new", "grey")
        if obj.plan_error:
            return format_html("{} {}", badge("cannot be planned", "red"), obj.plan_error)
        if obj.is_paused:
            return badge("paused", "amber")
        if not obj.recorder.is_active:
            return badge("recorder is off", "grey")
        return badge("active", "green") if obj.plan_due_at else badge("over", "grey")

    @display(description="Rule")
    def words(self, obj: Schedule) -> str:
        return obj.in_words

    @display(description="Next", ordering="next_start_at")
    def next_shown(self, obj: Any) -> str:
        return stamp(obj.next_start_at)

    @display(description="Next ten")
    def preview(self, obj: Schedule) -> SafeString:
        """Reloaded whenever the form changes, so that people see what they are about to save."""
        inner = render_to_string("scheduling/schedule_preview.html", preview_context(obj if obj.pk else None))
        return format_html(
            '<div hx-get="{}" hx-include="closest form" hx-trigger="{}">{}</div>',
            reverse("schedule-preview"),
            "load, change from:closest form delay:200ms",
            mark_safe(inner),
        )

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        if not request.user.has_perm("scheduling.operate_recorder", obj.recorder):
            raise PermissionDenied
        if not change:
            obj.created_by = who(request)
        super().save_model(request, obj, form, change)
        changes = replan(obj, database_now())
        audit.record(who(request), "replan", obj, note=changes.in_words())
        level = messages.WARNING if changes.conflicts else messages.INFO
        messages.add_message(request, level, f"{obj.in_words}. Bookings: {changes.in_words()}")

    def delete_model(self, request: HttpRequest, obj: Schedule) -> None:
        count = discard(obj, database_now())
        super().delete_model(request, obj)
        messages.info(
            request, f"{count} planned bookings were deleted with it. Bookings that have started or ended stay."
        )

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        for schedule in queryset:
            discard(schedule, database_now())
        super().delete_queryset(request, queryset)
