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
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminSplitDateTimeWidget

from scheduling import editing, manual, padding
from scheduling.admin.feedback import explain, tell
from scheduling.admin.filters import OutcomeFilter, WhenFilter
from scheduling.bookings import BookingRefused, book
from scheduling.models import Booking, BookingEvent
from scheduling.models.schedule import MAX_LENGTH
from station import audit
from station.admin.base import EventInline, MachineAdmin, VisibleFilter, redirect_after_dialog, report, who
from station.badges import badge, lines, stamp, state_badge
from station.clock import database_now, house_time, spoken

State = Booking.State
BEFORE = (State.PLANNED, State.ARMED)


def _dialog(title: str, description: str, submit: str) -> dict[str, Any]:
    """With a dialog, unfold's actions are POST with CSRF; without one they would run on GET (S-02)."""
    return {"title": title, "description": description, "form_submit_text": submit}


class BookingForm(forms.ModelForm):
    """Booking happens while the form is checked, so that a refusal stands on the form, explained (R-13)."""

    # What the person was shown goes along: only what she changed is changed, whatever others did meanwhile.
    starts_at = forms.SplitDateTimeField(
        label="Starts", widget=UnfoldAdminSplitDateTimeWidget(), show_hidden_initial=True
    )
    ends_at = forms.SplitDateTimeField(label="Ends", widget=UnfoldAdminSplitDateTimeWidget(), show_hidden_initial=True)
    by = ""
    may_book: Callable[[Any], bool] = staticmethod(lambda recorder: True)

    class Meta:
        model = Booking
        fields = ["recorder", "title", "starts_at", "ends_at"]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        now = database_now()
        starts_at = cleaned.get("starts_at", self.instance.starts_at)
        ends_at = cleaned.get("ends_at", self.instance.ends_at)
        if ends_at <= starts_at:
            self.add_error("ends_at", "The end must come after the start.")
        elif ends_at - starts_at > MAX_LENGTH:
            self.add_error("ends_at", "At most seven days.")
        elif ends_at <= now and "ends_at" in self.changed_data:
            self.add_error("ends_at", "That is past.")
        if not self.errors:
            try:
                self._carry_out(cleaned, starts_at, ends_at, now)
            except BookingRefused as refusal:
                recorder = cleaned.get("recorder") or self.instance.recorder
                self.add_error(None, explain(refusal, recorder, ends_at - starts_at, cleaned.get("title", "")))
            except editing.NotPossible as fault:
                self.add_error(None, str(fault))
        return cleaned

    def _carry_out(self, cleaned: dict[str, Any], starts_at: datetime, ends_at: datetime, now: datetime) -> None:
        booking = self.instance
        if booking.pk is None:
            if not self.may_book(cleaned["recorder"]):
                raise BookingRefused("You may not book this recorder.")
            made = book(cleaned["recorder"], starts_at, ends_at, now=now, by=self.by, title=cleaned["title"])
            self.instance = made
            return
        stored = Booking.objects.select_related("recorder").get(pk=booking.pk)
        if "starts_at_0" in self.data and "starts_at" not in self.fields:
            raise editing.NotPossible(f"{stored} is {stored.state_word} by now: only its end can be changed.")
        if "starts_at" in self.changed_data:
            new_end = ends_at if "ends_at" in self.changed_data else stored.ends_at
            editing.move_window(stored, starts_at, new_end, now=now, by=self.by)
        elif "ends_at" in self.changed_data:
            editing.change_end(stored, ends_at, now=now, by=self.by)
        Booking.objects.filter(pk=booking.pk).update(title=cleaned.get("title", booking.title))

    def _post_clean(self) -> None:
        """The booking is stored already, by the one function that may: nothing is to be built from the fields."""

    def save(self, commit: bool = True) -> Booking:
        self.save_m2m = lambda: None  # type: ignore[method-assign]
        self.instance.refresh_from_db()
        instance: Booking = self.instance
        return instance


