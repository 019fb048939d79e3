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
from station.admin.subjects import link_to
from station.admin.widgets import Searched
from station.badges import lines, outcome_badge
from station.models import AuditEntry, Membership, Project
from station.models.audit import AUDIT_WORDS
from station.rights import Role


class MembershipInline(Searched, TabularInline):
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
    fields = ["at", "who", "what", "result_shown", "subject_shown", "project", "changes_shown", "note"]
    readonly_fields = fields

    @display(description="About")
    def subject_shown(self, obj: AuditEntry) -> SafeString | str:
        """The name it had then, if it is gone."""
        shown = link_to(obj.subject)
        return f"{obj.subject_name} ({obj.subject})" if shown == obj.subject else shown

    @display(description="Changes")
    def changes_shown(self, obj: AuditEntry) -> SafeString | str:
        names = sorted(obj.before.keys() | obj.after.keys())
        return lines(f"{name.replace('_', ' ')}: {_change(obj, name)}" for name in names) if names else "–"

    @display(description="Result", ordering="result")
    def result_shown(self, obj: AuditEntry) -> SafeString:
        return outcome_badge(obj.get_result_display().lower(), obj.result, AuditEntry.COLOURS)


def _change(entry: AuditEntry, name: str) -> str:
    """What the value was and what it is: "10 → 20"; of a new or a deleted object, the one there is."""
    shown = [_value(values[name]) for values in (entry.before, entry.after) if name in values]
    return " → ".join(shown)


def _value(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "(empty)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
