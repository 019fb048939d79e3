"""Columns and read-only fields of bookings in the admin."""

from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from scheduling.bookings import padding
from scheduling.models import Booking
from station.admin.subjects import link_to
from station.audit import subject_of
from station.badges import badge, lines, stamp, state_badge
from station.clock import house_time, spoken

State = Booking.State


class BookingFacts:
    """The displays of BookingAdmin; values only, no actions."""

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
        return spoken(sum(part.seconds for part in obj.read_parts())) if obj.parts else "–"

    @display(description="Size", ordering="size_bytes")
    def size(self, obj: Booking) -> str:
        return f"{obj.size_bytes / 1e6:.1f} MB" if obj.size_bytes else "–"

    @display(description="Frames")
    def frames_shown(self, obj: Booking) -> str:
        return str(obj.frames) if obj.size_bytes else "–"

    @display(description="Punctuality")
    def punctuality_shown(self, obj: Booking) -> SafeString | str:
        moments = [
            ("opens", obj.opens_at),
            ("claimed", obj.claimed_at),
            ("dispatched", obj.dispatched_at),
            ("media worker up", obj.container_at),
            ("first frame", obj.first_frame_at),
            ("first byte", obj.first_byte_at),
        ]
        rows = [f"{name}: {_against(moment, obj.opens_at)}" for name, moment in moments[1:] if moment]
        return lines(rows) if rows else "–"

    @display(description="Pre-flight")
    def preflight_shown(self, obj: Booking) -> SafeString | str:
        if not obj.preflight:
            return f"first check {house_time(obj.next_preflight_at)}" if obj.next_preflight_at else "–"
        rows = [f"{'✓' if each['is_good'] else '✗'} {each['name']}: {each['text']}" for each in obj.preflight]
        return lines([*rows, f"checked {house_time(obj.preflight_at)}" if obj.preflight_at else ""])

    @display(description="Asset")
    def asset_shown(self, obj: Booking) -> SafeString | str:
        """Where to watch it. The library, above this app, makes one for each recording."""
        asset = getattr(obj, "asset", None)
        return link_to(subject_of(asset)) if asset else "–"

    @display(description="Outcome")
    def outcome_shown(self, obj: Booking) -> str:
        return obj.outcome.replace("_", " ") or "–"

    @display(description="Parts")
    def parts_shown(self, obj: Booking) -> SafeString | str:
        return _listed(
            f"{part.file}: {part.seconds:.1f} s, {part.bytes / 1e6:.1f} MB, {part.end_reason or 'growing'}"
            for part in obj.read_parts()
        )

    @display(description="Gaps")
    def gaps_shown(self, obj: Booking) -> SafeString | str:
        return _listed(
            f"{house_time(gap.from_at)} to {house_time(gap.to_at)}: {gap.seconds:.1f} s, {gap.reason}"
            for gap in obj.read_gaps()
        )

    @display(description="Errors")
    def errors_shown(self, obj: Booking) -> SafeString | str:
        return _listed(
            f"attempt {each['attempt']}, {house_time(datetime.fromisoformat(each['at']))}: {each['error']}"
            for each in obj.errors[-20:]
        )


def _against(moment: datetime, opens_at: datetime) -> str:
    seconds = (moment - opens_at).total_seconds()
    return f"{house_time(moment)} ({seconds:+.3f} s)"


def _listed(items: Any) -> SafeString | str:
    rows = list(items)
    return lines(rows) if rows else "none"
