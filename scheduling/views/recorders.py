"""Live fragments of the admin's pages: a recorder's current state and picture."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from nodes import workloads
from nodes.models import Workload
from nodes.workloads.media_worker_client import WorkerSilent, fetch_preview
from scheduling.models import Booking, Recorder
from scheduling.recording.controls import running_booking
from station.badges import state_badge
from station.clock import spoken
from station.rights import only_visible
from worker.wire.status import CaptureStatus


@never_cache
@require_safe
@login_required
def recorder_now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment that the recorder's page loads every two seconds."""
    visible = only_visible(Recorder.objects.all(), request.user, "scheduling.view_recorder")
    recorder = get_object_or_404(visible, pk=pk)
    return render(request, "scheduling/recorder_now.html", now_context(recorder))


@never_cache
@require_safe
@login_required
def booking_frame(request: HttpRequest, pk: int) -> HttpResponse:
    """The newest still of a running recording, fetched from its media worker; 204 while there is none."""
    visible = only_visible(Booking.objects.all(), request.user, "scheduling.view_booking")
    booking = get_object_or_404(visible, pk=pk)
    workload = workloads.latest(booking.owner)
    no_picture = HttpResponse(status=204)
    if workload is None or workload.is_over:
        return no_picture
    try:
        reply = fetch_preview(workload, "frame.jpg")
    except WorkerSilent:
        return no_picture
    return HttpResponse(reply.body, content_type="image/jpeg") if reply.status == 200 else no_picture


def trouble_of(booking: Booking, workload: Workload | None) -> str:
    """The error that keeps this booking from recording; empty if there is none."""
    if booking.state == Booking.State.RETRY_WAIT and booking.errors:
        return str(booking.errors[-1]["error"])
    status = workload.status(CaptureStatus) if workload is not None else None
    if workload is not None and status is not None and not status.signal:
        return status.error or workload.error
    return ""


def now_context(recorder: Recorder) -> dict[str, object]:
    booking = running_booking(recorder)
    if booking is None:
        return {"recorder": recorder, "booking": None}
    workload = workloads.latest(booking.owner)
    now = timezone.now()
    return {
        "recorder": recorder,
        "booking": booking,
        "badge": state_badge(booking),
        "workload": workload,
        "signal": workload.status(CaptureStatus).signal if workload else None,
        "error": trouble_of(booking, workload),
        "megabytes": booking.size_bytes / 1e6,
        "recorded": spoken(sum(part.seconds for part in booking.read_parts())),
        "remaining": spoken(max(0.0, (booking.ends_at - now).total_seconds())),
    }
