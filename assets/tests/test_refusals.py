"""An action on an asset that is not possible is refused with the reason that really prevents it."""

from typing import Any

import pytest

from assets.library import controls
from assets.models import Asset
from assets.views.media import make_link
from station.clock import database_now

pytestmark = [pytest.mark.django_db]


@pytest.mark.parametrize(
    ("act", "column", "reason"),
    [
        (controls.hold, "held_at", "already held"),
        (controls.withdraw, "withdrawn_at", "already withdrawn"),
        (controls.deliver, "withdrawn_at", "withdrawn"),
        (controls.deliver, "trashed_at", "in the trash"),
        (controls.trash, "trashed_at", "in the trash"),
        (controls.process, "trashed_at", "in the trash"),
        (make_link, "withdrawn_at", "withdrawn"),
    ],
)
def test_a_refusal_names_the_obstacle(ready: Asset, act: Any, column: str, reason: str) -> None:
    Asset.objects.filter(pk=ready.pk).update(**{column: database_now()})
    ready.refresh_from_db()

    outcome = act(ready, by="anna")

    assert (outcome.result, outcome.text) == ("refused", f"{ready} is {reason}.")


@pytest.mark.parametrize("act", [controls.hold, controls.trash, controls.restore, controls.deliver, make_link])
def test_a_deleted_asset_is_called_deleted(ready: Asset, act: Any) -> None:
    Asset.objects.filter(pk=ready.pk).update(state=Asset.State.DELETED, trashed_at=database_now())
    ready.refresh_from_db()

    assert act(ready, by="anna").reason == "deleted"


def test_the_text_of_a_link_gives_whole_hours(ready: Asset) -> None:
    assert make_link(ready, by="anna", base="http://host/").text == f"{ready}: the link works for 12 hours."
