"""Explains a refused booking: which booking has the recorder, and a link to the next free slot (R-13)."""

from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduling.models import Booking, Recorder
from station.actions import Outcome
from station.clock import house_time


def explain(outcome: Outcome, recorder: Recorder, length: timedelta, title: str = "") -> SafeString:
    """The reason, the booking in the way, and a link to the form with the next free slot filled in."""
    text = format_html("{}", outcome.text)
    if isinstance(outcome.target, Booking):
        url = reverse("admin:scheduling_booking_change", args=[outcome.target.pk])
        label = f"See booking {outcome.target.pk}"
        text = format_html('{} <a class="underline" href="{}">{}</a>', text, url, label)
    free_at: datetime | None = outcome.details.get("free_at")
    if free_at is not None:
        url = slot_url(recorder, free_at, free_at + length, title)
        text = format_html('{} · <a class="underline" href="{}">Book {}</a>', text, url, house_time(free_at))
    return text


def slot_url(recorder: Recorder, starts_at: datetime, ends_at: datetime, title: str) -> str:
    """Link to the form for a new booking with these times filled in; following it books nothing."""
    values = {"recorder": recorder.pk, "starts_at": starts_at.isoformat(), "ends_at": ends_at.isoformat()}
    if title:
        values["title"] = title
    return f"{reverse('admin:scheduling_booking_add')}?{urlencode(values)}"
