"""Fixtures of the scheduling tests."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from nodes.models import Node
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder, Schedule

HOUR = timedelta(hours=1)
NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)


@pytest.fixture
def camera(project: Any) -> Recorder:
    return Recorder.objects.create(name="Cam", project=project, source_type="test")


@pytest.fixture
def evening(camera: Recorder) -> Schedule:
    """Every day 20:00 to 21:00 in Berlin, across the clock change of 29 March."""
    return Schedule.objects.create(
        name="Evening",
        recorder=camera,
        kind="daily",
        zone="Europe/Berlin",
        first_on=date(2026, 3, 1),
        start_time=time(20),
        length=HOUR,
        plan_due_at=NOW,
    )


@pytest.fixture
def node() -> Node:
    return Node.objects.create(name="n", address="process", media_dir="/m", state="up")


@pytest.fixture
def booking(project: Any) -> Booking:
    recorder = Recorder.objects.create(name="Cam", project=project, source_type="test")
    starts = timezone.now() - timedelta(minutes=10)
    return book(recorder, starts, starts + timedelta(minutes=10), now=starts, by="anna")


@pytest.fixture
def boss(admin_user: User) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def noon() -> datetime:
    return (timezone.now() + timedelta(days=1)).replace(minute=0, second=0, microsecond=0)
