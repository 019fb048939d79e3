"""Admin of calendar links: one secret link per project, shown once and replaceable."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from scheduling.bookings.calendar_controls import make_link, renew_link
from scheduling.models import CalendarFeed
from station.admin.base import StationAdmin, VisibleFilter, who
from station.admin.buttons import Button, Operated


def _address(request: HttpRequest) -> dict[str, Any]:
    return {"base": request.build_absolute_uri("/")}


class FeedForm(forms.ModelForm):
    class Meta:
        model = CalendarFeed
        fields = ["project"]
        help_texts = {
            "project": "Makes a secret link to the bookings of this project, for calendar programs. "
            "Anyone who has the link can read them. It is shown once, after you save."
        }


@admin.register(CalendarFeed)
class CalendarFeedAdmin(Operated, StationAdmin):
    form = FeedForm
    list_display = ["project", "created_at", "created_by"]
    list_filter = [("project", VisibleFilter)]
    list_select_related = ["project"]
    fields = ["project", "created_at", "created_by"]
    buttons = [
        Button(
            renew_link,
            "link",
            "Make a new link?",
            "The old link stops working. Calendars that use it need the new one.",
            submit="Make a new link",
            name="renew",
            from_request=_address,
        ),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: CalendarFeed | None = None) -> list[str]:
        return ["project", "created_at", "created_by"] if obj else ["created_at", "created_by"]

    def get_fields(self, request: HttpRequest, obj: CalendarFeed | None = None) -> list[str]:
        return self.fields if obj else ["project"]

    def save_model(self, request: HttpRequest, obj: CalendarFeed, form: Any, change: bool) -> None:
        if not change:
            outcome = make_link(obj.project, by=who(request), **_address(request))
            assert outcome.target is not None
            obj.pk = outcome.target.pk
            obj.refresh_from_db()
            self.tell(request, obj, outcome)
