"""Admin pages of imports and watch folders."""

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from assets.admin.asset_facts import megabytes
from assets.intake.controls import again
from assets.models import Import, ImportEvent, WatchFolder
from assets.models.intake import IMPORT_WORDS
from jobs.models import Run
from station.admin.base import EventInline, MachineAdmin, ReadOnlyRights, StationAdmin, VisibleFilter
from station.admin.buttons import Button, Operated
from station.admin.search import WordSearch
from station.badges import stamp
from station.database.notify import wake_scheduler


class ImportEventInline(EventInline):
    model = ImportEvent


@admin.register(Import)
class ImportAdmin(WordSearch, Operated, ReadOnlyRights, MachineAdmin):
    list_display = [
        "name",
        "state_shown",
        "progress_shown",
        "size_shown",
        "way",
        "project",
        "asset_shown",
        "error_shown",
    ]
    list_display += ["created_at", "requested_by"]
    list_filter = ["state", "way", ("project", VisibleFilter)]
    list_select_related = ["project", "asset"]
    search_words = IMPORT_WORDS
    inlines = [ImportEventInline]
    buttons = [
        Button(again, "refresh", "Try this import again?", "The file is read again if it still exists."),
    ]
    fields = ["name", "state_shown", "progress_shown", "error", "asset_shown", "size_shown", "way", "project", "source"]
    fields += ["watch_folder", "requested_by", "created_at"]
    readonly_fields = ["state_shown", "progress_shown", "size_shown", "asset_shown", "error_shown"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Import]:
        run = Run.objects.filter(pk=OuterRef("run_ref"))
        rows: QuerySet[Import] = super().get_queryset(request)
        return rows.annotate(
            run_percent=Subquery(run.values("progress_percent")), run_text=Subquery(run.values("progress_text"))
        )

    @display(description="Size", ordering="size_bytes")
    def size_shown(self, obj: Import) -> str:
        return megabytes(obj.size_bytes)

    @display(description="Progress")
    def progress_shown(self, obj: Any) -> SafeString | str:
        percent = obj.run_percent
        if obj.is_over or percent is None:
            return "–"
        return format_html('<progress max="100" value="{}"></progress> {} % {}', percent, percent, obj.run_text)

    @display(description="Asset")
    def asset_shown(self, obj: Import) -> SafeString | str:
        if obj.asset is None:
            return "–"
        url = reverse("admin:assets_asset_change", args=[obj.asset_id])
        return format_html('<a class="text-link" href="{}">{}</a>', url, obj.asset)

    @display(description="Error")
    def error_shown(self, obj: Import) -> str:
        return obj.error[:200] or "–"


@admin.register(WatchFolder)
class WatchFolderAdmin(StationAdmin):
    list_display = ["name", "project", "path", "is_active", "looked_shown", "error"]
    list_filter = [("project", VisibleFilter), "is_active"]
    list_select_related = ["project"]
    search_fields = ["name", "path"]
    fields = ["name", "project", "path", "settle_seconds", "afterwards", "is_active", "looked_shown", "error"]
    readonly_fields = ["looked_shown", "error"]

    @display(description="Last check")
    def looked_shown(self, obj: WatchFolder) -> str:
        return stamp(obj.looked_at)

    def save_model(self, request: HttpRequest, obj: WatchFolder, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        wake_scheduler()
