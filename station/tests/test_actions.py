"""One way for a button: legal states, rights per object, one Outcome, one audit entry that says what happened."""

from datetime import datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import InterfaceError
from django.utils import timezone

from station.actions import Outcome, Refusal, action, changed_meanwhile, done, nothing
from station.actions.commands import ActionCommand
from station.alerts import raise_alert
from station.alerts.controls import acknowledge, resolve
from station.models import Alert, AuditEntry, Project

pytestmark = [pytest.mark.django_db]

State = Alert.State


@pytest.fixture
def alert(project: Project) -> Alert:
    return raise_alert("fire", "Fire in studio A", now=timezone.now(), project=project)


@action("poke", "Poke", permission="station.acknowledge_alert", states=(State.OPEN,))
def poke(alert: Alert, *, now: datetime, by: str, how: str = "done") -> Outcome:
    if how == "refuse":
        raise Refusal("It bites.")
    if how == "lose":
        return changed_meanwhile(alert)
    if how == "break":
        raise RuntimeError("the finger hurts")
    alert.move(State.ACKNOWLEDGED, now=now, by=by)
    return done(f"{alert} is poked.", details={"times": 1}, shown_once="secret-link")


def test_what_was_done_is_on_record_after_the_act(alert: Alert) -> None:
    outcome = poke(alert, by="anna")

    entry = AuditEntry.objects.get()
    assert (outcome.is_good, outcome.text) == (True, "Fire in studio A is poked.")
    assert (entry.who, entry.what, entry.result, entry.note) == ("anna", "poke", "done", outcome.text)
    assert (entry.before, entry.after) == ({"state": "open"}, {"state": "acknowledged", "times": 1})
    assert "secret-link" not in str(AuditEntry.objects.values().get())


@pytest.mark.parametrize(
    ("how", "result", "note"),
    [
        ("refuse", "refused", "It bites."),
        ("lose", "nothing", "Nothing was done: Fire in studio A has just been changed by someone else and is open."),
    ],
)
def test_what_was_not_done_is_on_record_as_such(alert: Alert, how: str, result: str, note: str) -> None:
    outcome = poke(alert, by="anna", how=how)

    entry = AuditEntry.objects.get()
    assert not outcome.is_good
    assert (entry.result, entry.note, entry.before, entry.after) == (result, note, {}, {})


def test_in_another_state_it_is_refused_with_the_state(alert: Alert) -> None:
    alert.move(State.RESOLVED, now=timezone.now())

    outcome = poke(alert, by="anna")

    assert (outcome.result, outcome.text, outcome.reason) == ("refused", "Fire in studio A is resolved.", "resolved")
    assert AuditEntry.objects.get().result == "refused"


def test_an_act_that_breaks_is_on_record_as_failed(alert: Alert) -> None:
    with pytest.raises(RuntimeError, match="the finger hurts"):
        poke(alert, by="anna", how="break")

    entry = AuditEntry.objects.get()
    assert (entry.result, entry.note) == ("failed", "RuntimeError: the finger hurts")


def test_an_act_that_loses_the_database_raises_what_happened(alert: Alert, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a connection no audit entry can be written; that error must not replace the first one."""

    def lost(*args: Any, **kwargs: Any) -> None:
        raise InterfaceError("connection already closed")

    monkeypatch.setattr("station.audit.record", lost)
    with pytest.raises(RuntimeError, match="the finger hurts"):
        poke(alert, by="anna", how="break")


def test_a_row_that_was_deleted_meanwhile_is_on_record_as_such(alert: Alert) -> None:
    Alert.objects.filter(pk=alert.pk).delete()

    outcome = poke(alert, by="anna", how="lose")

    assert (outcome.result, outcome.reason) == ("nothing", "just deleted")
    assert outcome.text == "Nothing was done: Fire in studio A has just been deleted."
    assert AuditEntry.objects.get().result == "nothing"


def test_rights_are_asked_with_the_object(alert: Alert, project: Project, make_member: Any) -> None:
    """S-01."""
    art = Project.objects.create(name="Art", slug="art")
    assert poke.may(make_member(project, "operator"), alert)
    assert not poke.may(make_member(project, "viewer"), alert)
    assert not poke.may(make_member(art, "operator"), alert)


@pytest.mark.parametrize("act", [acknowledge, resolve])
def test_an_alert_that_somebody_else_resolved_in_this_moment_is_not_claimed(alert: Alert, act: Any) -> None:
    Alert.objects.get(pk=alert.pk).move(State.RESOLVED, now=timezone.now(), by="bert")

    outcome = act(alert, by="anna")

    assert outcome.result == "nothing"
    assert AuditEntry.objects.get().result == "nothing"
    assert alert.events.get().by == "bert"


def test_a_command_prints_the_sentence_or_ends_with_it(alert: Alert) -> None:
    command = ActionCommand(stdout=StringIO())
    assert command.carry_out(poke, alert).is_good
    with pytest.raises(CommandError, match="is acknowledged"):
        command.carry_out(poke, alert)
    assert [row.result for row in AuditEntry.objects.order_by("id")] == ["done", "refused"]


def test_something_done_that_needs_a_look_is_done_but_not_good() -> None:
    assert done("Started, no picture yet.", needs_attention=True).is_done
    assert not done("Started, no picture yet.", needs_attention=True).is_good
    assert not nothing("It is off air.").is_done
