"""State changes of assets and deliveries that no other test covers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assets.delivery import lifecycle
from assets.files import locations
from assets.library import retention, usage
from assets.models import Asset, Delivery, Destination
from station.clock import database_now
from station.leader_term import Term
from testing.fleet import later, work_off
from testing.library import make_asset
from testing.mam import Mam

pytestmark = pytest.mark.django_db

State = Asset.State


@pytest.mark.parametrize("state", [State.PARTIAL, State.ERROR])
def test_a_partial_or_unreadable_asset_is_deleted_from_the_trash_too(
    settings: Any, project: Any, clip: Path, state: str
) -> None:
    """A-07."""
    asset = make_asset(settings, project, clip, state=state)
    path = locations.path_of(asset.parts.get())
    retention.trash(asset, reason="not needed", now=database_now(), by="anna", days=0)

    retention.apply(database_now() + timedelta(minutes=1))

    asset.refresh_from_db()
    assert asset.state == State.DELETED
    assert not path.exists()


def fail_once(asset: Asset, destination: Destination, mam: Mam) -> Delivery:
    mam.moods = ["500"]
    lifecycle.want(asset, destination, now=database_now(), by="anna")
    lifecycle.step(Term(), later(7200))
    work_off(lifecycle.JOB)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempts) == (Delivery.State.FAILED, 1)
    return delivery


def test_a_failed_delivery_is_sent_at_once_when_a_person_asks(ready: Asset, destination: Destination, mam: Mam) -> None:
    """A-03: “Deliver again” does not wait for the backoff, and attempts start at one again."""
    delivery = fail_once(ready, destination, mam)
    Delivery.objects.update(next_attempt_at=later(86400))
    delivery.refresh_from_db()

    lifecycle.again(delivery, now=database_now(), by="anna")

    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.next_attempt_at) == (Delivery.State.PENDING, 0, None)
    lifecycle.step(Term(), database_now())
    work_off(lifecycle.JOB)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == (Delivery.State.DELIVERED, 1)


def test_a_failed_delivery_of_a_withdrawn_asset_is_given_up(ready: Asset, destination: Destination, mam: Mam) -> None:
    """A-03, A-08: a withdrawn asset is not delivered again."""
    delivery = fail_once(ready, destination, mam)

    usage.withdraw(ready, reason="rights", replacement=None, now=database_now(), by="anna")

    delivery.refresh_from_db()
    assert (delivery.state, delivery.next_attempt_at) == (Delivery.State.GIVEN_UP, None)
    calls = len(mam.calls)
    lifecycle.step(Term(), later(7200))
    work_off(lifecycle.JOB)
    assert len(mam.calls) == calls
