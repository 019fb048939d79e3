"""Admin of projects with their members, and of the audit trail."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.admin import TabularInline
from unfold.decorators import display

from station.admin.base import ReadOnlyAdmin, StationAdmin, VisibleFilter
from station.admin.search import WordSearch
from station.badges import outcome_badge
from station.models import AuditEntry, Membership, Project
from station.models.audit import AUDIT_WORDS
from station.rights import Role


class MembershipInline(TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ["user"]

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "role":
            roles = [role for role in Role if role is not Role.ADMINISTRATOR]
            kwargs["queryset"] = Group.objects.filter(name__in=roles)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


@admin.register(Project)
class ProjectAdmin(StationAdmin):
    list_display = ["name", "slug", "is_archived"]
    search_fields = ["name", "slug"]
    prepopulated_fields = {"slug": ["name"]}
    inlines = [MembershipInline]


@admin.register(AuditEntry)
class AuditEntryAdmin(WordSearch, ReadOnlyAdmin):
    list_display = ["at", "who", "what", "result_shown", "subject_name", "project", "note"]
    list_filter = ["result", "what", ("project", VisibleFilter)]
    list_select_related = ["project"]
    search_words = AUDIT_WORDS
    date_hierarchy = "at"

    @display(description="Result", ordering="result")
    def result_shown(self, obj: AuditEntry) -> SafeString:
        return outcome_badge(obj.get_result_display().lower(), obj.result, AuditEntry.COLOURS)
