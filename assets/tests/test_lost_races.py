"""When another user changes an asset or delivery first, the audit log does not record our action as done."""

from typing import Any

import pytest

from assets.delivery import controls as delivery_controls
from assets.delivery import lifecycle
from assets.library import controls
from assets.models import Asset, Delivery
from station.clock import database_now
from station.models import AuditEntry

pytestmark = [pytest.mark.django_db]


def results() -> list[tuple[str, str, str]]:
    return [(entry.who, entry.what, entry.result) for entry in AuditEntry.objects.order_by("id")]


@pytest.mark.parametrize(
    ("act", "values"),
    [
        (controls.hold, {}),
        (controls.trash, {}),
        (controls.withdraw, {"reason": "rights"}),
    ],
)
def test_the_second_of_two_is_refused(ready: Asset, act: Any, values: dict[str, Any]) -> None:
    stale = Asset.objects.get(pk=ready.pk)
    assert act(ready, by="bert", **values).is_good

    outcome = act(stale, by="anna", **values)

    assert not outcome.is_done
    assert results() == [("bert", act.name, "done"), ("anna", act.name, "refused")]


def test_giving_up_a_delivery_that_was_just_given_up_does_nothing(ready: Asset, destination: Any) -> None:
    lifecycle.want(ready, destination, now=database_now(), by="bert")
    stale, delivery = Delivery.objects.get(), Delivery.objects.get()
    assert delivery_controls.give_up(delivery, by="bert").is_good

    outcome = delivery_controls.give_up(stale, by="anna")

    assert (outcome.result, outcome.reason) == ("nothing", "given up")
    assert results() == [("bert", "give up", "done"), ("anna", "give up", "nothing")]
