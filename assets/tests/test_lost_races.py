"""When another user changes an asset, delivery or import first, the audit log does not record our action as done."""

from pathlib import Path
from typing import Any

import pytest

from assets.delivery import controls as delivery_controls
from assets.delivery import lifecycle
from assets.intake import controls as intake_controls
from assets.intake import imports
from assets.library import controls
from assets.models import Asset, Delivery, Import
from jobs.models import Run
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
def test_the_second_of_two_equal_actions_is_refused(ready: Asset, act: Any, values: dict[str, Any]) -> None:
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


def test_giving_up_a_delivery_that_is_just_being_sent_does_not_cancel_its_attempt(
    ready: Asset, destination: Any
) -> None:
    now = database_now()
    lifecycle.want(ready, destination, now=now, by="bert")
    stale = Delivery.objects.get()
    assert lifecycle.dispatch(Delivery.objects.get(), now)

    outcome = delivery_controls.give_up(stale, by="anna")

    assert (outcome.result, outcome.reason) == ("nothing", "sending")
    assert [run.state for run in Run.objects.all()] == [Run.State.QUEUED]


def test_trying_an_import_again_that_was_just_tried_again_does_nothing(project: Any, file: Path) -> None:
    now = database_now()
    row = imports.bring(file, project=project, way=Import.Way.FOLDER, now=now, by="bert")
    assert row is not None
    assert row.move(Import.State.REFUSED, now=now, error="its run is gone")
    stale = Import.objects.get(pk=row.pk)
    assert intake_controls.again(row, by="bert").is_good

    outcome = intake_controls.again(stale, by="anna")

    assert (outcome.result, outcome.reason) == ("nothing", "waiting")


def test_the_audit_entry_of_an_import_names_the_file(project: Any, file: Path) -> None:
    for _ in range(2):
        intake_controls.bring(project, by="anna", path=file, way=Import.Way.FOLDER)

    entries = AuditEntry.objects.order_by("id")
    assert [(entry.result, entry.after["file"]) for entry in entries] == [("done", file.name), ("nothing", file.name)]
