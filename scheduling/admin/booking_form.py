"""The form of a booking. It only checks; `BookingAdmin.save_model` books.

If the window is taken between the check and the saving, the form is shown again with an error (R-13).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import UnfoldAdminSplitDateTimeWidget

from scheduling.admin.feedback import explain
from scheduling.bookings import changing, controls, making
from scheduling.models import Booking, Recorder
from scheduling.models.schedule import MAX_LENGTH
from station.actions import Outcome, Refusal
from station.clock import database_now


class NotSaved(Exception):
    """The form was fine, but the booking was refused when it was saved."""

    def __init__(self, outcome: Outcome, about: Booking | Recorder) -> None:
        super().__init__(outcome.text)
        self.outcome, self.about = outcome, about


class HouseTimeField(forms.SplitDateTimeField):
    """Date and time in house time. It says plainly why an hour of a clock change cannot be entered."""

    def compress(self, data_list: Any) -> datetime | None:
        try:
            moment: datetime | None = super().compress(data_list)
        except ValidationError as error:
            if error.code != "ambiguous_timezone":
                raise
            text = "The clocks change then: this time comes twice or not at all. Choose an earlier or a later one."
            raise ValidationError(text, code=error.code) from error
        return moment


class BookingForm(forms.ModelForm):
    # The values that were shown are sent along: only fields that the person changed are saved, not what others changed.
    starts_at = HouseTimeField(label="Starts", widget=UnfoldAdminSplitDateTimeWidget(), show_hidden_initial=True)
    ends_at = HouseTimeField(label="Ends", widget=UnfoldAdminSplitDateTimeWidget(), show_hidden_initial=True)
    may_book: Callable[[Any], bool] = staticmethod(lambda recorder: True)
    refused: Outcome | None = None  # why saving this form was refused a moment ago

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
            self.add_error("ends_at", "A booking can last at most seven days.")
        elif ends_at <= now and "ends_at" in self.changed_data:
            self.add_error("ends_at", "The end is in the past.")
        if not self.errors:
            outcome = self._refusal(cleaned, now) or self.refused
            if outcome is not None:
                recorder = cleaned.get("recorder") or self.instance.recorder
                self.add_error(None, explain(outcome, recorder, ends_at - starts_at, cleaned.get("title", "")))
        return cleaned

    def _refusal(self, cleaned: dict[str, Any], now: datetime) -> Outcome | None:
        """Why it cannot be saved now; None if it can."""
        try:
            if self.instance.pk is None:
                self._check_new(cleaned["recorder"], cleaned["starts_at"], cleaned["ends_at"], now)
            else:
                self._check_change(now)
        except Refusal as refusal:
            return refusal.outcome()
        return None

    def _check_new(self, recorder: Recorder, starts_at: datetime, ends_at: datetime, now: datetime) -> None:
        if not self.may_book(recorder):
            raise making.BookingRefused("You don't have permission to book this recorder.")
        making.check_window(recorder, starts_at, ends_at, now=now)

    def _check_change(self, now: datetime) -> None:
        stored = Booking.objects.select_related("recorder").get(pk=self.instance.pk)
        if "starts_at_0" in self.data and "starts_at" not in self.fields:
            raise changing.NotPossible(f"{stored} is {stored.state_word} by now: only its end can be changed.")
        wanted = self._changes()
        starts_at, ends_at = wanted.get("starts_at", stored.starts_at), wanted.get("ends_at", stored.ends_at)
        changing.check_change(stored, starts_at, ends_at, now=now)

    def _changes(self) -> dict[str, Any]:
        names = [name for name in ("starts_at", "ends_at") if name in self.changed_data and name in self.cleaned_data]
        return {name: self.cleaned_data[name] for name in names}

    def _post_clean(self) -> None:
        """Do nothing: only `book` makes or changes a booking."""

    def save(self, commit: bool = True) -> Booking:
        """Save nothing yet: Django's admin asks for the object before it saves it."""
        self.save_m2m = lambda: None  # type: ignore[method-assign]
        instance: Booking = self.instance
        return instance

    def book(self, by: str) -> Booking:
        """Make or change the booking, with its audit entry. Raises NotSaved."""
        cleaned = self.cleaned_data
        about: Booking | Recorder
        if self.instance.pk is None:
            about = cleaned["recorder"]
            window = {"starts_at": cleaned["starts_at"], "ends_at": cleaned["ends_at"]}
            outcome = controls.book(about, by=by, title=cleaned["title"], **window)
        else:
            about = Booking.objects.select_related("recorder").get(pk=self.instance.pk)
            outcome = controls.change(about, by=by, title=cleaned.get("title"), **self._changes())
        if not outcome.is_done:
            raise NotSaved(outcome, about)
        made = outcome.target if isinstance(outcome.target, Booking) else self.instance
        self.instance.pk, self.instance._state.adding = made.pk, False
        self.instance.refresh_from_db()
        instance: Booking = self.instance
        return instance
