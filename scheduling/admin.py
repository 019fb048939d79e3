"""Admin pages of recorders and bookings: Start and Stop, what happens now, what happened."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminPasswordWidget

from scheduling import manual
from scheduling.models import Booking, BookingEvent, Recorder
from scheduling.sources import EXAMPLES, SECRET_NAMES, SourceType
from scheduling.views import now_context
from station.admin.base import (
    EventInline,
    MachineAdmin,
    ReadOnlyRights,
    StationAdmin,
    VisibleFilter,
    redirect_after_dialog,
    report,
    who,
)
from station.badges import badge, lines, stamp, state_badge
from station.clock import spoken
from station.sealing import CannotOpen

# With a dialog, unfold's actions are POST with CSRF; without one they would run on GET (S-02).
START_ACTION: dict[str, Any] = {
    "description": "Start",
    "icon": "fiber_manual_record",
    "permissions": ["operate"],
    "dialog": {
        "title": "Start recording now?",
        "description": "The recorder starts at once. If nobody stops it, it ends by itself after "
        f"{spoken(settings.RECORD_NOW_MAX.total_seconds())}.",
        "form_submit_text": "Start",
    },
}
STOP_ACTION: dict[str, Any] = {
    "description": "Stop",
    "icon": "stop",
    "permissions": ["operate"],
    "dialog": {
        "title": "Stop the recording?",
        "description": "What was recorded is kept. The rest of the window is not recorded.",
        "form_submit_text": "Stop",
    },
}


class RecorderForm(forms.ModelForm):
    new_secret = forms.CharField(
        label="New secret",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="SRT passphrase (10 to 79 characters), RTMP stream key, or the password of an RTSP or HLS source. "
        "Write-only; empty leaves the stored one as it is.",
    )
    forget_secrets = forms.BooleanField(required=False, help_text="Delete the stored secrets of this recorder.")

    class Meta:
        model = Recorder
        exclude: list[str] = []

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
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


@admin.register(Recorder)
class RecorderAdmin(StationAdmin):
    form = RecorderForm
    list_display = ["name", "state_now", "source_type", "address", "project", "node_shown", "is_active"]
    list_filter = ["source_type", ("project", VisibleFilter), "is_active"]
    list_select_related = ["project", "node"]
    search_fields = ["name", "address"]
    readonly_fields = ["now", "secrets_stored"]
    actions_detail = ["start_detail", "stop_detail"]
    actions_row = ["start_row", "stop_row"]
    fieldsets = [
        ("Now", {"fields": ["now"]}),
        (None, {"fields": ["name", "project", "is_active"]}),
        ("Source", {"fields": ["source_type", "address", "new_secret", "forget_secrets", "secrets_stored"]}),
        ("File", {"fields": ["container", "folder_template", "picture_size", "video_bitrate"]}),
        ("Where", {"fields": ["node", "node_labels"]}),
        ("Padding", {"fields": ["pad_before_seconds", "pad_after_seconds"]}),
    ]

    def get_fieldsets(self, request: HttpRequest, obj: Recorder | None = None) -> Any:
        return self.fieldsets if obj else self.fieldsets[1:]

    def get_form(self, request: HttpRequest, obj: Recorder | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        if "address" in form.base_fields:
            examples = "; ".join(f"{kind.label}: {text}" for kind, text in EXAMPLES.items())
            form.base_fields["address"].help_text = f"Secrets typed in here are sealed when you save. {examples}."
        return form

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What has recorded keeps its history: it is switched off, not deleted."""
        if obj is not None and Booking.objects.filter(recorder=obj).exists():
            return False
        return super().has_delete_permission(request, obj)

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if obj is not None and not isinstance(obj, Recorder):  # unfold hands over the id
            obj = get_object_or_404(self.get_queryset(request), pk=obj)
        return bool(request.user.has_perm("scheduling.operate_recorder", obj))

    @display(description="Now")
    def state_now(self, obj: Recorder) -> SafeString:
        booking = manual.running_booking(obj)
        return state_badge(booking) if booking else badge("idle" if obj.is_active else "off", "grey")

    @display(description="Node")
    def node_shown(self, obj: Recorder) -> str:
        return str(obj.node or obj.node_labels or "any")

    @display(description="Stored secrets")
    def secrets_stored(self, obj: Recorder) -> str:
        try:
            return ", ".join(sorted(obj.secrets)).replace("_", " ") or "none"
        except CannotOpen as fault:
            return f"{fault} Type them in again."

    @display(description="Now")
    def now(self, obj: Recorder) -> SafeString:
        inner = render_to_string("scheduling/recorder_now.html", now_context(obj))
        url = reverse("recorder-now", args=[obj.pk])
        # The fragment is our own template's output, escaped there.
        return format_html('<div hx-get="{}" hx-trigger="every 2s" hx-swap="innerHTML">{}</div>', url, mark_safe(inner))

    @action(**START_ACTION, url_path="start", variant=ActionVariant.PRIMARY)
    def start_detail(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._start(request, object_id, reverse("admin:scheduling_recorder_change", args=[object_id]))

    @action(**STOP_ACTION, url_path="stop", variant=ActionVariant.DANGER)
    def stop_detail(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._stop(request, object_id, reverse("admin:scheduling_recorder_change", args=[object_id]))

    @action(**START_ACTION, url_path="row-start")
    def start_row(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._start(request, object_id, reverse("admin:scheduling_recorder_changelist"))

    @action(**STOP_ACTION, url_path="row-stop")
    def stop_row(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._stop(request, object_id, reverse("admin:scheduling_recorder_changelist"))

    def _start(self, request: HttpRequest, object_id: int, back: str) -> HttpResponse:
        outcome = manual.start_now(self._recorder(request, object_id), by=who(request))
        tell(request, outcome)
        return redirect_after_dialog(back)

    def _stop(self, request: HttpRequest, object_id: int, back: str) -> HttpResponse:
        outcome = manual.stop_now(self._recorder(request, object_id), by=who(request))
        tell(request, outcome)
        return redirect_after_dialog(back)

    def _recorder(self, request: HttpRequest, object_id: int) -> Recorder:
        """What the user may operate, or 404."""
        recorder: Recorder = get_object_or_404(self.get_queryset(request), pk=object_id)
        if not self.has_operate_permission(request, recorder):
            raise PermissionDenied
        return recorder


def tell(request: HttpRequest, outcome: manual.Outcome) -> None:
    """The outcome in words, with a link to the booking it speaks of."""
    text: str | SafeString = outcome.text
    if outcome.booking is not None:
        url = reverse("admin:scheduling_booking_change", args=[outcome.booking.pk])
        text = format_html('{} <a class="underline" href="{}">Booking {}</a>', text, url, outcome.booking.pk)
    messages.add_message(request, messages.SUCCESS if outcome.is_good else messages.WARNING, text)


class BookingEventInline(EventInline):
    model = BookingEvent


@admin.register(Booking)
class BookingAdmin(ReadOnlyRights, MachineAdmin):
    list_display = [
        "__str__",
        "state_shown",
        "recorder",
        "starts_shown",
        "ends_shown",
        "recorded",
        "size",
        "requested_by",
    ]
    list_filter = ["state", ("recorder", VisibleFilter), ("recorder__project", VisibleFilter)]
    list_select_related = ["recorder", "recorder__project"]
    search_fields = ["title", "recorder__name", "requested_by"]
    date_hierarchy = "starts_at"
    inlines = [BookingEventInline]
    actions = ["stop_selected"]
    fields = [
        "recorder",
        "title",
        "state_shown",
        "starts_shown",
        "ends_shown",
        "length",
        "ended_shown",
        "recorded",
        "late_by_seconds",
        "first_frame_at",
    ]
    fields += ["requested_by", "attempts", "outcome", "folder", "file_name", "size", "parts_shown", "gaps_shown"]
    fields += ["errors_shown"]
    readonly_fields = fields

    @display(description="Starts", ordering="starts_at")
    def starts_shown(self, obj: Booking) -> str:
        return stamp(obj.starts_at)

    @display(description="Planned end", ordering="ends_at")
    def ends_shown(self, obj: Booking) -> str:
        return stamp(obj.ends_at)

    @display(description="Planned length")
    def length(self, obj: Booking) -> str:
        return spoken((obj.ends_at - obj.starts_at).total_seconds())

    @display(description="Recorded")
    def recorded(self, obj: Booking) -> str:
        return spoken(sum(float(part.get("seconds", 0)) for part in obj.parts)) if obj.parts else "–"

    @display(description="Ended")
    def ended_shown(self, obj: Booking) -> str:
        return stamp(obj.state_since_at) if obj.is_over else "–"

    @display(description="Size", ordering="size_bytes")
    def size(self, obj: Booking) -> str:
        return f"{obj.size_bytes / 1e6:.1f} MB, {obj.frames} frames" if obj.size_bytes else "–"

    @display(description="Parts")
    def parts_shown(self, obj: Booking) -> SafeString | str:
        rows = ((part["file"], part["seconds"], part["bytes"] / 1e6, part["end_reason"]) for part in obj.parts)
        text = [
            f"{name}: {seconds:.1f} s, {size:.1f} MB, {reason or 'growing'}" for name, seconds, size, reason in rows
        ]
        return _lines(text)

    @display(description="Gaps")
    def gaps_shown(self, obj: Booking) -> SafeString | str:
        return _lines(
            [f"{gap['from_at']} to {gap['to_at']}: {gap['seconds']:.1f} s, {gap['reason']}" for gap in obj.gaps]
        )

    @display(description="Errors")
    def errors_shown(self, obj: Booking) -> SafeString | str:
        return _lines([f"attempt {error['attempt']}, {error['at']}: {error['error']}" for error in obj.errors[-20:]])

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("scheduling.operate_recorder"))

    @admin.action(description="Stop", permissions=["operate"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[Booking]) -> None:
        def act(booking: Booking) -> tuple[bool, str]:
            if not request.user.has_perm("scheduling.operate_recorder", booking):
                return False, "not yours"
            if booking.state not in Booking.ACTIVE:
                return False, booking.state_word
            outcome = manual.stop_booking(booking, by=who(request))
            return outcome.booking is not None and outcome.booking.is_over, outcome.text

        report(request, queryset.select_related("recorder", "recorder__project"), act, "stopped")


def _lines(items: list[str]) -> SafeString | str:
    return lines(items) if items else "none"
