"""Start and Stop by hand without a scheduler: the asset is created, updated and filed."""

from datetime import timedelta
from typing import Any

import pytest

from assets.library import live
from assets.models import Asset
from scheduling.models import Booking, Leadership, Recorder
from scheduling.recording.controls import start_now, stop_now
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True)]


def test_an_asset_is_created_updated_and_filed_without_a_scheduler(
    recorder: Recorder, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A-01: the followers of a booking are called without a scheduler, too."""
    assert "assets.library.live.follow" in settings.BOOKING_FOLLOWERS
    monkeypatch.setattr(live, "SYNC", timedelta(0))  # copy at every step

    started = start_now(recorder, by="anna")

    assert started.is_good, started.text
    assert not Leadership.objects.filter(epoch__gt=0).exists()
    asset = Asset.objects.get(booking=started.target)
    assert (asset.state, asset.project) == (Asset.State.LIVE, recorder.project)
    [part] = asset.parts.all()
    first_bytes = part.size_bytes
    assert first_bytes > 0
    path = settings.RECORDINGS_DIR / part.path
    wait_until(lambda: path.stat().st_size > first_bytes + 50_000, 30, "the recording grows")

    stopped = stop_now(recorder, by="anna")

    assert stopped.is_good, stopped.text
    booking = Booking.objects.get()
    asset.refresh_from_db()
    assert (asset.state, booking.filed_at is not None) == (Asset.State.PROCESSING, True)
    assert asset.size_bytes == booking.size_bytes
    assert asset.size_bytes > first_bytes
    assert asset.steps.exists()
