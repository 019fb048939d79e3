"""All state machines: legal moves only, compare-and-set, and the event in the same transaction."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import transaction
from django.utils import timezone

from station.alerts import raise_alert
from station.models import Alert
from station.states import IllegalMove, Machine

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Alert.State
MACHINES = [model for model in apps.get_models() if issubclass(model, Machine)]


@pytest.fixture
def alert() -> Alert:
    return raise_alert("fire", "Fire in studio A", now=timezone.now())


def test_a_move_changes_the_row_and_writes_its_event(alert: Alert) -> None:
    now = timezone.now()

    assert alert.move(State.ACKNOWLEDGED, now=now, by="anna", note="on my way")

    alert.refresh_from_db()
    event = alert.events.get()
    assert (alert.state, alert.state_since_at) == ("acknowledged", now)
    assert (event.old, event.new, event.by, event.note, event.at) == ("open", "acknowledged", "anna", "on my way", now)


def test_the_second_of_two_moves_returns_false_and_changes_nothing(alert: Alert) -> None:
    stale = Alert.objects.get(pk=alert.pk)
    alert.move(State.RESOLVED, now=timezone.now())

    assert stale.move(State.ACKNOWLEDGED, now=timezone.now()) is False

    alert.refresh_from_db()
    assert alert.state == "resolved"
    assert alert.events.count() == 1


def test_a_move_that_is_not_in_the_table_raises(alert: Alert) -> None:
    alert.move(State.ACKNOWLEDGED, now=timezone.now())

    with pytest.raises(IllegalMove, match="acknowledged -> open"):
        alert.move(State.OPEN, now=timezone.now())


def test_move_and_event_are_one_transaction(alert: Alert) -> None:
    def move_and_fail() -> None:
        with transaction.atomic():
            alert.move(State.RESOLVED, now=timezone.now())
            raise RuntimeError("the power fails here")

    with pytest.raises(RuntimeError):
        move_and_fail()

    alert.refresh_from_db()
    assert alert.state == "open"
    assert alert.events.count() == 0


@pytest.mark.parametrize("machine", MACHINES, ids=lambda model: model._meta.model_name)
def test_every_machine_is_complete(machine: Any) -> None:
    """Each state has its moves and its colour, and moves lead to other known states."""
    states = {state.value for state in machine.State}
    assert set(machine.MOVES) == states
    assert set(machine.COLOURS) == states
    assert {str(to) for tos in machine.MOVES.values() for to in tos} <= states
    assert all(state not in tos for state, tos in machine.MOVES.items())


@pytest.mark.parametrize("machine", MACHINES, ids=lambda model: model._meta.model_name)
def test_the_drawing_in_the_docs_matches_the_table_in_the_code(machine: Any) -> None:
    """docs/states.md draws the same arrows as MOVES."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "states.md").read_text()
    section = text.split(f"## {machine._meta.verbose_name.capitalize()}\n")[1].split("\n## ")[0]
    drawn = set(re.findall(r"^\s+(\w+) --> (\w+)", section, re.MULTILINE))
    known = {(str(state), str(to)) for state, tos in machine.MOVES.items() for to in tos}
    assert drawn == known
