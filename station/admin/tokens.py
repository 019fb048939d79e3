"""Admin of API tokens: made for a person, shown once."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest

from station import audit, tokens
from station.admin.base import StationAdmin, who
from station.clock import database_now
from station.models import ApiToken


@admin.register(ApiToken)
class ApiTokenAdmin(StationAdmin):
    list_display = ["name", "user", "is_active", "created_at", "created_by", "last_used_at"]
    list_filter = ["is_active"]
    list_select_related = ["user"]
    search_fields = ["name", "user__username"]

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> list[str]:
        made = ["created_at", "created_by", "last_used_at"]
        return ["user", "name", "is_active", *made] if obj else ["user", "name"]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> list[str]:
        return ["user", "created_at", "created_by", "last_used_at"] if obj else []

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        row, token = tokens.make(obj.user, obj.name, now=database_now(), by=who(request))
        obj.pk = row.pk
        obj.refresh_from_db()
        audit.record(who(request), "add", obj, note=f"for {obj.user}")
        messages.warning(request, f"Copy the token now; it is shown only once: {token}")
