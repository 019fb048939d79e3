"""Projects with their members, and the audit trail."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from unfold.admin import TabularInline

from station.admin.base import ReadOnlyAdmin, StationAdmin, VisibleFilter
from station.models import AuditEntry, Membership, Project
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
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["at", "who", "what", "subject_name", "project", "note"]
    list_filter = ["what", ("project", VisibleFilter)]
    search_fields = ["who", "subject_name", "note"]
    date_hierarchy = "at"
