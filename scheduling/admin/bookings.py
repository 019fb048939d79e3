"""Bookings: made by hand, changed while they run, stopped, cancelled, skipped and restored; and what became of them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from unfold.decorators import action
from unfold.enums import ActionVariant

from scheduling.admin.booking_facts import BookingFacts
from scheduling.admin.booking_form import BookingForm
from scheduling.admin.feedback import explain, tell
from scheduling.admin.filters import OutcomeFilter, WhenFilter, is_first_look
from scheduling.bookings import changing, padding
from scheduling.bookings.making import BookingRefused
from scheduling.models import Booking, BookingEvent
from scheduling.recording import controls
from station import audit
from station.admin.base import EventInline, MachineAdmin, VisibleFilter, dialog, redirect_after_dialog, report, who
from station.clock import database_now, house_time

State = Booking.State
BEFORE = (State.PLANNED, State.ARMED)


# In which states each thing can be done; the buttons, the actions of the list and their refusals all follow this.
POSSIBLE: dict[str, tuple[str, ...]] = {
    "start_early": (State.PLANNED,),
    "stop": changing.RUNNING,
    "extend": (*BEFORE, *changing.RUNNING),
    "skip": BEFORE,
    "restore": (State.SKIPPED, State.CANCELLED),
    "cancel": (*BEFORE, *changing.RUNNING),
}


def _extension(minutes: int) -> Any:
    """The button that lets a booking end so many minutes later."""

    def extend(self: "BookingAdmin", request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        def act(booking: Booking) -> None:
            controls.extend_booking(booking, minutes, by=who(request))
            messages.success(request, f"{booking} ends {house_time(booking.ends_at)} now.")

        return self._do(request, object_id, act)

    extend.__name__ = f"extend_{minutes}"  # unfold finds actions by it
    return action(
        description=f"+{minutes} min",
        icon="more_time",
        permissions=["extend"],
        url_path=f"extend-{minutes}",
        dialog=dialog(f"{minutes} minutes more?", f"It ends {minutes} minutes later.", "Extend"),
    )(extend)


class BookingEventInline(EventInline):
    model = BookingEvent


@admin.register(Booking)
class BookingAdmin(BookingFacts, MachineAdmin):
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
    search_fields = ["title", "recorder__name", "requested_by"]
    date_hierarchy = "starts_at"
    inlines = [BookingEventInline]
    actions = ["stop_selected", "cancel_selected", "skip_selected", "restore_selected"]
    actions_detail = ["start_early", "stop", "extend_15", "extend_30", "extend_60", "skip", "restore", "cancel"]
    facts = [
        "state_shown",
        "window_shown",
        "padding_shown",
        "recorded",
        "punctuality_shown",
        "preflight_shown",
        "made_by",
        "attempts",
        "outcome",
        "folder",
        "file_name",
        "size",
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
        """A planned one can be moved, a running one gets another end, an ended one is history."""
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
            by = who(request)
            may_book = staticmethod(lambda recorder: request.user.has_perm("scheduling.operate_recorder", recorder))

        return Bound

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """From the link of an offered slot; a moment that cannot be read is left out."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        for name in ("starts_at", "ends_at"):
            try:
                initial[name] = datetime.fromisoformat(request.GET[name])
            except (KeyError, ValueError):
                initial.pop(name, None)
        return initial

    def get_ordering(self, request: HttpRequest) -> list[str]:
        """What is on and next reads like a running order; history reads backwards."""
        return ["starts_at", "id"] if is_first_look(request) else ["-starts_at", "-id"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # what was to happen stays on record: skip or cancel it

    def save_model(self, request: HttpRequest, obj: Booking, form: Any, change: bool) -> None:
        """The form has booked it; here it only goes on record who did."""
        after = {"starts_at": obj.starts_at.isoformat(), "ends_at": obj.ends_at.isoformat(), "title": obj.title}
        audit.record(who(request), "change" if change else "add", obj, after=after)
        if padding.is_short_of_padding(obj):
            messages.info(request, f"{padding.words(obj).capitalize()}: its neighbours need the rest.")

    # --- what can be done; a button is there only where it would work ---

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if obj is not None and not isinstance(obj, Booking):  # unfold hands over the id
            obj = self.get_queryset(request).filter(pk=obj).first()
        return bool(request.user.has_perm("scheduling.operate_recorder", obj))

    def _can(self, request: HttpRequest, obj: Any, what: str) -> bool:
        booking = obj if isinstance(obj, Booking) else self.get_queryset(request).filter(pk=obj).first()
        is_possible = booking is not None and booking.state in POSSIBLE[what]
        return is_possible and self.has_operate_permission(request, booking)

    def has_start_early_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, "start_early")

    def has_stop_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, "stop")

    def has_extend_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, "extend")

    def has_skip_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, "skip")

    def has_restore_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, "restore")

    def has_cancel_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, "cancel")

    @action(
        description="Start now",
        icon="fiber_manual_record",
        permissions=["start_early"],
        url_path="start-early",
        variant=ActionVariant.PRIMARY,
        dialog=dialog("Start it now?", "It starts at once instead of at its planned time and keeps its end.", "Start"),
    )
    def start_early(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(
            request, object_id, lambda booking: tell(request, controls.start_early(booking, by=who(request)))
        )

    @action(
        description="Stop",
        icon="stop",
        permissions=["stop"],
        url_path="stop",
        variant=ActionVariant.DANGER,
        dialog=dialog("Stop the recording?", "What was recorded is kept. The rest is not recorded.", "Stop"),
    )
    def stop(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(
            request, object_id, lambda booking: tell(request, controls.stop_booking(booking, by=who(request)))
        )

    extend_15, extend_30, extend_60 = _extension(15), _extension(30), _extension(60)

    @action(
        description="Skip",
        icon="event_busy",
        permissions=["skip"],
        url_path="skip",
        dialog=dialog("Skip this one?", "Only this one is left out; the schedule goes on. It can be restored.", "Skip"),
    )
    def skip(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(request, object_id, lambda booking: self._skip(request, booking))

    @action(
        description="Restore",
        icon="undo",
        permissions=["restore"],
        url_path="restore",
        dialog=dialog("Restore it?", "It is planned again, if the recorder is still free then.", "Restore"),
    )
    def restore(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(request, object_id, lambda booking: self._restore(request, booking))

    @action(
        description="Cancel",
        icon="cancel",
        permissions=["cancel"],
        url_path="cancel",
        variant=ActionVariant.DANGER,
        dialog=dialog("Cancel this booking?", "If it runs, it is stopped; files already written stay.", "Cancel it"),
    )
    def cancel(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(request, object_id, lambda booking: self._cancel(request, booking))

    def _do(self, request: HttpRequest, object_id: int, act: Callable[[Booking], object]) -> HttpResponse:
        """One action on one booking the user may operate; a refusal is told, not raised."""
        booking = get_object_or_404(self.get_queryset(request).select_related("recorder__project"), pk=object_id)
        if not self.has_operate_permission(request, booking):
            raise PermissionDenied
        before = booking.state
        try:
            act(booking)
        except BookingRefused as refusal:
            text = explain(refusal, booking.recorder, booking.ends_at - booking.starts_at, booking.title)
            messages.warning(request, text)
        except changing.NotPossible as fault:
            messages.warning(request, str(fault))
        else:
            audit.record(
                who(request), _action_of(request), booking, before={"state": before}, after={"state": booking.state}
            )
        return redirect_after_dialog(reverse("admin:scheduling_booking_change", args=[object_id]))

    def _skip(self, request: HttpRequest, booking: Booking) -> None:
        if changing.skip(booking, now=database_now(), by=who(request)):
            messages.success(request, f"{booking} ({house_time(booking.starts_at)}) is skipped.")

    def _restore(self, request: HttpRequest, booking: Booking) -> None:
        changing.restore(booking, now=database_now(), by=who(request))
        messages.success(request, f"{booking} ({house_time(booking.starts_at)}) is planned again.")

    def _cancel(self, request: HttpRequest, booking: Booking) -> None:
        if controls.cancel_booking(booking, by=who(request)):
            messages.success(request, f"{booking} is {booking.state_word}.")

    # --- the same for many ---

    @admin.action(description="Stop", permissions=["operate"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[Booking]) -> None:
        def act(booking: Booking) -> tuple[bool, str]:
            outcome = controls.stop_booking(booking, by=who(request))
            return outcome.booking is not None and outcome.booking.is_over, outcome.text

        self._report(request, queryset, act, "stop", "stopped")

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Booking]) -> None:
        def act(booking: Booking) -> tuple[bool, str]:
            return controls.cancel_booking(booking, by=who(request)), booking.state_word

        self._report(request, queryset, act, "cancel", "cancelled")

    @admin.action(description="Skip", permissions=["operate"])
    def skip_selected(self, request: HttpRequest, queryset: QuerySet[Booking]) -> None:
        def act(booking: Booking) -> tuple[bool, str]:
            return changing.skip(booking, now=database_now(), by=who(request)), booking.state_word

        self._report(request, queryset, act, "skip", "skipped")

    @admin.action(description="Restore", permissions=["operate"])
    def restore_selected(self, request: HttpRequest, queryset: QuerySet[Booking]) -> None:
        def act(booking: Booking) -> tuple[bool, str]:
            changing.restore(booking, now=database_now(), by=who(request))
            return True, ""

        self._report(request, queryset, act, "restore", "planned again")

    def _report(
        self,
        request: HttpRequest,
        queryset: QuerySet[Booking],
        act: Callable[[Booking], tuple[bool, str]],
        what: str,
        done: str,
    ) -> None:
        def one(booking: Booking) -> tuple[bool, str]:
            if not self.has_operate_permission(request, booking):
                return False, "not yours"
            if booking.state not in POSSIBLE[what]:
                return False, booking.state_word
            try:
                is_good, text = act(booking)
            except (BookingRefused, changing.NotPossible) as refusal:
                return False, str(refusal)
            audit.record(who(request), done, booking)
            return is_good, text

        report(request, queryset.select_related("recorder", "recorder__project"), one, done, "left as they are")


def _action_of(request: HttpRequest) -> str:
    return request.path.rstrip("/").rpartition("/")[2].replace("-", " ")
