"""Live assets without progress (A-02)."""

from datetime import timedelta
from typing import Any

import pytest

from assets.library import live
from assets.models import Asset
from assets.tests.test_live import end
from nodes.models import Workload
from scheduling.models import Booking
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert

pytestmark = pytest.mark.django_db

State = Asset.State


@pytest.fixture(autouse=True)
def real_tolerance(settings: Any) -> None:
    settings.TOLERATED_GAP_SECONDS = 5.0


def age(asset: Asset, minutes: float) -> None:
    Asset.objects.filter(pk=asset.pk).update(state_since_at=database_now() - timedelta(minutes=minutes))


def stand_still(booking: Booking, minutes: float) -> None:
    """Its last frame is this old."""
    booking.parts[0]["last_frame_at"] = (database_now() - timedelta(minutes=minutes)).isoformat()
    Booking.objects.filter(pk=booking.pk).update(parts=booking.parts)


def test_a_long_recording_with_progress_stays_live(booking: Booking) -> None:
    """A-02: it is five hours old, and its last frame is recent."""
    live.follow(booking, database_now())
    age(Asset.objects.get(), 300)
    stand_still(booking, 0.1)
    live.step(Term(), database_now())
    assert Asset.objects.get().state == State.LIVE


def test_without_progress_for_two_hours_it_is_an_error(booking: Booking) -> None:
    """A-02: with an alert."""
    live.follow(booking, database_now())
    age(Asset.objects.get(), 130)
    stand_still(booking, 125)
    live.step(Term(), database_now())
    asset = Asset.objects.get()
    assert asset.state == State.ERROR
    assert "125 minutes" in asset.error
    assert Alert.objects.filter(key=f"stale:{asset.owner}").exists()


def test_just_below_the_limit_it_is_still_live(booking: Booking) -> None:
    """A-02"""
    live.follow(booking, database_now())
    age(Asset.objects.get(), 130)
    stand_still(booking, 119)
    live.step(Term(), database_now())
    assert Asset.objects.get().state == State.LIVE


def test_progress_of_the_media_worker_keeps_it_live(booking: Booking) -> None:
    """A-02: the workload's progress counts too."""
    live.follow(booking, database_now())
    now = database_now()
    Workload.objects.create(
        owner=booking.owner,
        generation=1,
        node=booking.recorder.node,
        name="w",
        program="capture",
        control_port=9600,
        state=Workload.State.RUNNING,
        created_at=now,
        progress_at=now,
    )
    age(Asset.objects.get(), 300)
    stand_still(booking, 300)
    live.step(Term(), now)
    assert Asset.objects.get().state == State.LIVE


def test_when_the_picture_comes_back_it_is_live_again(booking: Booking) -> None:
    """A-02"""
    test_without_progress_for_two_hours_it_is_an_error(booking)
    stand_still(booking, 0)
    live.follow(booking, database_now())
    asset = Asset.objects.get()
    assert asset.state == State.LIVE
    assert not Alert.objects.filter(key=f"stale:{asset.owner}", state="open").exists()


def test_a_stale_asset_is_filed_when_its_recording_ends(booking: Booking) -> None:
    """A-02: recorded media is not lost."""
    test_without_progress_for_two_hours_it_is_an_error(booking)
    live.follow(booking, end(booking, "partial"))
    assert Asset.objects.get().state == State.PROCESSING
