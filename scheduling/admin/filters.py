"""Filters of the booking list: by time and by outcome."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from scheduling.models import Booking
from station.clock import house_zone

State = Booking.State
DAY = timedelta(days=1)
RECENT = timedelta(hours=2)


def is_first_look(request: HttpRequest) -> bool:
    """True if nothing is searched or filtered yet: the list then shows what is on now and next."""
    return not set(request.GET) - {"p", "o", "_changelist_filters"}


class WhenFilter(admin.SimpleListFilter):
    title = "when"
    parameter_name = "when"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        words = {"today": "Today", "tomorrow": "Tomorrow", "next7": "Next 7 days", "past7": "Past 7 days", "all": "All"}
        return list(words.items())

    def choices(self, changelist: Any) -> Any:
        """The choice without a parameter is "Now and next", not all bookings."""
        first, *others = super().choices(changelist)
        yield {**first, "display": "Now and next"}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Booking]) -> QuerySet[Booking]:
        """Bookings whose window overlaps the chosen span; days are in house time."""
        now = timezone.now()
        midnight = now.astimezone(house_zone()).replace(hour=0, minute=0, second=0, microsecond=0)
        spans = {
            "today": (midnight, midnight + DAY),
            "tomorrow": (midnight + DAY, midnight + 2 * DAY),
            "next7": (now, now + 7 * DAY),
            "past7": (now - 7 * DAY, now),
        }
        if is_first_look(request):
            return queryset.filter(starts_at__lt=now + DAY, ends_at__gt=now - RECENT)
        if self.value() not in spans:
            return queryset
        begins, ends = spans[str(self.value())]
        return queryset.filter(starts_at__lt=ends, ends_at__gt=begins)


class OutcomeFilter(admin.SimpleListFilter):
    title = "outcome"
    parameter_name = "outcome"
    GROUPS = {
        "failed": [State.FAILED, State.MISSED],
        "partial": [State.PARTIAL],
        "not": [State.FAILED, State.MISSED, State.SKIPPED],
        "running": list(Booking.ACTIVE),
        "planned": [State.PLANNED, State.ARMED],
        "good": [State.COMPLETED],
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            ("running", "Running"),
            ("planned", "Upcoming"),
            ("failed", "Failed or missed"),
            ("partial", "Partial"),
            ("not", "Did not happen"),
            ("good", "Completed"),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Booking]) -> QuerySet[Booking]:
        states = self.GROUPS.get(str(self.value()))
        return queryset.filter(state__in=states) if states else queryset
