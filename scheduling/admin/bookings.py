"""Admin of bookings: make and change them by hand, stop, cancel, skip and restore them, and see their outcome."""

from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from scheduling.admin.booking_buttons import BULK_ACTIONS, BUTTONS
from scheduling.admin.booking_facts import BookingFacts
from scheduling.admin.booking_form import BookingForm, NotSaved
from scheduling.admin.feedback import explain
from scheduling.admin.filters import OutcomeFilter, WhenFilter, is_first_look
from scheduling.bookings import changing, padding
from scheduling.bookings.controls import BEFORE, book
from scheduling.models import Booking, BookingEvent, Recorder
from scheduling.models.booking import BOOKING_WORDS
from station import audit
from station.actions import Outcome
from station.admin.base import EventInline, MachineAdmin, VisibleFilter, who
from station.admin.buttons import Operated
from station.admin.search import WordSearch
from station.database.words import named

State = Booking.State
REFUSED = "_booking_refused"  # attribute of the request: why saving the form was refused


class BookingEventInline(EventInline):
    model = BookingEvent


def bookings_of_recorder(word: str) -> QuerySet[Any]:
    recorders = named(Recorder.objects.order_by(), "name", word)
    return Booking.objects.order_by().filter(recorder__in=recorders).values("pk")


@admin.register(Booking)
class BookingAdmin(BookingFacts, WordSearch, Operated, MachineAdmin):
    form = BookingForm
    list_display = ["__str__", "state_shown", "recorder", "starts_shown", "ends_shown", "recorded", "size", "made_by"]
    list_filter = [
        WhenFilter,
        OutcomeFilter,
        "state",
        ("recorder__project", VisibleFilter),
        ("recorder", VisibleFilter),
        ("schedule", VisibleFilter),
    ]
    list_select_related = ["recorder", "recorder__project", "schedule"]
    search_help_text = "Title, recorder, user, file name, number"
    search_words = BOOKING_WORDS
    search_elsewhere = [bookings_of_recorder]
    date_hierarchy = "starts_at"
    inlines = [BookingEventInline]
    buttons = BUTTONS
    bulk_actions = BULK_ACTIONS
    facts = [
        "state_shown",
        "window_shown",
        "padding_shown",
        "recorded",
        "punctuality_shown",
        "preflight_shown",
        "made_by",
        "attempts",
        "outcome_shown",
        "asset_shown",
        "folder",
        "file_name",
        "size",
        "frames_shown",
        "parts_shown",
        "gaps_shown",
        "errors_shown",
    ]

    def get_fieldsets(self, request: HttpRequest, obj: Booking | None = None) -> Any:
        what = (None, {"fields": ["recorder", "title", "starts_at", "ends_at"]})
        if obj is None:
            return [what]
        return [("State", {"fields": self.facts[:3]}), what, ("What happened", {"fields": self.facts[3:]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Booking | None = None) -> list[str]:
        """A planned booking can be moved; a running one can get a new end; an ended one cannot be changed."""
        if obj is None:
            return []
        fixed = ["recorder"]
        if obj.state != State.PLANNED:
            fixed.append("starts_at")
        if obj.state not in {*BEFORE, *changing.RUNNING}:
            fixed += ["ends_at", "title"]
        return [*fixed, *self.facts]

    def get_form(self, request: HttpRequest, obj: Booking | None = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        fixed = set(self.get_readonly_fields(request, obj))
        kept = {name: field for name, field in made.base_fields.items() if name not in fixed}

        class Bound(made):  # type: ignore[misc, valid-type]
            base_fields = kept
            may_book = staticmethod(lambda recorder: book.may(request.user, recorder))
            refused = getattr(request, REFUSED, None)

        return Bound

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Times from the link of an offered slot; a time that cannot be parsed is left out."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        for name in ("starts_at", "ends_at"):
            try:
                initial[name] = datetime.fromisoformat(request.GET[name])
            except (KeyError, ValueError):
                initial.pop(name, None)
        return initial

    def get_ordering(self, request: HttpRequest) -> list[str]:
        """The first view lists oldest first, like a running order; all others newest first."""
        return ["starts_at", "id"] if is_first_look(request) else ["-starts_at", "-id"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # bookings stay on record: skip or cancel them instead

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        """If the window is taken between the check and the saving, show the form again with the reason."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except NotSaved as refusal:  # raised out of the transaction, which is rolled back with its audit entry
            outcome, what = refusal.outcome, "change" if object_id else "add"
            audit.record(who(request), what, refusal.about, note=outcome.text, result=outcome.result)
            setattr(request, REFUSED, outcome)
            return super().changeform_view(request, object_id, form_url, extra_context)

    def save_model(self, request: HttpRequest, obj: Booking, form: Any, change: bool) -> None:
        """Use the same action as the API and the command; it writes the audit entry."""
        booking = form.book(who(request))
        if padding.is_short_of_padding(booking):
            messages.info(request, f"{padding.words(booking).capitalize()}: the neighbouring bookings need the rest.")

    def sentence(self, request: HttpRequest, row: Booking, outcome: Outcome) -> str | SafeString:
        """Add the next free slot to a refusal."""
        if outcome.details.get("free_at"):
            return explain(outcome, row.recorder, row.ends_at - row.starts_at, row.title)
        return super().sentence(request, row, outcome)
