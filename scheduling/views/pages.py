"""Two pages for operators: tonight's bookings with their problems, and the punctuality of starts."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduling.leader import election
from scheduling.models import Booking
from scheduling.recording import punctuality
from station.badges import badge, state_badge
from station.clock import house_time
from station.rights import is_administrator, only_visible, projects_with

VIEW = "scheduling.view_booking"
TONIGHT = timedelta(hours=24)
LEDGER = timedelta(days=31)
DONE = (Booking.State.COMPLETED, Booking.State.PARTIAL, Booking.State.CANCELLED)


def _page(request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
    if not request.user.is_staff or not request.user.has_perm(VIEW):
        raise PermissionDenied
    return render(request, template, {**admin.site.each_context(request), "title": title, **context})


@never_cache
@require_safe
@login_required
def tonight(request: HttpRequest) -> HttpResponse:
    """R-20: the bookings of the next 24 hours, those with problems first, with the reasons."""
    now = timezone.now()
    rows = only_visible(Booking.objects.all(), request.user, VIEW).select_related("recorder")
    coming = rows.filter(starts_at__lt=now + TONIGHT, ends_at__gt=now).exclude(state__in=DONE).order_by("starts_at")
    entries = []
    for booking in coming[:500]:
        bad = [each for each in booking.preflight if not each["is_good"]]
        is_out = booking.state in {Booking.State.SKIPPED, Booking.State.MISSED, Booking.State.FAILED}
        reasons = [f"{each['name']}: {each['text']}" for each in bad]
        if booking.state == Booking.State.SKIPPED:
            reasons = [booking.get_skip_reason_display()]
        if booking.state == Booking.State.RETRY_WAIT and booking.errors:
            reasons = [str(booking.errors[-1]["error"])]
        entries.append(
            {
                "booking": booking,
                "badge": state_badge(booking),
                "verdict": _verdict(booking, is_bad=bool(bad), is_out=is_out),
                "is_bad": bool(bad) or is_out or booking.state == Booking.State.RETRY_WAIT,
                "reasons": reasons,
                "starts": house_time(booking.starts_at),
                "ends": house_time(booking.ends_at),
                "checked": house_time(booking.preflight_at) if booking.preflight_at else "",
                "next_check": house_time(booking.next_preflight_at) if booking.next_preflight_at else "",
            }
        )
    status = election.read_status()
    context = {
        "bad": [entry for entry in entries if entry["is_bad"]],
        "good": [entry for entry in entries if not entry["is_bad"]],
        "leader": status if status.is_locked else None,
        "until": house_time(now + TONIGHT),
    }
    return _page(request, "scheduling/tonight.html", "Tonight", context)


def _verdict(booking: Booking, *, is_bad: bool, is_out: bool) -> str:
    if is_out:
        return badge("not recorded", "red")
    if booking.state in Booking.ACTIVE:
        return badge("running", "yellow") if booking.state != Booking.State.RETRY_WAIT else badge("failing", "red")
    if is_bad:
        return badge("would fail", "red")
    return badge("ready", "green") if booking.preflight_at else badge("not checked yet", "grey")


@never_cache
@require_safe
@login_required
def punctuality_page(request: HttpRequest) -> HttpResponse:
    """R-19: p50, p95, p99 and the worst start of each day."""
    projects = None
    if not is_administrator(request.user):
        projects = list(projects_with(request.user, VIEW).values_list("pk", flat=True))
    days = punctuality.days(timezone.now() - LEDGER, projects)
    return _page(request, "scheduling/punctuality.html", "Punctuality", {"days": days})
