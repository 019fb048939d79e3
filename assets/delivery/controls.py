"""Staff actions on deliveries: deliver again, give up."""

from datetime import datetime

from assets.delivery import lifecycle
from assets.models import Delivery
from station.actions import Outcome, action, changed_meanwhile, done

OPERATE = "assets.operate_asset"
State = Delivery.State


@action("again", "Deliver again", permission=OPERATE, states=(State.DELIVERED, State.GIVEN_UP, State.FAILED))
def again(delivery: Delivery, *, now: datetime, by: str) -> Outcome:
    if not lifecycle.again(delivery, now=now, by=by):
        return changed_meanwhile(delivery)
    return done(f"{delivery} is queued again.")


@action("give up", "Give up", permission=OPERATE, states=(State.PENDING, State.FAILED))
def give_up(delivery: Delivery, *, now: datetime, by: str) -> Outcome:
    if not lifecycle.give_up(delivery, now=now, by=by, note=f"given up by {by}"):
        return changed_meanwhile(delivery)
    return done(f"{delivery} was given up.")
