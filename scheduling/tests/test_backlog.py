"""A backlog of missed bookings does not delay what is due now (R-24)."""

from datetime import timedelta
from typing import Any

import pytest

from nodes.models import Node
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from station.clock import database_now
from station.models import Alert
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.crash]

State = Booking.State
BACKLOG = 1000


def fill_the_past(recorder: Recorder) -> None:
    """Planned bookings of the last days that no scheduler has started."""
    now = database_now()
    starts_at = now + timedelta(days=300)
    book(recorder, starts_at, starts_at + timedelta(minutes=4), now=now, title="old")
    template = Booking.objects.get(recorder=recorder)
    values = {field.attname: getattr(template, field.attname) for field in Booking._meta.concrete_fields}
    del values["id"]
    template.events.all().delete()
    template.delete()
    length, pads = timedelta(minutes=4), (template.opens_at - template.starts_at, template.closes_at - template.ends_at)
    rows = []
    for number in range(1, BACKLOG + 1):
        begins = now - timedelta(hours=1) - number * timedelta(minutes=5)
        times = {"starts_at": begins, "ends_at": begins + length}
        times |= {"opens_at": begins + pads[0], "closes_at": begins + length + pads[1]}
        rows.append(Booking(**{**values, **times}))
    Booking.objects.bulk_create(rows)


def test_a_thousand_missed_bookings_delay_none_that_is_due(process_node: Node, project: Any, scheduler: Any) -> None:
    old, new = (
        Recorder.objects.create(
            name=name, project=project, source_type="test", picture_size="160x90", video_bitrate="64k"
        )
        for name in ("Old", "New")
    )
    fill_the_past(old)
    now = database_now()
    starts_at = now + timedelta(seconds=6)
    book(new, starts_at, starts_at + timedelta(minutes=5), now=now, title="now")
    scheduler(WORKER_PREVIEW="false", LAUNCH_AHEAD_SECONDS="0")
    booking = Booking.objects.get(recorder=new)
    wait_until(lambda: Booking.objects.get(pk=booking.pk).state == State.RECORDING, 60, "what is due records")
    booking.refresh_from_db()
    assert booking.late_by_seconds is not None
    assert booking.late_by_seconds < 2.0
    missed = Booking.objects.filter(recorder=old)
    wait_until(lambda: not missed.exclude(state=State.MISSED).exists(), 90, "the backlog is worked off")
    assert missed.count() == BACKLOG
    worked_off = max(missed.values_list("state_since_at", flat=True))
    alerts = Alert.objects.filter(key__startswith="missed:")
    assert alerts.count() == 1, "one alert for all of them"
    assert alerts.get().title == f"{BACKLOG} bookings were missed"
    print(f"late {booking.late_by_seconds:.3f} s; backlog worked off in {(worked_off - now).total_seconds():.1f} s")