class BookingEventInline(EventInline):
    model = BookingEvent


@admin.register(Booking)
class BookingAdmin(MachineAdmin):
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
        if obj.state not in {*BEFORE, *editing.RUNNING}:
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

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # what was to happen stays on record: skip or cancel it

    def save_model(self, request: HttpRequest, obj: Booking, form: Any, change: bool) -> None:
        """The form has booked it; here it only goes on record who did."""
        after = {"starts_at": obj.starts_at.isoformat(), "ends_at": obj.ends_at.isoformat(), "title": obj.title}
        audit.record(who(request), "change" if change else "add", obj, after=after)
        if padding.is_short_of_padding(obj):
            messages.info(request, f"{padding.words(obj).capitalize()}: its neighbours need the rest.")

    # --- what is shown ---

    @display(description="Starts", ordering="starts_at")
    def starts_shown(self, obj: Booking) -> str:
        return stamp(obj.starts_at)

    @display(description="Ends", ordering="ends_at")
    def ends_shown(self, obj: Booking) -> str:
        return stamp(obj.ends_at)

    @display(description="State", ordering="state")
    def state_shown(self, obj: Booking) -> SafeString:
        word = badge("REC", "yellow") if obj.state == State.RECORDING else state_badge(obj)
        reason = obj.get_skip_reason_display() if obj.state == State.SKIPPED and obj.skip_reason else ""
        return format_html("{} {}", word, reason)

    @display(description="Window")
    def window_shown(self, obj: Booking) -> str:
        length = spoken((obj.ends_at - obj.starts_at).total_seconds())
        return f"{house_time(obj.starts_at)} to {house_time(obj.ends_at)} ({length})"

    @display(description="Padding")
    def padding_shown(self, obj: Booking) -> str:
        return padding.words(obj).removeprefix("padding ")

    @display(description="By")
    def made_by(self, obj: Booking) -> SafeString | str:
        if obj.schedule is None:
            return obj.requested_by
        url = reverse("admin:scheduling_schedule_change", args=[obj.schedule_id])
        return format_html('<a class="underline" href="{}">{}</a>', url, obj.schedule)

    @display(description="Recorded")
    def recorded(self, obj: Booking) -> str:
        return spoken(sum(float(part.get("seconds", 0)) for part in obj.parts)) if obj.parts else "–"

    @display(description="Size", ordering="size_bytes")
    def size(self, obj: Booking) -> str:
        return f"{obj.size_bytes / 1e6:.1f} MB, {obj.frames} frames" if obj.size_bytes else "–"

    @display(description="Punctuality")
    def punctuality_shown(self, obj: Booking) -> SafeString | str:
        moments = [
            ("opens", obj.opens_at),
            ("claimed", obj.claimed_at),
            ("dispatched", obj.dispatched_at),
            ("worker up", obj.container_at),
            ("first frame", obj.first_frame_at),
            ("first byte", obj.first_byte_at),
        ]
        rows = [f"{name}: {_against(moment, obj.opens_at)}" for name, moment in moments[1:] if moment]
        return lines(rows) if rows else "–"

    @display(description="Pre-flight")
    def preflight_shown(self, obj: Booking) -> SafeString | str:
        if not obj.preflight:
            return f"first look {house_time(obj.next_preflight_at)}" if obj.next_preflight_at else "–"
        rows = [f"{'✓' if each['is_good'] else '✗'} {each['name']}: {each['text']}" for each in obj.preflight]
        return lines([*rows, f"looked {house_time(obj.preflight_at)}" if obj.preflight_at else ""])

    @display(description="Parts")
    def parts_shown(self, obj: Booking) -> SafeString | str:
        return _listed(
            f"{part['file']}: {part['seconds']:.1f} s, {part['bytes'] / 1e6:.1f} MB, {part['end_reason'] or 'growing'}"
            for part in obj.parts
        )

    @display(description="Gaps")
    def gaps_shown(self, obj: Booking) -> SafeString | str:
        return _listed(
            f"{gap['from_at']} to {gap['to_at']}: {gap['seconds']:.1f} s, {gap['reason']}" for gap in obj.gaps
        )

    @display(description="Errors")
    def errors_shown(self, obj: Booking) -> SafeString | str:
        return _listed(f"attempt {each['attempt']}, {each['at']}: {each['error']}" for each in obj.errors[-20:])

    # --- what can be done; a button is there only where it would work ---

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if obj is not None and not isinstance(obj, Booking):  # unfold hands over the id
            obj = self.get_queryset(request).filter(pk=obj).first()
        return bool(request.user.has_perm("scheduling.operate_recorder", obj))

    def _can(self, request: HttpRequest, obj: Any, *states: str) -> bool:
        booking = obj if isinstance(obj, Booking) else self.get_queryset(request).filter(pk=obj).first()
        return booking is not None and booking.state in states and self.has_operate_permission(request, booking)

    def has_start_early_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, State.PLANNED)

    def has_stop_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, *editing.RUNNING)

    def has_extend_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, *BEFORE, *editing.RUNNING)

    def has_skip_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, *BEFORE)

    def has_restore_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, State.SKIPPED, State.CANCELLED)

    def has_cancel_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._can(request, obj, *BEFORE, *editing.RUNNING)

    @action(
        description="Start now",
        icon="fiber_manual_record",
        permissions=["start_early"],
        url_path="start-early",
        variant=ActionVariant.PRIMARY,
        dialog=_dialog("Start it now?", "It starts at once instead of at its planned time and keeps its end.", "Start"),
    )
    def start_early(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(request, object_id, lambda booking: tell(request, manual.start_early(booking, by=who(request))))

    @action(
        description="Stop",
        icon="stop",
        permissions=["stop"],
        url_path="stop",
        variant=ActionVariant.DANGER,
        dialog=_dialog("Stop the recording?", "What was recorded is kept. The rest is not recorded.", "Stop"),
    )
    def stop(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(
            request, object_id, lambda booking: tell(request, manual.stop_booking(booking, by=who(request)))
        )

    @action(
        description="+15 min",
        icon="more_time",
        permissions=["extend"],
        url_path="extend-15",
        dialog=_dialog("15 minutes more?", "It ends a quarter of an hour later.", "Extend"),
    )
    def extend_15(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._extend(request, object_id, 15)

    @action(
        description="+30 min",
        icon="more_time",
        permissions=["extend"],
        url_path="extend-30",
        dialog=_dialog("30 minutes more?", "It ends half an hour later.", "Extend"),
    )
    def extend_30(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._extend(request, object_id, 30)

    @action(
        description="+60 min",
        icon="more_time",
        permissions=["extend"],
        url_path="extend-60",
        dialog=_dialog("60 minutes more?", "It ends an hour later.", "Extend"),
    )
    def extend_60(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._extend(request, object_id, 60)

    @action(
        description="Skip",
        icon="event_busy",
        permissions=["skip"],
        url_path="skip",
        dialog=_dialog(
            "Skip this one?", "Only this one is left out; the schedule goes on. It can be restored.", "Skip"
        ),
    )
    def skip(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(request, object_id, lambda booking: self._skip(request, booking))

    @action(
        description="Restore",
        icon="undo",
        permissions=["restore"],
        url_path="restore",
        dialog=_dialog("Restore it?", "It is planned again, if the recorder is still free then.", "Restore"),
    )
    def restore(self, request: HttpRequest, form: forms.Form, object_id: int) -> HttpResponse:
        return self._do(request, object_id, lambda booking: self._restore(request, booking))

    @action(
        description="Cancel",
        icon="cancel",
        permissions=["cancel"],
        url_path="cancel",
        variant=ActionVariant.DANGER,
        dialog=_dialog("Cancel this booking?", "If it runs, it is stopped; files already written stay.", "Cancel it"),
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
        except editing.NotPossible as fault:
            messages.warning(request, str(fault))
        else:
            audit.record(
                who(request), _action_of(request), booking, before={"state": before}, after={"state": booking.state}
            )
        return redirect_after_dialog(reverse("admin:scheduling_booking_change", args=[object_id]))

    def _extend(self, request: HttpRequest, object_id: int, minutes: int) -> HttpResponse:
        def act(booking: Booking) -> None:
            manual.extend_booking(booking, minutes, by=who(request))
            messages.success(request, f"{booking} ends {house_time(booking.ends_at)} now.")

        return self._do(request, object_id, act)

    def _skip(self, request: HttpRequest, booking: Booking) -> None:
        if editing.skip(booking, now=database_now(), by=who(request)):
            messages.success(request, f"{booking} ({house_time(booking.starts_at)}) is skipped.")

    def _restore(self, request: HttpRequest, booking: Booking) -> None:
        editing.restore(booking, now=database_now(), by=who(request))
        messages.success(request, f"{booking} ({house_time(booking.starts_at)}) is planned again.")

    def _cancel(self, request: HttpRequest, booking: Booking) -> None:
        if manual.cancel_booking(booking, by=who(request)):
            messages.success(request, f"{booking} is {booking.state_word}.")

    # --- the same for many ---

    @admin.action(description="Stop", permissions=["operate"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[Booking]) -> None:
        def act(booking: Booking) -> tuple[bool, str]:
            outcome = manual.stop_booking(booking, by=who(request))
            return outcome.booking is not None and outcome.booking.is_over, outcome.text

        self._report(request, queryset, act, "stopped", *editing.RUNNING)

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Booking]) -> None:
        def act(booking: Booking) -> tuple[bool, str]:
            return manual.cancel_booking(booking, by=who(request)), booking.state_word

        self._report(request, queryset, act, "cancelled", *BEFORE, *editing.RUNNING)

    @admin.action(description="Skip", permissions=["operate"])
    def skip_selected(self, request: HttpRequest, queryset: QuerySet[Booking]) -> None:
        def act(booking: Booking) -> tuple[bool, str]:
            return editing.skip(booking, now=database_now(), by=who(request)), booking.state_word

        self._report(request, queryset, act, "skipped", *BEFORE)

    @admin.action(description="Restore", permissions=["operate"])
    def restore_selected(self, request: HttpRequest, queryset: QuerySet[Booking]) -> None:
        def act(booking: Booking) -> tuple[bool, str]:
            editing.restore(booking, now=database_now(), by=who(request))
            return True, ""

        self._report(request, queryset, act, "planned again", State.SKIPPED, State.CANCELLED)

    def _report(
        self,
        request: HttpRequest,
        queryset: QuerySet[Booking],
        act: Callable[[Booking], tuple[bool, str]],
        done: str,
        *states: str,
    ) -> None:
        def one(booking: Booking) -> tuple[bool, str]:
            if not self.has_operate_permission(request, booking):
                return False, "not yours"
            if booking.state not in states:
                return False, booking.state_word
            try:
                is_good, text = act(booking)
            except (BookingRefused, editing.NotPossible) as refusal:
                return False, str(refusal)
            audit.record(who(request), done, booking)
            return is_good, text

        report(request, queryset.select_related("recorder", "recorder__project"), one, done, "left as they are")


def _action_of(request: HttpRequest) -> str:
    return request.path.rstrip("/").rpartition("/")[2].replace("-", " ")


def _against(moment: datetime, opens_at: datetime) -> str:
    seconds = (moment - opens_at).total_seconds()
    return f"{house_time(moment)} ({seconds:+.3f} s)"


def _listed(items: Any) -> SafeString | str:
    rows = list(items)
    return lines(rows) if rows else "none"
