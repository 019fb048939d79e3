"""Admin pages of assets."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import display

from assets.admin.asset_buttons import BULK_ACTIONS, BUTTONS
from assets.admin.asset_facts import AssetFacts
from assets.files import locations
from assets.models import Asset, AssetEvent, AssetPart
from assets.models.asset import ASSET_WORDS, PART_WORDS
from scheduling.models import Recorder
from station import audit
from station.admin.base import EventInline, MachineAdmin, VisibleFilter, who
from station.admin.buttons import Operated
from station.admin.search import WordSearch
from station.database.words import beginning_with, named

State = Asset.State
# A transparent image, shown until the first frame arrives.
BLANK = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


class PlaceFilter(admin.SimpleListFilter):
    """Shows assets in the library by default, and those in the trash, withdrawn, held or deleted on request."""

    title = "status"
    parameter_name = "where"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("trash", "in the trash"), ("withdrawn", "withdrawn"), ("held", "held"), ("deleted", "deleted")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Asset]) -> QuerySet[Asset]:
        if self.value() == "trash":
            return queryset.filter(trashed_at__isnull=False).exclude(state=State.DELETED)
        if self.value() == "withdrawn":
            return queryset.filter(withdrawn_at__isnull=False, trashed_at=None)
        if self.value() == "held":
            return queryset.filter(held_at__isnull=False)
        if self.value() == "deleted":
            return queryset.filter(state=State.DELETED)
        return queryset.filter(trashed_at=None).exclude(state=State.DELETED)


class AssetEventInline(EventInline):
    model = AssetEvent


def assets_with_file(word: str) -> QuerySet[Any]:
    return beginning_with(AssetPart.objects.order_by(), PART_WORDS, [word]).values("asset")


def assets_of_recorder(word: str) -> QuerySet[Any]:
    recorders = named(Recorder.objects.order_by(), "name", word)
    return Asset.objects.order_by().filter(booking__recorder__in=recorders).values("pk")


def assets_with_checksum(word: str) -> QuerySet[Any]:
    return Asset.objects.order_by().filter(sha256=word.lower()).exclude(sha256="").values("pk")


@admin.register(Asset)
class AssetAdmin(AssetFacts, WordSearch, Operated, MachineAdmin):
    list_display = ["poster_shown", "title", "state_shown", "length_shown", "complete_shown", "format_shown"]
    list_display += ["made_shown", "project", "marks_shown"]
    list_display_links = ["title"]
    list_filter = [PlaceFilter, "state", "origin", ("project", VisibleFilter)]
    list_select_related = ["project", "booking"]
    search_help_text = "Title, recorder, file name, SHA-256"
    search_words = ASSET_WORDS
    search_elsewhere = [assets_with_file, assets_of_recorder, assets_with_checksum]
    date_hierarchy = "created_at"
    inlines = [AssetEventInline]
    buttons = BUTTONS
    bulk_actions = BULK_ACTIONS
    readonly_fields = [*AssetFacts.facts, "project"]
    fieldsets = [
        (None, {"fields": ["media_shown"]}),
        ("Asset", {"fields": ["title", "state_shown", "project", "made_shown", "marks_shown", "error_shown"]}),
        ("Completeness", {"fields": ["complete_shown", "gaps_shown", "parts_shown"]}),
        ("Picture and sound", {"fields": ["technical_shown", "loudness_shown", "findings_shown"]}),
        ("Processing", {"fields": ["steps_shown"]}),
        ("Use and delivery", {"fields": ["uses_shown", "deliveries_shown", "checksum_shown"]}),
    ]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # recordings create their own assets; files come in through "Import media"

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # use the trash instead: it keeps a record of who deleted the asset

    def get_queryset(self, request: HttpRequest) -> QuerySet[Asset]:
        return super().get_queryset(request).select_related("project", "booking__recorder", "replacement")

    def save_model(self, request: HttpRequest, obj: Asset, form: Any, change: bool) -> None:
        """Write only the title: a job worker may be writing other columns of the row."""
        before = Asset.objects.get(pk=obj.pk).title
        Asset.objects.filter(pk=obj.pk).update(title=obj.title)
        audit.record(who(request), "change", obj, before={"title": before}, after={"title": obj.title})

    @display(description="Poster")
    def poster_shown(self, obj: Asset) -> SafeString:
        if obj.state == State.LIVE and obj.booking_id:
            live = reverse("booking-frame", args=[obj.booking_id])
            return format_html('<img class="airlock-thumb" data-live-src="{}" src="{}" alt="">', live, BLANK)
        if locations.product(obj.pk, locations.POSTER) is None:
            return mark_safe('<span class="airlock-thumb" aria-hidden="true"></span>')
        url = reverse("media-product", args=[obj.pk, locations.POSTER])
        return format_html('<img class="airlock-thumb" src="{}" alt="" loading="lazy">', url)
