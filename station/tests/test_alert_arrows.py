"""An alert that somebody acknowledged ends like any other: when the trouble is over."""

import pytest
from django.utils import timezone

from station.alerts import raise_alert, resolve_alert
from station.alerts.raising import acknowledge
from station.models import Alert

pytestmark = pytest.mark.django_db


def test_an_acknowledged_trouble_is_resolved_when_it_is_over() -> None:
    """It is acknowledged with a name; the history keeps all three steps."""
    alert = raise_alert("fire", "Fire in studio A", now=timezone.now())
    acknowledge(alert, now=timezone.now(), by="anna")

    assert resolve_alert("fire", now=timezone.now(), note="it is out")

    alert.refresh_from_db()
    assert alert.state == Alert.State.RESOLVED
    arrows = [(event.old, event.new, event.by) for event in alert.events.all()]
    assert arrows == [("open", "acknowledged", "anna"), ("acknowledged", "resolved", "scheduler")]
