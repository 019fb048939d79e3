"""The form of a booking. It books while it is checked, so that a refusal stands on the form, explained (R-13)."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminSplitDateTimeWidget

from scheduling.admin.feedback import explain
from scheduling.bookings import changing
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking
from scheduling.models.schedule import MAX_LENGTH
from station.clock import database_now


class BookingForm(forms.ModelForm):
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
            except changing.NotPossible as fault:
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
            raise changing.NotPossible(f"{stored} is {stored.state_word} by now: only its end can be changed.")
        if "starts_at" in self.changed_data:
            new_end = ends_at if "ends_at" in self.changed_data else stored.ends_at
            changing.move_window(stored, starts_at, new_end, now=now, by=self.by)
        elif "ends_at" in self.changed_data:
            changing.change_end(stored, ends_at, now=now, by=self.by)
        Booking.objects.filter(pk=booking.pk).update(title=cleaned.get("title", booking.title))

    def _post_clean(self) -> None:
        """The booking is stored already, by the one function that may: nothing is to be built from the fields."""

    def save(self, commit: bool = True) -> Booking:
        self.save_m2m = lambda: None  # type: ignore[method-assign]
        self.instance.refresh_from_db()
        instance: Booking = self.instance
        return instance
