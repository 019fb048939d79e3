"""Delivery errors are isolated: one failing row stops no other, a hanging MAM delays no recording (A-04)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assets.delivery import lifecycle
from assets.library import live
from assets.models import Asset, AssetPart, Delivery, Destination
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from station.clock import database_now
from station.leader_term import Term
from testing.fleet import later
from testing.mam import Mam
from testing.processes import start_manage
from testing.waiting import wait_until

State = Delivery.State


def make_many(project: Any, destination: Destination, count: int) -> list[Delivery]:
    now = database_now()
    for number in range(count):
        asset = Asset.objects.create(project=project, title=f"{number}", state="ready", origin="import", created_at=now)
        lifecycle.want(asset, destination, now=now, by="anna")
    return list(Delivery.objects.order_by("pk"))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("broken", [0, 5, 11])
def test_a_row_that_throws_is_skipped_and_every_other_is_claimed(
    project: Any, destination: Destination, monkeypatch: pytest.MonkeyPatch, caplog: Any, broken: int
) -> None:
    """A-04: first, in the middle or last; it is logged, the others are not affected, and it is tried again later."""
    rows = make_many(project, destination, 12)
    really = lifecycle.dispatch

    def dispatch(delivery: Delivery, at: Any) -> bool:
        if delivery.pk == rows[broken].pk:
            Delivery.objects.raw("SELECT broken")[0]  # a database error also aborts the transaction
        return really(delivery, at)

    monkeypatch.setattr(lifecycle, "dispatch", dispatch)
    lifecycle.step(Term(), database_now())

    states = {row.pk: row.state for row in Delivery.objects.all()}
    assert states.pop(rows[broken].pk) == State.PENDING
    assert set(states.values()) == {State.SENDING}
    assert any("broken" in str(record.exc_info) for record in caplog.records), "the reason is logged"
    monkeypatch.setattr(lifecycle, "dispatch", really)
    lifecycle.step(Term(), later(60))
    assert Delivery.objects.get(pk=rows[broken].pk).state == State.SENDING


@pytest.mark.django_db
def test_the_step_of_the_library_survives_a_row_that_throws(
    project: Any, ready: Asset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A-04: the same for live, stale and ended assets."""
    now = database_now()
    old = now - timedelta(days=1)
    fields = {"state": "live", "state_since_at": old, "origin": "recording", "created_at": old, "project": project}
    rows = [Asset.objects.create(title=f"{number}", **fields) for number in range(3)]
    really, seen = live.alert_if_stale, list[int]()

    def call_out(asset: Asset, at: Any) -> Any:
        seen.append(asset.pk)
        if asset.pk == rows[0].pk:
            raise RuntimeError("broken row")
        return really(asset, at)

    monkeypatch.setattr(live, "alert_if_stale", call_out)
    live.step(Term(), now)
    assert sorted(seen) == [row.pk for row in rows]


@pytest.mark.django_db
def test_the_leader_never_calls_the_mam_itself(project: Any, destination: Destination, mam: Mam) -> None:
    """A-04: for 25 due deliveries to a hanging MAM the leader makes no call."""
    mam.moods = ["hang"] * 100
    make_many(project, destination, 25)
    lifecycle.step(Term(), database_now())
    assert Delivery.objects.filter(state=State.SENDING).count() == 25
    assert mam.calls == []


def test_a_hanging_mam_delays_no_recording(
    recorder: Recorder,
    project: Any,
    clip: Path,
    destination: Destination,
    mam: Mam,
    scheduler: Any,
    tmp_path: Path,
    settings: Any,
) -> None:
    """A-04: a job worker full of hanging deliveries beside a real scheduler; the recording starts on time."""
    mam.moods = ["hang"] * 1000
    make_many(project, destination, 60)
    for asset in Asset.objects.all():
        AssetPart.objects.create(asset=asset, number=1, path=f"take/{clip.name}")
    allowed = {"WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8", "WORKER_PREVIEW": "false"}
    allowed["RECORDINGS_DIR"] = str(settings.RECORDINGS_DIR)
    job_worker = start_manage("runworker", log=tmp_path / "worker.log", **allowed)
    try:
        scheduler(**allowed)
        wait_until(lambda: len(mam.calls) >= 3, 20, "deliveries hang")
        now = database_now()
        starts = now + timedelta(seconds=8)
        booking = book(recorder, starts, starts + timedelta(seconds=60), now=now)
        wait_until(lambda: Booking.objects.get().state == Booking.State.RECORDING, 60, "the recording has started")
    finally:
        job_worker.kill()
        job_worker.wait()
    booking.refresh_from_db()
    assert booking.dispatched_at is not None
    assert (booking.dispatched_at - booking.opens_at).total_seconds() < 1.0
    assert not Delivery.objects.filter(state=State.DELIVERED).exists(), "the MAM was hanging all the time"
