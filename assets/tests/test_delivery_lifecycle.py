"""Delivery to a MAM that delays, refuses or answers incompletely: it takes effect once, and every attempt is logged."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assets.delivery import lifecycle
from assets.library import retention
from assets.models import Asset, Delivery, Destination
from jobs.models import Run
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert
from testing.fleet import HandWorker, later, work_off
from testing.mam import Mam

pytestmark = pytest.mark.django_db

State = Delivery.State


def attempt(seconds: float = 7200) -> None:
    """One turn of the leader and of a job worker, at a time when all deliveries are due."""
    lifecycle.step(Term(), later(seconds))
    work_off(lifecycle.JOB)


def deliver(asset: Asset, destination: Destination, attempts: int = 1) -> Delivery:
    lifecycle.want(asset, destination, now=database_now(), by="anna")
    for _ in range(attempts):
        attempt()
    return Delivery.objects.get(asset=asset, destination=destination)


def test_an_asset_is_created_with_its_files_under_one_key(
    ready: Asset, destination: Destination, mam: Mam, clip: Path
) -> None:
    """A-03: project and fields as mapped, the token, the key, the file."""
    delivery = deliver(ready, destination)
    assert (delivery.state, delivery.external_id, delivery.attempts) == (State.DELIVERED, "mam-1", 1)
    create, upload = mam.calls
    assert (create.method, create.path) == ("POST", "/assets")
    assert create.content["name"] == "A clip"
    assert create.content["metadata"] == {"desk": "News"}
    assert create.headers["Authorization"] == "Bearer token-of-the-mam"
    assert create.headers["Idempotency-Key"] == str(delivery.key)
    assert (upload.path, upload.body) == ("/assets/mam-1/files/1", clip.read_bytes())


def test_a_ready_asset_is_delivered_automatically(ready: Asset, destination: Destination) -> None:
    assert lifecycle.offer(ready, now=database_now()) == 1
    assert lifecycle.offer(ready, now=database_now()) == 0
    destination.is_automatic = False
    destination.save()
    Delivery.objects.all().delete()
    assert lifecycle.offer(ready, now=database_now()) == 0


def test_a_partial_asset_is_not_delivered_where_partial_assets_are_not_accepted(
    ready: Asset, destination: Destination
) -> None:
    Asset.objects.filter(pk=ready.pk).update(state=Asset.State.PARTIAL)
    ready.refresh_from_db()
    Destination.objects.update(takes_partial=False)
    assert lifecycle.offer(ready, now=database_now()) == 0


@pytest.mark.parametrize("mood", ["500", "503", "drop", "half", "nonsense", "hang", "redirect"])
def test_after_any_failure_of_the_mam_the_asset_exists_there_once(
    ready: Asset, destination: Destination, mam: Mam, mood: str, settings: Any
) -> None:
    """A-03: an attempt with an unknown result is repeated with the same key."""
    mam.moods = [mood]
    settings.DELIVERY_TIMEOUT_SECONDS = 1.0 if mood == "hang" else 20.0
    delivery = deliver(ready, destination)
    settings.DELIVERY_TIMEOUT_SECONDS = 20.0
    assert delivery.state == State.FAILED
    assert delivery.error
    attempt()
    delivery.refresh_from_db()
    assert delivery.state == State.DELIVERED
    assert list(mam.assets) == ["mam-1"]
    assert len({call.headers["Idempotency-Key"] for call in mam.calls if call.path == "/assets"}) == 1
    log = list(delivery.log.order_by("number"))
    assert [each.is_good for each in log] == [False, True]
    assert all(each.ended_at for each in log)


def test_after_five_failures_the_asset_is_delivered_once(ready: Asset, destination: Destination, mam: Mam) -> None:
    """A-03"""
    mam.moods = ["500", "drop", "503", "half", "500"]
    delivery = deliver(ready, destination, attempts=6)
    assert (delivery.state, delivery.attempts) == (State.DELIVERED, 6)
    assert len(mam.assets) == 1
    assert delivery.log.count() == 6


def test_the_external_id_is_kept_although_the_upload_failed(ready: Asset, destination: Destination, mam: Mam) -> None:
    """A-03: the next attempt updates instead of creating."""
    mam.moods = ["", "500"]
    delivery = deliver(ready, destination)
    assert (delivery.state, delivery.external_id) == (State.FAILED, "mam-1")
    attempt()
    assert [call.method for call in mam.calls] == ["POST", "PUT", "PUT", "PUT"]
    delivery.refresh_from_db()
    assert delivery.state == State.DELIVERED


def test_after_eight_attempts_it_is_given_up_with_an_alert(ready: Asset, destination: Destination, mam: Mam) -> None:
    """A-03: at most 8 attempts; given up raises an alert; “Deliver again” starts the count again."""
    mam.moods = ["500"] * 8
    delivery = deliver(ready, destination, attempts=10)
    assert (delivery.state, delivery.attempts, len(mam.calls)) == (State.GIVEN_UP, 8, 8)
    alert = Alert.objects.get(key=f"given_up:{delivery.owner}")
    assert "Deliver again" in alert.text
    assert lifecycle.again(delivery, now=database_now(), by="anna")
    attempt()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == (State.DELIVERED, 1)
    alert.refresh_from_db()
    assert alert.state == "resolved"


def test_deliver_again_updates_the_asset_in_the_mam(ready: Asset, destination: Destination, mam: Mam) -> None:
    """A-03: "deliver again" """
    delivery = deliver(ready, destination)
    Asset.objects.filter(pk=ready.pk).update(title="A better title")
    assert lifecycle.again(delivery, now=database_now(), by="anna")
    attempt()
    assert mam.assets == {"mam-1": mam.assets["mam-1"]}
    assert mam.assets["mam-1"]["name"] == "A better title"


def test_the_backoff_doubles_with_jitter(settings: Any) -> None:
    """A-03: one hour at most, plus jitter."""
    settings.DELIVERY_BACKOFF_SECONDS = 15
    for count, seconds in [(1, 15), (2, 30), (5, 240)]:
        pauses = [lifecycle.backoff(count).total_seconds() for _ in range(50)]
        assert all(0.74 * seconds <= pause <= 1.26 * seconds for pause in pauses)
        assert len(set(pauses)) > 10
    assert lifecycle.backoff(30) <= timedelta(seconds=4500)


def test_a_turn_sends_25_deliveries_and_those_without_an_attempt_first(
    settings: Any, project: Any, destination: Destination
) -> None:
    """A-03: a failed delivery that is due waits for the new ones."""
    now = database_now()
    old = Asset.objects.create(project=project, title="old", state="ready", origin="import", created_at=now)
    lifecycle.want(old, destination, now=now, by="x")
    Delivery.objects.update(state=State.FAILED, attempts=1, next_attempt_at=now - timedelta(hours=1))
    for number in range(30):
        asset = Asset.objects.create(project=project, title=f"{number}", state="ready", origin="import", created_at=now)
        lifecycle.want(asset, destination, now=now, by="x")
    following = lifecycle.step(Term(), now)
    assert Delivery.objects.filter(state=State.SENDING).count() == 25
    assert Delivery.objects.get(asset=old).state == State.FAILED
    assert following is not None
    assert following <= now + timedelta(seconds=2)
    lifecycle.step(Term(), now)
    assert Delivery.objects.filter(state=State.SENDING).count() == 31


def test_one_row_that_throws_does_not_stop_the_others(
    ready: Asset, destination: Destination, project: Any, monkeypatch: Any
) -> None:
    """A-04"""
    now = database_now()
    lifecycle.want(ready, destination, now=now, by="x")
    second = Asset.objects.create(project=project, title="second", state="ready", origin="import", created_at=now)
    lifecycle.want(second, destination, now=now, by="x")
    really = lifecycle.dispatch

    def dispatch(delivery: Delivery, at: Any) -> bool:
        if delivery.asset_id == ready.pk:
            raise RuntimeError("broken row")
        return really(delivery, at)

    monkeypatch.setattr(lifecycle, "dispatch", dispatch)
    lifecycle.step(Term(), now)
    assert Delivery.objects.get(asset=second).state == State.SENDING


def lose_job_worker() -> None:
    """A job worker takes the run and dies."""
    from jobs.runs.sweeping import orphan

    [claimed] = HandWorker(lifecycle.JOB).claim(now=later(600))
    assert orphan(Run.objects.get(pk=claimed.id), Run.Fault.WORKER_CRASHED, database_now())
    lifecycle.step(Term(), database_now())


def test_a_job_worker_that_dies_is_replaced_and_three_are_a_failed_attempt(
    ready: Asset, destination: Destination, mam: Mam
) -> None:
    """A-03, J-28: the same run goes on; no delivery stays in sending."""
    lifecycle.want(ready, destination, now=database_now(), by="anna")
    lifecycle.step(Term(), database_now())
    for state in (State.SENDING, State.SENDING, State.FAILED):
        lose_job_worker()
        delivery = Delivery.objects.get()
        assert delivery.state == state
    assert "job worker died" in delivery.error
    attempt()
    delivery.refresh_from_db()
    assert delivery.state == State.DELIVERED


def test_a_withdrawn_asset_is_not_sent(ready: Asset, destination: Destination, mam: Mam) -> None:
    lifecycle.want(ready, destination, now=database_now(), by="anna")
    Asset.objects.filter(pk=ready.pk).update(withdrawn_at=database_now())
    attempt()
    assert Delivery.objects.get().state == State.GIVEN_UP
    assert not mam.calls


def test_waiting_for_a_job_worker_does_not_count_as_a_failed_attempt(ready: Asset, destination: Destination) -> None:
    """A-03: a night without job workers costs no attempt; an upload that runs for hours does."""
    lifecycle.want(ready, destination, now=database_now(), by="anna")
    lifecycle.step(Term(), database_now())
    lifecycle.step(Term(), later(12 * 3600))
    assert Delivery.objects.get().state == State.SENDING
    HandWorker(lifecycle.JOB).claim()
    lifecycle.step(Term(), later(3 * 3600))
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.error) == (State.FAILED, "it took too long")


def test_a_delivery_to_an_inactive_destination_is_given_up(ready: Asset, destination: Destination) -> None:
    """A-03, A-07: it must not wait forever or keep its asset from deletion."""
    lifecycle.want(ready, destination, now=database_now(), by="anna")
    Destination.objects.update(is_active=False)
    assert retention.why_kept(ready, []) == "it is being delivered"
    lifecycle.step(Term(), database_now())
    delivery = Delivery.objects.get()
    assert (delivery.state, "is not active" in delivery.error) == (State.GIVEN_UP, True)
    ready = Asset.objects.get(pk=ready.pk)
    assert retention.why_kept(ready, []) == ""


def test_withdrawing_an_asset_stops_its_delivery(ready: Asset, destination: Destination) -> None:
    """A-08"""
    from assets.library import usage

    lifecycle.want(ready, destination, now=database_now(), by="anna")
    lifecycle.step(Term(), database_now())
    usage.withdraw(ready, reason="rights", now=database_now(), by="anna")
    assert Delivery.objects.get().state == State.GIVEN_UP
    assert Run.objects.get().state == Run.State.CANCELLED
