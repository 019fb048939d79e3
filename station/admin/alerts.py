"""Admin of alerts, of the routes that send them, and of each message sent."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.admin import TabularInline
from unfold.decorators import display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminPasswordWidget

from station.admin.base import EventInline, MachineAdmin, ReadOnlyRights, StationAdmin, VisibleFilter
from station.admin.buttons import BulkAction, Button, Operated
from station.admin.search import WordSearch
from station.admin.subjects import link_to
from station.alerts.controls import acknowledge, resolve
from station.badges import badge, outcome_badge
from station.models import Alert, AlertDelivery, AlertEvent, AlertRoute
from station.models.alert import ALERT_WORDS, Severity
from station.sealing import seal

SEVERITY_COLOURS = {Severity.NOTICE: "blue", Severity.WARNING: "amber", Severity.CRITICAL: "red"}


class AlertEventInline(EventInline):
    model = AlertEvent


class DeliveryInline(ReadOnlyRights, TabularInline):
    model = AlertDelivery
    extra = 0
    max_num = 0
    hide_title = True
    fields = ["route", "what", "outcome_shown", "is_digest", "attempts", "sent_at", "next_attempt_at", "last_error"]
    readonly_fields = fields

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    @display(description="Outcome")
    def outcome_shown(self, obj: AlertDelivery) -> SafeString:
        return outcome_badge(obj.get_outcome_display(), obj.outcome, AlertDelivery.COLOURS)


@admin.register(Alert)
class AlertAdmin(WordSearch, Operated, ReadOnlyRights, MachineAdmin):
    list_display = ["state_shown", "severity_shown", "title", "project", "raised_at", "last_seen_at"]
    list_display += ["times_seen", "times_returned"]
    list_filter = ["state", "severity", ("project", VisibleFilter)]
    list_select_related = ["project"]
    search_words = ALERT_WORDS
    fields = ["state_shown", "severity_shown", "title", "text", "subject_shown", "project"]
    fields += ["raised_at", "last_seen_at", "times_seen", "times_returned", "key"]
    readonly_fields = fields
    inlines = [AlertEventInline, DeliveryInline]
    buttons = [
        Button(
            acknowledge,
            "done",
            "Acknowledge this alert?",
            "Others see that you are dealing with it. It stays in the list until the problem is over.",
            variant=ActionVariant.PRIMARY,
        ),
        Button(
            resolve,
            "done_all",
            "Resolve this alert by hand?",
            "Do this when the problem is over. If it is not, a new alert is raised.",
            submit="Resolve",
        ),
    ]
    bulk_actions = [BulkAction(acknowledge, "acknowledged"), BulkAction(resolve, "resolved")]

    @display(description="About")
    def subject_shown(self, obj: Alert) -> SafeString | str:
        return link_to(obj.subject)

    @display(description="Severity", ordering="severity")
    def severity_shown(self, obj: Alert) -> SafeString:
        return badge(obj.get_severity_display(), SEVERITY_COLOURS[Severity(obj.severity)])


class RouteForm(forms.ModelForm):
    signing_secret = forms.CharField(
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Write-only. Leave empty to keep the stored one. "
        "Each webhook has the header X-Airlock-Signature: sha256=HMAC of the body.",
    )

    class Meta:
        model = AlertRoute
        fields = ["name", "channel", "target", "signing_secret", "min_severity", "project", "is_active"]
        labels = {"channel": "Send by", "target": "Send to", "min_severity": "Lowest severity"}


@admin.register(AlertRoute)
class AlertRouteAdmin(StationAdmin):
    form = RouteForm
    list_display = ["name", "channel", "target", "min_severity", "project", "is_active"]
    list_filter = ["channel", "is_active"]
    list_select_related = ["project"]

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        if form.cleaned_data.get("signing_secret"):
            obj.secret_sealed = seal({"signing": form.cleaned_data["signing_secret"]})
        super().save_model(request, obj, form, change)
