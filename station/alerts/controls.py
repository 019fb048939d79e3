"""What people do to alerts by hand: acknowledge and resolve."""

from datetime import datetime

from station.actions import Outcome, action, changed_meanwhile, done
from station.alerts import raising
from station.models import Alert

ACKNOWLEDGE = "station.acknowledge_alert"
State = Alert.State


@action("acknowledge", "Acknowledge", permission=ACKNOWLEDGE, when=lambda alert: alert.state == State.OPEN)
def acknowledge(alert: Alert, *, now: datetime, by: str) -> Outcome:
    if not raising.acknowledge(alert, now=now, by=by):
        return changed_meanwhile(alert)
    return done(f"{alert} is acknowledged.")


@action("resolve", "Resolve by hand", permission=ACKNOWLEDGE, when=lambda alert: alert.may_move(State.RESOLVED))
def resolve(alert: Alert, *, now: datetime, by: str) -> Outcome:
    if not raising.resolve(alert, now=now, by=by, note="by hand"):
        return changed_meanwhile(alert)
    return done(f"{alert} is resolved.")
