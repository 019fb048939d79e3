"""Calendar links: one secret link per project, shown once, replaced by a new one at will."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import action

from scheduling.bookings.calendars import make_feed
from scheduling.models import CalendarFeed
from station import audit
from station.admin.base import StationAdmin, VisibleFilter, dialog, redirect_after_dialog, who
from station.clock import database_now


class FeedForm(forms.ModelForm):
    class Meta:
        model = CalendarFeed
        fields = ["project"]


@admin.register(CalendarFeed)
class CalendarFeedAdmin(StationAdmin):
    form = FeedForm
    list_display = ["project", "created_at", "created_by"]
    list_filter = [("project", VisibleFilter)]
    list_select_related = ["project"]
    fields = ["project", "created_at", "created_by"]
    actions_detail = ["renew"]

    def get_readonly_fields(self, request: HttpRequest, obj: CalendarFeed | None = None) -> list[str]:
        return ["project", "created_at", "created_by"] if obj else ["created_at", "created_by"]

    def get_fields(self, request: HttpRequest, obj: CalendarFeed | None = None) -> list[str]:
        return self.fields if obj else ["project"]

    def save_model(self, request: HttpRequest, obj: CalendarFeed, form: Any, change: bool) -> None:
        if not change:
            token = make_feed(obj.project, now=database_now(), by=who(request))
            obj.pk = CalendarFeed.objects.get(project=obj.project).pk
            obj.refresh_from_db()
            self._show(request, obj, token)

    @action(
        description="New link",
        icon="link",
        permissions=["change"],
        url_path="renew",
        dialog=dialog(
            "Make a new link?", "The old link ends. Calendars that use it must be given the new one.", "Make it"
        ),
    )
    def renew(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        feed: CalendarFeed = get_object_or_404(self.get_queryset(request), pk=object_id)
        self._show(request, feed, make_feed(feed.project, now=database_now(), by=who(request)))
        return redirect_after_dialog(reverse("admin:scheduling_calendarfeed_change", args=[object_id]))

    def _show(self, request: HttpRequest, feed: CalendarFeed, token: str) -> None:
        audit.record(who(request), "new calendar link", feed)
        url = request.build_absolute_uri(reverse("calendar-feed", args=[token]))
        text = "The calendar of {} (shown only this once; who has it may read the bookings): <code>{}</code>"
        messages.success(request, format_html(text, feed.project, url))
