"""Telling people what came of what they asked for, with links to what it is about."""

from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduling.bookings.making import BookingRefused
from scheduling.models import Booking, Recorder
from scheduling.recording.controls import Outcome
from station.clock import house_time


def link_to(booking: Booking, text: str = "") -> SafeString:
    url = reverse("admin:scheduling_booking_change", args=[booking.pk])
    return format_html('<a class="underline" href="{}">{}</a>', url, text or f"Booking {booking.pk}")


def tell(request: HttpRequest, outcome: Outcome) -> None:
    """The outcome in words, with a link to the booking it speaks of."""
    text: str | SafeString = outcome.text
    if outcome.booking is not None:
        text = format_html("{} {}", text, link_to(outcome.booking))
    messages.add_message(request, messages.SUCCESS if outcome.is_good else messages.WARNING, text)


def explain(refusal: BookingRefused, recorder: Recorder, length: timedelta, title: str = "") -> SafeString:
    """Why not, who has it, and a way to the next free slot: a link to the form with those times filled in (R-13)."""
    text = format_html("{}", str(refusal))
    if refusal.winner is not None:
        text = format_html("{} {}", text, link_to(refusal.winner, f"See booking {refusal.winner.pk}"))
    if refusal.free_at is not None:
        url = slot_url(recorder, refusal.free_at, refusal.free_at + length, title)
        text = format_html('{} · <a class="underline" href="{}">Take {}</a>', text, url, house_time(refusal.free_at))
    return text


def slot_url(recorder: Recorder, starts_at: datetime, ends_at: datetime, title: str) -> str:
    """The form for a new booking with these times filled in; nothing is booked by following it."""
    values = {"recorder": recorder.pk, "starts_at": starts_at.isoformat(), "ends_at": ends_at.isoformat()}
    if title:
        values["title"] = title
    return f"{reverse('admin:scheduling_booking_add')}?{urlencode(values)}"
