"""Admin pages of destinations and deliveries."""

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import TabularInline
from unfold.decorators import display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminPasswordWidget

from assets.delivery import controls
from assets.models import Asset, Delivery, DeliveryAttempt, DeliveryEvent, Destination
from assets.models.asset import ASSET_WORDS
from assets.models.delivery import MAM_DELIVERY_WORDS
from station.admin.base import EventInline, MachineAdmin, ReadOnlyRights, StationAdmin, VisibleFilter
from station.admin.buttons import BulkAction, Button, Operated
from station.admin.search import WordSearch
from station.badges import stamp
from station.database.words import beginning_with, named
from station.rights import only_visible


def _server_of(config: Any) -> tuple[str, str]:
    address = str(config.get("base_url", "")) if isinstance(config, dict) else ""
    try:
        parts = urlsplit(address)
    except ValueError:  # like "https://["; the connector refuses it
        return "", address
    return parts.scheme, parts.netloc


class DestinationForm(forms.ModelForm):
    secret = forms.CharField(
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Token or signing key. Stored encrypted and never shown. Leave empty to keep the current one.",
    )

    class Meta:
        model = Destination
        fields = ["name", "project", "connector", "config", "is_automatic", "takes_partial", "is_active"]
        help_texts = {
            "config": (
                'http: {"base_url": "https://mam.example", "auth": "bearer", "media": "reference", '
                '"reference_base": "https://files.example"}; folder: {"path": "/srv/outgoing", "sidecar": "json"}. '
                "See docs/mam.md for all options."
            )
        }

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("secret"):
            self.instance.set_secret(cleaned["secret"])
        elif self._goes_elsewhere(cleaned):
            # Otherwise anyone who may edit the destination could have the secret sent to another server (S-05).
            self.add_error("secret", "The server has changed. Enter the secret again.")
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
        """A destination with deliveries is kept for the record; staff deactivate it instead."""
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
        return True  # the permission was checked for the page


class DeliveryEventInline(EventInline):
    model = DeliveryEvent


def deliveries_of_asset(word: str) -> QuerySet[Any]:
    assets = beginning_with(Asset.objects.order_by(), ASSET_WORDS, [word])
    return Delivery.objects.order_by().filter(asset__in=assets.values("pk")).values("pk")


def deliveries_to(word: str) -> QuerySet[Any]:
    destinations = named(Destination.objects.order_by(), "name", word)
    return Delivery.objects.order_by().filter(destination__in=destinations).values("pk")


@admin.register(Delivery)
class DeliveryAdmin(WordSearch, Operated, ReadOnlyRights, MachineAdmin):
    list_display = ["asset", "destination", "state_shown", "attempts", "next_shown", "external_id", "error_shown"]
    list_filter = ["state", ("destination", VisibleFilter)]
    list_select_related = ["asset", "destination"]
    search_words = MAM_DELIVERY_WORDS
    search_elsewhere = [deliveries_of_asset, deliveries_to]
    inlines = [AttemptInline, DeliveryEventInline]
    buttons = [
        Button(
            controls.again,
            "refresh",
            "Deliver this asset again?",
            "The number of attempts starts again. The destination receives an update.",
            submit="Deliver",
        ),
        Button(
            controls.give_up,
            "cancel",
            "Give up this delivery?",
            "There are no further attempts unless it is delivered again by hand.",
            variant=ActionVariant.DANGER,
        ),
    ]
    bulk_actions = [BulkAction(controls.again, "queued again")]
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
        return stamp(obj.next_attempt_at) if obj.next_attempt_at else "now"

    @display(description="Error")
    def error_shown(self, obj: Delivery) -> str:
        return obj.error[:120] or "–"
