"""Admin pages of retention rules. The page Upcoming deletions (assets/views/pages.py) previews what they delete."""

from django.contrib import admin
from unfold.decorators import display

from assets.models import RetentionRule
from station.admin.base import StationAdmin, VisibleFilter


@admin.register(RetentionRule)
class RetentionRuleAdmin(StationAdmin):
    list_display = ["project", "in_words", "trash_days", "only_delivered", "is_active"]
    list_filter = [("project", VisibleFilter), "is_active"]
    list_select_related = ["project"]
    fields = ["project", "max_age_days", "max_count", "min_free_percent", "only_delivered", "trash_days", "is_active"]

    @display(description="Keeps")
    def in_words(self, obj: RetentionRule) -> str:
        words = []
        if obj.max_age_days:
            words.append(f"assets for {obj.max_age_days} days")
        if obj.max_count:
            words.append(f"the newest {obj.max_count} assets")
        if obj.min_free_percent:
            words.append(f"at least {obj.min_free_percent} % of the disk free")
        return ", ".join(words)
