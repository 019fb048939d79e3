"""The asset of a booking: live at the first byte, updated while it grows, filed once."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from assets.library import gaps, live
from assets.models import Asset, AssetStep
from assets.processing import steps
from assets.tests.conftest import part
from jobs.models import Run
from scheduling.models import Booking
from station.clock import database_now
from station.leader_term import Term

pytestmark = pytest.mark.django_db

State = Asset.State


@pytest.fixture(autouse=True)
def real_tolerance(settings: Any) -> None:
    settings.TOLERATED_GAP_SECONDS = 5.0


def end(booking: Booking, state: str = Booking.State.COMPLETED) -> datetime:
    """Its window is over and it was stopped."""
    at = booking.closes_at
    booking.events.create(at=at, old="recording", new="stopping", by="scheduler")
    Booking.objects.filter(pk=booking.pk).update(state=state, state_since_at=at, parts=booking.parts, gaps=booking.gaps)
    booking.refresh_from_db()
    return at + timedelta(seconds=2)


def test_an_asset_is_live_as_soon_as_something_is_recorded(booking: Booking) -> None:
    """A-01: linked to its booking, with parts, in the booking's project."""
    live.follow(booking, database_now())
    asset = Asset.objects.get()
    assert (asset.state, asset.booking, asset.project) == (State.LIVE, booking, booking.recorder.project)
    assert [(each.number, each.path, each.node_id) for each in asset.parts.all()] == [
        (1, "news/studio-a/take-001.ts", booking.recorder.node_id)
    ]
    assert asset.title.startswith("Studio A ")


def test_before_the_first_byte_there_is_no_asset(booking: Booking) -> None:
    """A-01."""
    booking.size_bytes = 0
    live.follow(booking, database_now())
    assert not Asset.objects.exists()


def test_a_new_part_and_its_gap_are_copied_at_once(booking: Booking) -> None:
    """A-01: parts, gap map and completeness as they happen."""
    opens = booking.opens_at
    now = opens + timedelta(seconds=40)
    live.follow(booking, now)
    booking.parts = [part(1, opens, 20), part(2, opens + timedelta(seconds=25), 14)]
    gap = {"from_at": booking.parts[0]["last_frame_at"], "to_at": booking.parts[1]["first_frame_at"], "seconds": 5.0}
    gap |= {"reason": "ffmpeg_died"}
    booking.gaps = [gap]
    live.follow(booking, now + timedelta(seconds=1))
    asset = Asset.objects.get()
    assert asset.part_count == asset.parts.count() == 2
    assert asset.gaps == [gap]
    assert asset.completeness_percent == pytest.approx(100 * 34 / 41, abs=0.5)


def test_the_size_of_a_growing_recording_is_copied_every_few_seconds(
    booking: Booking, django_assert_max_num_queries: Any
) -> None:
    """Following a recording costs one small query per update."""
    now = database_now()
    live.follow(booking, now)
    booking.size_bytes += 1000
    with django_assert_max_num_queries(1):
        live.follow(booking, now + timedelta(seconds=2))
    assert Asset.objects.get().size_bytes == 39000
    live.follow(booking, now + timedelta(seconds=11))
    assert Asset.objects.get().size_bytes == 40000


@pytest.mark.parametrize(
    ("ending", "is_complete"),
    [("completed", True), ("partial", False), ("cancelled", False), ("failed", False)],
)
def test_an_ended_recording_is_filed_and_processed(booking: Booking, ending: str, is_complete: bool) -> None:
    live.follow(booking, database_now())
    now = end(booking, ending)
    live.follow(booking, now)
    asset = Asset.objects.get()
    assert (asset.state, asset.is_complete) == (State.PROCESSING, is_complete)
    assert set(asset.steps.values_list("kind", flat=True)) == {"probe", "checksum"}
    assert Run.objects.filter(owner=asset.owner, project=asset.project).count() == 2
    booking.refresh_from_db()
    assert booking.filed_at == now


def test_filing_a_booking_twice_creates_one_asset(booking: Booking) -> None:
    """A-01: several processes file the same booking: one asset, each step queued once."""
    now = end(booking)
    stale_copy = Booking.objects.get(pk=booking.pk)
    live.file(booking, now)
    live.file(stale_copy, now)
    live.step(Term(), now)
    assert Asset.objects.count() == 1
    assert AssetStep.objects.count() == Run.objects.count() == 2


def test_an_ended_booking_without_an_asset_is_filed_by_the_step(booking: Booking) -> None:
    """A-01: for example started and stopped by hand while no scheduler was running."""
    now = end(booking)
    live.step(Term(), now)
    asset = Asset.objects.get()
    assert asset.state == State.PROCESSING
    assert not Booking.objects.to_file().exists()


def test_completeness_is_the_recorded_share_of_the_window(booking: Booking) -> None:
    opens = booking.opens_at
    booking.parts = [part(1, opens, 20), part(2, opens + timedelta(seconds=26), 34)]
    booking.gaps = [
        {"from_at": booking.parts[0]["last_frame_at"], "to_at": booking.parts[1]["first_frame_at"], "seconds": 6.0}
    ]
    live.follow(booking, end(booking, "partial"))
    assert Asset.objects.get().completeness_percent == pytest.approx(90.0, abs=0.1)


