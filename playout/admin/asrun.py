"""The as-run log in the admin. It is read-only."""

from django.contrib import admin
from unfold.decorators import display

from playout.models import AsRunEntry
from playout.models.asrun import ASRUN_WORDS
from station.admin.base import ReadOnlyAdmin, VisibleFilter
from station.admin.search import WordSearch
from station.badges import stamp
from station.clock import spoken


@admin.register(AsRunEntry)
class AsRunAdmin(WordSearch, ReadOnlyAdmin):
    list_display = ["started_shown", "title", "kind", "channel", "length_shown", "planned_shown", "how", "note"]
    list_filter = [("channel", VisibleFilter), "kind", "reason"]
    list_select_related = ["channel"]
    search_words = ASRUN_WORDS
    date_hierarchy = "started_at"
    fields = ["channel", "title", "kind", "planned_shown", "started_shown", "ended_shown", "length_shown"]
    fields += ["from_seconds", "frames", "repeats", "how", "note", "asset"]
    readonly_fields = fields

    @display(description="Began", ordering="started_at")
    def started_shown(self, obj: AsRunEntry) -> str:
        return stamp(obj.started_at)

    @display(description="Ended")
    def ended_shown(self, obj: AsRunEntry) -> str:
        return stamp(obj.ended_at)

    @display(description="Planned")
    def planned_shown(self, obj: AsRunEntry) -> str:
        return stamp(obj.planned_at)

    @display(description="Length")
    def length_shown(self, obj: AsRunEntry) -> str:
        return spoken((obj.ended_at - obj.started_at).total_seconds()) if obj.ended_at else "on air"

    @display(description="How it ended", ordering="reason")
    def how(self, obj: AsRunEntry) -> str:
        return obj.reason_word
