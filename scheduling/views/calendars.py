"""The calendar feed behind a secret link, and the import of an .ics file with a preview."""

import base64
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from scheduling.bookings import calendars
from scheduling.bookings.calendar_controls import import_calendar as book_entries
from scheduling.bookings.calendar_events import MAX_BYTES, MAX_DAYS, BadCalendar
from scheduling.models import Recorder
from station.admin.base import who
from station.clock import database_now
from station.rights import only_visible

OPERATE = "scheduling.operate_recorder"


@never_cache
@require_safe
def calendar_feed(request: HttpRequest, token: str) -> HttpResponse:
    """Read-only and without a login: the secret link gives access. A wrong link gets 404."""
    feed = calendars.feed_of(token)
    if feed is None:
        raise Http404("There is no such calendar.")
    content = calendars.render_feed(feed.project, timezone.now())
    return HttpResponse(content, content_type="text/calendar; charset=utf-8")


class ImportForm(forms.Form):
    recorder = forms.ModelChoiceField(Recorder.objects.none(), widget=UnfoldAdminSelectWidget)
    days = forms.IntegerField(
        label="Days ahead", initial=28, min_value=1, max_value=MAX_DAYS, widget=UnfoldAdminIntegerFieldWidget
    )
    file = forms.FileField(label="iCalendar file (.ics)", required=False, widget=UnfoldAdminFileFieldWidget)
    content = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        upload = cleaned.get("file")
        if upload is not None:
            if upload.size > MAX_BYTES:
                self.add_error("file", f"The file is larger than {MAX_BYTES // 1000} kB.")
            else:
                cleaned["bytes"] = upload.read()
        elif cleaned.get("content"):
            try:
                cleaned["bytes"] = base64.b64decode(cleaned["content"], validate=True)
            except ValueError:
                self.add_error("file", "Choose the file again.")
        else:
            self.add_error("file", "Choose a file.")
        return cleaned


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def import_calendar(request: HttpRequest) -> HttpResponse:
    """The first button shows a preview; the second one reads the same file again and books."""
    if not request.user.is_staff or not request.user.has_perm("scheduling.add_booking"):
        raise PermissionDenied
    form = ImportForm(request.POST or None, request.FILES or None)
    recorders = only_visible(Recorder.objects.filter(is_active=True), request.user, OPERATE)
    form.fields["recorder"].queryset = recorders  # type: ignore[attr-defined]
    context: dict[str, Any] = {**admin.site.each_context(request), "title": "Import a calendar", "form": form}
    if request.method == "POST" and form.is_valid():
        now, recorder = database_now(), form.cleaned_data["recorder"]
        try:
            entries = calendars.read_calendar(form.cleaned_data["bytes"], recorder, now, form.cleaned_data["days"])
        except BadCalendar as fault:
            form.add_error("file", str(fault))
            return render(request, "scheduling/import_calendar.html", context)
        if "book" in request.POST:
            outcome = book_entries(recorder, now=now, by=who(request), entries=entries)
            messages.add_message(request, messages.SUCCESS if outcome.is_good else messages.WARNING, outcome.text)
            return redirect("admin:scheduling_booking_changelist")
        content = base64.b64encode(form.cleaned_data["bytes"]).decode()
        good = sum(not entry.problem for entry in entries)
        context |= {"entries": entries, "content": content, "good": good, "recorder": recorder}
        context["days"] = form.cleaned_data["days"]
    return render(request, "scheduling/import_calendar.html", context)
