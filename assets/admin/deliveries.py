"""Destinations and deliveries: where assets go, every attempt, and trying again."""

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.admin import TabularInline
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminPasswordWidget

from assets.delivery import deliveries
from assets.models import Delivery, DeliveryAttempt, DeliveryEvent, Destination
from station.admin.base import (
    EventInline,
    MachineAdmin,
    ReadOnlyRights,
    StationAdmin,
    VisibleFilter,
    dialog,
    who,
)
from station.admin.operating import Operated
from station.badges import stamp
from station.clock import database_now
from station.rights import only_visible

State = Delivery.State


def _server_of(config: Any) -> tuple[str, str]:
    parts = urlsplit(str(config.get("base_url", "")) if isinstance(config, dict) else "")
    return parts.scheme, parts.netloc


class DestinationForm(forms.ModelForm):
    secret = forms.CharField(
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Token or signing key. Kept sealed and never shown; leave empty to keep what is there.",
    )

    class Meta:
        model = Destination
        fields = ["name", "project", "connector", "config", "is_automatic", "takes_partial", "is_active"]
        help_texts = {
            "config": (
                'http: {"base_url": "https://mam.example", "auth": "bearer", "media": "reference", '
                '"reference_base": "https://files.example"}; folder: {"path": "/srv/outgoing", "sidecar": "json"}. '
                "docs/mam.md lists everything."
            )
        }

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("secret"):
            self.instance.set_secret(cleaned["secret"])
        elif self._goes_elsewhere(cleaned):
            # Or who may edit it could have the secret sent to a server of their own (S-05).
            self.add_error("secret", "It goes to another server now: give the secret again.")
        return cleaned

    def _goes_elsewhere(self, cleaned: dict[str, Any]) -> bool:
        if not self.instance.secrets_sealed or "config" not in cleaned:
            return False
        stored = Destination.objects.get(pk=self.instance.pk)
        return _server_of(stored.config) != _server_of(cleaned["config"])


@admin.register(Destination)
class DestinationAdmin(StationAdmin):
    form = DestinationForm
    list_display = ["name", "project", "connector", "is_automatic", "is_active"]
    list_filter = [("project", VisibleFilter), "connector", "is_active"]
    list_select_related = ["project"]
    search_fields = ["name"]
    fields = ["name", "project", "connector", "config", "secret", "is_automatic", "takes_partial", "is_active"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What it got stays on record: switch it off instead."""
        if obj is not None and obj.deliveries.exists():
            return False
        return super().has_delete_permission(request, obj)


class AttemptInline(ReadOnlyRights, TabularInline):
    model = DeliveryAttempt
    fields = ["number", "began_at", "ended_at", "is_good", "text"]
    readonly_fields = fields
    ordering = ["-number"]
    verbose_name_plural = "attempts"
    hide_title = True
    extra = 0
    max_num = 0

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True  # the page it hangs on was allowed


class DeliveryEventInline(EventInline):
    model = DeliveryEvent


@admin.register(Delivery)
class DeliveryAdmin(Operated, ReadOnlyRights, MachineAdmin):
    operate_permission = "assets.operate_asset"
    possible = {
        "again": (State.DELIVERED, State.GIVEN_UP, State.FAILED),
        "give_up": (State.PENDING, State.FAILED),
    }
    list_display = ["asset", "destination", "state_shown", "attempts", "next_shown", "external_id", "error_shown"]
    list_filter = ["state", ("destination", VisibleFilter)]
    list_select_related = ["asset", "destination"]
    search_fields = ["asset__title", "destination__name", "external_id"]
    inlines = [AttemptInline, DeliveryEventInline]
    actions = ["again_selected"]
    actions_detail = ["again", "give_up"]
    fields = ["asset", "destination", "state_shown", "attempts", "next_shown", "external_id", "key", "delivered_at"]
    fields += ["error", "requested_by", "created_at"]
    readonly_fields = ["state_shown", "next_shown", "error_shown"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        permission = "assets.view_delivery"
        return only_visible(Delivery.objects.all(), request.user, permission).order_by("-id")

    @display(description="Next attempt", ordering="next_attempt_at")
    def next_shown(self, obj: Delivery) -> str:
        if obj.is_over:
            return "–"
        return stamp(obj.next_attempt_at) if obj.next_attempt_at else "at once"

    @display(description="Error")
    def error_shown(self, obj: Delivery) -> str:
        return obj.error[:120] or "–"

    @action(
        description="Deliver again",
        icon="refresh",
        permissions=["again"],
        url_path="again",
        dialog=dialog("Deliver it again?", "With a fresh count of attempts; the other side sees an update.", "Deliver"),
    )
    def again(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        return self.do(request, object_id, "again", lambda delivery: self._again(request, delivery))

    @action(
        description="Give up",
        icon="cancel",
        permissions=["give_up"],
        url_path="give-up",
        variant=ActionVariant.DANGER,
        dialog=dialog("Give it up?", "It is not tried any more, until somebody delivers it again.", "Give up"),
    )
    def give_up(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        def act(delivery: Delivery) -> tuple[bool, str]:
            note = f"given up by {who(request)}"
            return deliveries.give_up(delivery, now=database_now(), by=who(request), note=note), "given up"

        return self.do(request, object_id, "give_up", act)

    @admin.action(description="Deliver again", permissions=["operate"])
    def again_selected(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        self.do_all(request, queryset, "again", lambda delivery: self._again(request, delivery), "on their way again")

    def _again(self, request: HttpRequest, delivery: Delivery) -> tuple[bool, str]:
        is_moved = deliveries.again(delivery, now=database_now(), by=who(request))
        return is_moved, "it is on its way again" if is_moved else f"it is {delivery.state_word}"
