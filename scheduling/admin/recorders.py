"""Admin of recorders: source settings, Start and Stop, and what is happening now."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminSelectWidget, UnfoldBooleanSwitchWidget

from scheduling.bookings.making import reserve_ports_again
from scheduling.models import Booking, Recorder
from scheduling.recorders.sources import EXAMPLES, SECRET_NAMES, SourceType
from scheduling.recording import controls
from scheduling.rules import switching
from scheduling.rules.controls import switch_off, switch_on
from scheduling.views.recorders import now_context
from station.admin.base import StationAdmin, VisibleFilter, who
from station.admin.buttons import Button, Operated
from station.badges import badge, lines, stamp, state_badge
from station.clock import database_now, spoken
from station.sealing import CannotOpen

START: dict[str, Any] = {
    "action": controls.start_now,
    "icon": "fiber_manual_record",
    "question": "Start recording now?",
    "means": "The recorder starts at once. If nobody stops it, it ends when the next booking starts, or after "
    f"{spoken(settings.RECORD_NOW_MAX.total_seconds())}.",
}
STOP: dict[str, Any] = {
    "action": controls.stop_now,
    "icon": "stop",
    "question": "Stop the recording?",
    "means": "What was recorded is kept. The rest of the window is not recorded.",
}


class RecorderForm(forms.ModelForm):
    new_secret = forms.CharField(
        label="New secret",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="SRT passphrase (10 to 79 characters), RTMP stream key, or the password of an RTSP or HLS source. "
        "Write-only. Leave empty to keep the stored one.",
    )
    forget_secrets = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Delete the stored secrets of this recorder.",
    )
    planned = forms.ChoiceField(
        label="If you switch it off: its planned bookings",
        choices=[("", "Choose …"), *switching.Planned.choices],
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text="What is recording now continues either way.",
    )

    class Meta:
        model = Recorder
        exclude: list[str] = []
        labels = {"pad_before_seconds": "Padding before", "pad_after_seconds": "Padding after"}
        help_texts = {
            "folder_template": "The folder for new files, inside the media folder. You can use {project}, {recorder}, "
            "{date}, {year}, {month}, {day}, {time} and {booking}.",
            "pad_before_seconds": "Seconds to record before the start of each booking.",
            "pad_after_seconds": "Seconds to record after the end of each booking.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        self._ask_about_planned(cleaned)
        secret, kind = cleaned.get("new_secret"), cleaned.get("source_type")
        if secret and kind:
            if kind not in SECRET_NAMES:
                self.add_error("new_secret", f"A {SourceType(kind).label} source has no secret.")
            elif kind == SourceType.SRT and not 10 <= len(secret) <= 79:
                self.add_error("new_secret", "An SRT passphrase has 10 to 79 characters.")
        if cleaned.get("forget_secrets"):
            self.instance.secrets_sealed = ""
        if secret and kind in SECRET_NAMES:
            self.instance.set_secrets({**self.instance._readable_secrets(), SECRET_NAMES[SourceType(kind)]: secret})
        return cleaned

    def _ask_about_planned(self, cleaned: dict[str, Any]) -> None:
        """R-27: whoever switches off a recorder with planned bookings says what happens to them."""
        is_switched_off = self.instance.pk and "is_active" in self.changed_data and cleaned.get("is_active") is False
        # Without the field nothing was planned when the page was opened; what was booked since is kept.
        if not is_switched_off or cleaned.get("planned") or "planned" not in self.fields:
            return
        rows = switching.planned_bookings(self.instance, database_now()).select_related("recorder")
        if count := rows.count():
            named = switching.named(list(rows[: switching.SHOWN + 1]))
            self.add_error("planned", f"{switching.counted(count)} planned: {named}. Choose what happens.")


@admin.register(Recorder)
class RecorderAdmin(Operated, StationAdmin):
    form = RecorderForm
    list_display = ["name", "state_now", "source_type", "address", "project", "node_shown", "is_active"]
    list_filter = ["source_type", ("project", VisibleFilter), "is_active"]
    list_select_related = ["project", "node"]
    list_per_page = 100
    search_fields = ["name", "address"]
    readonly_fields = ["now", "upcoming", "secrets_stored"]
    buttons = [
        Button(**START, name="start_detail", path="start", variant=ActionVariant.PRIMARY),
        Button(**STOP, name="stop_detail", path="stop", variant=ActionVariant.DANGER),
    ]
    row_buttons = [
        Button(**START, name="start_row", path="row-start"),
        Button(**STOP, name="stop_row", path="row-stop"),
    ]
    fieldsets = [
        ("Now", {"fields": ["now", "upcoming"]}),
        (None, {"fields": ["name", "project", "is_active"]}),
        (
            "Source",
            {"fields": ["source_type", "address", "programme", "new_secret", "forget_secrets", "secrets_stored"]},
        ),
        ("File", {"fields": ["container", "split_minutes", "folder_template", "picture_size", "video_bitrate"]}),
        ("Where", {"fields": ["node", "node_labels"]}),
        ("Padding", {"fields": ["pad_before_seconds", "pad_after_seconds"]}),
    ]

    def get_fieldsets(self, request: HttpRequest, obj: Recorder | None = None) -> Any:
        if obj is None:
            return self.fieldsets[1:]
        if not obj.is_active or not switching.planned_bookings(obj, timezone.now()).exists():
            return self.fieldsets
        now, (title, basics), *others = self.fieldsets
        return [now, (title, {"fields": [*basics["fields"], "planned"]}), *others]

    def get_form(self, request: HttpRequest, obj: Recorder | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        if "address" in form.base_fields:
            examples = "; ".join(f"{kind.label}: {text}" for kind, text in EXAMPLES.items())
            form.base_fields["address"].help_text = f"Secrets in the address are encrypted when you save. {examples}."
        return form

    def save_model(self, request: HttpRequest, obj: Recorder, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if change and "is_active" in form.changed_data:
            # Bookings that were made since the form was checked are kept, and the message names them.
            planned, by = form.cleaned_data.get("planned") or switching.Planned.KEEP, who(request)
            outcome = switch_on(obj, by=by) if obj.is_active else switch_off(obj, by=by, planned=planned)
            messages.add_message(request, messages.INFO if outcome.is_good else messages.WARNING, outcome.text)
        if change and {"source_type", "address", "node"} & set(form.changed_data):
            for problem in reserve_ports_again(obj, database_now())[:5]:
                messages.warning(request, f"Its device or port is not free for {problem}")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A recorder with bookings is switched off instead, so that its history stays."""
        if obj is not None and Booking.objects.filter(recorder=obj).exists():
            return False
        return super().has_delete_permission(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Recorder]:
        running = Prefetch("bookings", Booking.objects.active(), to_attr="running")
        rows: QuerySet[Recorder] = super().get_queryset(request).prefetch_related(running)
        return rows

    @display(description="Now")
    def state_now(self, obj: Any) -> SafeString:
        if obj.running:
            return state_badge(obj.running[0])
        return badge("idle" if obj.is_active else "off", "grey")

    @display(description="Node")
    def node_shown(self, obj: Recorder) -> str:
        return str(obj.node or obj.node_labels or "any")

    @display(description="Stored secrets")
    def secrets_stored(self, obj: Recorder) -> str:
        try:
            return ", ".join(sorted(obj.secrets)).replace("_", " ") or "none"
        except CannotOpen as fault:
            return f"{fault} Enter them again."

    @display(description="Now")
    def now(self, obj: Recorder) -> SafeString:
        inner = render_to_string("scheduling/recorder_now.html", now_context(obj))
        url = reverse("recorder-now", args=[obj.pk])
        # The fragment comes from our own template, which escapes it.
        return format_html('<div hx-get="{}" hx-trigger="every 2s" hx-swap="innerHTML">{}</div>', url, mark_safe(inner))

    @display(description="Next")
    def upcoming(self, obj: Recorder) -> SafeString | str:
        rows = Booking.objects.before_start().filter(recorder=obj, ends_at__gt=timezone.now()).order_by("starts_at")[:5]
        planned = lines(
            format_html(
                '<a class="underline" href="{}">{}</a> {}',
                reverse("admin:scheduling_booking_change", args=[row.pk]),
                stamp(row.starts_at),
                row,
            )
            for row in rows
        )
        url = f"{reverse('admin:scheduling_booking_add')}?recorder={obj.pk}"
        return format_html('{} <a class="underline" href="{}">New booking</a>', planned, url)