def test_an_asset_that_throws_does_not_stop_the_others(booking: Booking, monkeypatch: Any) -> None:
    """A-04."""
    now = end(booking)
    second = Booking.objects.get(pk=booking.pk)
    second.pk = None
    second.starts_at = second.opens_at = booking.opens_at - timedelta(hours=1)
    second.ends_at = second.closes_at = booking.closes_at - timedelta(hours=1)
    second.save()
    really = live.sync

    def sync(asset: Asset, of: Booking, at: datetime) -> None:
        if of.pk == booking.pk:
            raise RuntimeError("this one is broken")
        really(asset, of, at)

    monkeypatch.setattr(live, "sync", sync)
    live.step(Term(), now)
    assert Asset.objects.get(booking=second).state == State.PROCESSING
    assert Booking.objects.get(pk=booking.pk).filed_at is None  # tried again next time


def test_a_rehearsal_creates_no_assets(booking: Booking) -> None:
    from station.clock import pretend

    with pretend(lambda: booking.opens_at):
        live.follow(booking, booking.opens_at)
    assert not Asset.objects.exists()


def test_a_step_with_nothing_to_do_makes_few_queries(django_assert_max_num_queries: Any) -> None:
    now = database_now()
    with django_assert_max_num_queries(6):
        assert live.step(Term(), now) is None
    assert steps.unsettled() == []


def test_reported_lengths_are_corrected_from_the_files(booking: Booking) -> None:
    """A-01: a killed ffmpeg had reported frames that never reached the disk."""
    opens = booking.opens_at
    booking.parts = [part(1, opens, 20, end_reason="ffmpeg_died"), part(2, opens + timedelta(seconds=25), 35)]
    live.follow(booking, end(booking, "partial"))
    asset = Asset.objects.get()
    changes = gaps.refine(asset, {1: (475, 19.0)})
    assert changes["completeness_percent"] == pytest.approx(90.0, abs=0.01)
    assert changes["frames"] == 475 + 875
    [gap] = changes["gaps"]
    assert (gap["seconds"], gap["reason"]) == (6.0, "ffmpeg_died")


def test_a_part_that_comes_back_makes_the_asset_complete(booking: Booking) -> None:
    """A-01, R-21: it was on a machine that was unavailable while the others were processed."""
    booking.parts = [part(1, booking.opens_at, (booking.closes_at - booking.opens_at).total_seconds())]
    now = end(booking)
    live.follow(booking, now)
    asset = Asset.objects.get()
    assert gaps.refine(asset, {}) == {}, "already complete"
    asset.steps.update(done_at=now, failed_at=None)
    Asset.objects.update(state=State.PARTIAL, is_complete=False)
    asset.refresh_from_db()
    changes = gaps.refine(asset, {})
    assert changes["is_complete"] is True
    Asset.objects.update(**changes)
    asset.refresh_from_db()
    steps.settle(asset, now)
    assert asset.state == State.READY


def test_of_many_parts_only_the_growing_one_is_written(booking: Booking, django_assert_max_num_queries: Any) -> None:
    """A-01: a split recording of a day has hundreds of files, of which only the last one grows."""
    opens = booking.opens_at
    booking.parts = [part(number, opens + timedelta(seconds=number), 1) for number in range(1, 60)]
    asset = live.make(booking, database_now())
    live.sync(asset, booking, database_now())
    booking.parts[-1]["frames"] += 25
    with django_assert_max_num_queries(5):
        live.sync(asset, booking, database_now())
    assert asset.parts.get(number=59).frames == booking.parts[-1]["frames"]


def test_missing_media_at_an_edge_of_the_window_is_a_gap(booking: Booking) -> None:
    """R-15, A-01: the picture starts ten seconds late and is lost before the end."""
    opens = booking.opens_at
    booking.parts = [part(1, opens + timedelta(seconds=10), 20)]
    now = end(booking, Booking.State.PARTIAL)
    live.file(booking, now)
    asset = Asset.objects.get()
    assert [(gap["reason"], gap["seconds"]) for gap in asset.gaps] == [("late_start", 10.0), ("early_end", 30.0)]
    assert asset.completeness_percent == pytest.approx(100 / 3, abs=0.1)


def test_a_gap_at_an_edge_does_not_cause_constant_updates(booking: Booking) -> None:
    booking.parts = [part(1, booking.opens_at + timedelta(seconds=10), 29)]
    now = database_now()
    live.follow(booking, now)
    asset = Asset.objects.get()
    assert [gap["reason"] for gap in asset.gaps] == ["late_start"], "the end is not known yet"
    assert not live._is_news(asset, booking, now)


def test_after_a_full_disk_the_rest_of_the_window_counts_as_missing(booking: Booking) -> None:
    """R-18: half of the window is recorded, so completeness is 50 %."""
    booking.parts = [part(1, booking.opens_at, 30)]
    booking.events.create(at=booking.opens_at + timedelta(seconds=30), old="recording", new="stopping", by="scheduler")
    Booking.objects.filter(pk=booking.pk).update(outcome="disk_full")
    booking.outcome = "disk_full"
    live.file(booking, end(booking, Booking.State.PARTIAL))
    asset = Asset.objects.get()
    assert asset.completeness_percent == pytest.approx(50, abs=0.1)
    assert asset.wanted_until_at == booking.closes_at
