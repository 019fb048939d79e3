"""HTTP API of recorders and bookings: status, start, stop, book, cancel, extend."""

from datetime import datetime

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import AwareDatetime, Field

from scheduling.bookings.controls import book
from scheduling.models import Booking, Recorder
from scheduling.recording import controls
from station.api_support import MOST_ROWS, Answer, answer, carry_out, one, visible

recorders = Router(tags=["recorders"])
bookings = Router(tags=["bookings"])


class RecorderOut(Schema):
    id: int
    name: str
    project: str | None
    source_type: str
    is_active: bool
    booking: int | None
    state: str


class BookingOut(Schema):
    id: int
    recorder: int
    title: str
    state: str
    starts_at: datetime
    ends_at: datetime
    size_bytes: int
    gaps: int


class BookingIn(Schema):
    recorder: int
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    title: str = Field("", max_length=120)


class BookingQuery(Schema):
    recorder: int | None = None
    state: str | None = None
    from_at: AwareDatetime | None = None
    to_at: AwareDatetime | None = None
    limit: int = Field(50, ge=1, le=MOST_ROWS)
    offset: int = Field(0, ge=0)


class Extension(Schema):
    minutes: float = Field(gt=0, le=24 * 60)


def recorder_out(recorder: Recorder) -> RecorderOut:
    booking = controls.running_booking(recorder)
    return RecorderOut(
        id=recorder.pk,
        name=recorder.name,
        project=recorder.project.slug if recorder.project else None,
        source_type=recorder.source_type,
        is_active=recorder.is_active,
        booking=booking.pk if booking else None,
        state=booking.state if booking else "idle",
    )


def booking_out(booking: Booking) -> BookingOut:
    return BookingOut(
        id=booking.pk,
        recorder=booking.recorder_id,
        title=str(booking),
        state=booking.state,
        starts_at=booking.starts_at,
        ends_at=booking.ends_at,
        size_bytes=booking.size_bytes,
        gaps=len(booking.gaps),
    )


@recorders.get("/", response=list[RecorderOut])
def list_recorders(request: HttpRequest) -> list[RecorderOut]:
    """All recorders you may see, and what each is doing."""
    return [recorder_out(row) for row in visible(Recorder.objects.select_related("project"), request)]


@recorders.get("/{pk}", response=RecorderOut)
def get_recorder(request: HttpRequest, pk: int) -> RecorderOut:
    return recorder_out(one(Recorder.objects.all(), request, pk))


@recorders.post("/{pk}/start", response=Answer)
def start(request: HttpRequest, pk: int) -> Answer:
    return answer(request, controls.start_now, one(Recorder.objects.all(), request, pk))


@recorders.post("/{pk}/stop", response=Answer)
def stop(request: HttpRequest, pk: int) -> Answer:
    return answer(request, controls.stop_now, one(Recorder.objects.all(), request, pk))


@bookings.get("/", response=list[BookingOut])
def list_bookings(request: HttpRequest, wanted: Query[BookingQuery]) -> list[BookingOut]:
    """Newest first; filter by recorder, state and time."""
    rows = visible(Booking.objects.select_related("recorder"), request).order_by("-starts_at", "-id")
    rows = rows.filter(recorder=wanted.recorder) if wanted.recorder is not None else rows
    rows = rows.filter(state=wanted.state) if wanted.state else rows
    rows = rows.filter(ends_at__gt=wanted.from_at) if wanted.from_at else rows
    rows = rows.filter(starts_at__lt=wanted.to_at) if wanted.to_at else rows
    return [booking_out(row) for row in rows[wanted.offset : wanted.offset + wanted.limit]]


@bookings.get("/{pk}", response=BookingOut)
def get_booking(request: HttpRequest, pk: int) -> BookingOut:
    return booking_out(one(Booking.objects.select_related("recorder"), request, pk))


@bookings.post("/", response={201: BookingOut})
def make_booking(request: HttpRequest, wanted: BookingIn) -> Status[BookingOut]:
    """A 409 answer names the booking that has the recorder, and when the recorder is free."""
    recorder = one(Recorder.objects.all(), request, wanted.recorder)
    window = {"starts_at": wanted.starts_at, "ends_at": wanted.ends_at}
    booking = carry_out(request, book, recorder, title=wanted.title, **window).target
    assert isinstance(booking, Booking)
    return Status(201, booking_out(booking))


@bookings.post("/{pk}/cancel", response=Answer)
def cancel(request: HttpRequest, pk: int) -> Answer:
    return answer(request, controls.cancel_booking, _booking(request, pk))


@bookings.post("/{pk}/stop", response=Answer)
def stop_booking(request: HttpRequest, pk: int) -> Answer:
    return answer(request, controls.stop_booking, _booking(request, pk))


@bookings.post("/{pk}/extend", response=Answer)
def extend(request: HttpRequest, pk: int, more: Extension) -> Answer:
    return answer(request, controls.extend_booking, _booking(request, pk), minutes=more.minutes)


def _booking(request: HttpRequest, pk: int) -> Booking:
    return one(Booking.objects.select_related("recorder", "recorder__project"), request, pk)
