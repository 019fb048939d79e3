"""Schedules: the rule with its next ten windows beside it, pause and resume, and what an edit did to its bookings."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Min, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget

from scheduling.models import Booking, Schedule
from scheduling.models.schedule import house_zone_name
from scheduling.rules.recurrence import WEEKDAY_WORDS
from scheduling.rules.replanning import discard, pause, replan, resume
from scheduling.views.schedules import preview_context
from station import audit
from station.admin.base import StationAdmin, VisibleFilter, dialog, redirect_after_dialog, report, who
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["weekdays"] = list(self.initial.get("weekdays") or "")

    def clean_weekdays(self) -> str:
        return "".join(sorted(self.cleaned_data["weekdays"]))


@admin.register(Schedule)
class ScheduleAdmin(StationAdmin):
    form = ScheduleForm
    list_display = ["name", "state_shown", "recorder", "words", "next_shown"]
    list_filter = ["kind", "is_paused", ("recorder__project", VisibleFilter), ("recorder", VisibleFilter)]
    list_select_related = ["recorder", "recorder__project"]
    search_fields = ["name", "recorder__name"]
    readonly_fields = ["state_shown", "preview"]
    actions = ["pause_selected", "resume_selected"]
    actions_detail = ["pause", "resume"]
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
        upcoming = Min("bookings__starts_at", filter=Q(bookings__state=Booking.State.PLANNED))
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
        return badge("active", "green") if obj.plan_due_at else badge("over", "grey")

    @display(description="Rule")
    def words(self, obj: Schedule) -> str:
        return obj.in_words

    @display(description="Next", ordering="next_start_at")
    def next_shown(self, obj: Any) -> str:
        return stamp(obj.next_start_at)

    @display(description="Next ten")
    def preview(self, obj: Schedule) -> SafeString:
        """Asked again whenever the form changes, so that people see what they are about to save."""
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
        messages.info(request, f"{count} planned bookings went with it; what has begun or happened stays.")

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        for schedule in queryset:
            discard(schedule, database_now())
        super().delete_queryset(request, queryset)

    def _changeable(self, request: HttpRequest, obj: Any) -> Schedule | None:
        schedule = obj if isinstance(obj, Schedule) else self.get_queryset(request).filter(pk=obj).first()
        return schedule if schedule is not None and self.has_change_permission(request, schedule) else None

    def has_pause_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        schedule = self._changeable(request, obj)
        return schedule is not None and not schedule.is_paused

    def has_resume_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        schedule = self._changeable(request, obj)
        return schedule is not None and schedule.is_paused

    @action(
        description="Pause",
        icon="pause",
        permissions=["pause"],
        url_path="pause",
        dialog=dialog(
            "Pause this schedule?",
            "Its planned recordings are skipped until it is resumed. What runs now runs on.",
            "Pause",
        ),
    )
    def pause(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        schedule = self._get(request, object_id)
        count = pause(schedule, now=database_now(), by=who(request))
        audit.record(who(request), "pause", schedule)
        messages.success(request, f"{schedule} is paused; {count} planned recordings are skipped.")
        return redirect_after_dialog(reverse("admin:scheduling_schedule_change", args=[object_id]))

    @action(
        description="Resume",
        icon="play_arrow",
        permissions=["resume"],
        url_path="resume",
        dialog=dialog(
            "Resume this schedule?",
            "It goes on with its next window; what the pause skipped is planned again where it is free.",
            "Resume",
        ),
    )
    def resume(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        schedule = self._get(request, object_id)
        changes = resume(schedule, now=database_now(), by=who(request))
        audit.record(who(request), "resume", schedule)
        messages.success(request, f"{schedule} goes on: {changes.in_words()}")
        return redirect_after_dialog(reverse("admin:scheduling_schedule_change", args=[object_id]))

    def _get(self, request: HttpRequest, object_id: int) -> Schedule:
        schedule: Schedule = get_object_or_404(self.get_queryset(request), pk=object_id)
        if not self.has_change_permission(request, schedule):
            raise PermissionDenied
        return schedule

    @admin.action(description="Pause", permissions=["change"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        def act(schedule: Schedule) -> tuple[bool, str]:
            if not self.has_pause_permission(request, schedule):
                return False, "paused already or not yours"
            pause(schedule, now=database_now(), by=who(request))
            audit.record(who(request), "pause", schedule)
            return True, ""

        report(request, queryset, act, "paused")

    @admin.action(description="Resume", permissions=["change"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        def act(schedule: Schedule) -> tuple[bool, str]:
            if not self.has_resume_permission(request, schedule):
                return False, "not paused or not yours"
            resume(schedule, now=database_now(), by=who(request))
            audit.record(who(request), "resume", schedule)
            return True, ""

        report(request, queryset, act, "resumed")
