"""Deliveries to the MAM: requested, claimed by the leader when due, tried again, and given up.

Intent, commit, call, result: a delivery is `sending` before the call is made (attempt.py makes it, in a job worker). A
job worker that dies leaves a delivery whose run is over; this counts as a failed attempt. The MAM gets the same key
every time, so a repetition does no harm (A-03).
"""

import logging
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Exists, Max, OuterRef, Q

from assets.models import Asset, Delivery, DeliveryAttempt, Destination
from assets.models.delivery import MAX_ATTEMPTS
from jobs.models import Run
from jobs.runs.queue import cancel_of, enqueue
from station.alerts import raise_alert, resolve_alert
from station.database.notify import wake_scheduler
from station.leader_term import Term
from station.states import SCHEDULER, sql_list

logger = logging.getLogger(__name__)

State = Delivery.State
JOB = "assets.deliver"
PER_TURN = 25
LOOK = timedelta(seconds=5)
MAX_BACKOFF_SECONDS = 3600.0
LONGEST = timedelta(hours=2)
WAITING = sql_list(Delivery.WAITING)
DUE_SQL = f"""SELECT LEAST(
    CASE WHEN EXISTS (SELECT FROM assets_delivery WHERE state IN ({WAITING}) AND next_attempt_at IS NULL)
           OR EXISTS (SELECT FROM assets_delivery WHERE state = '{State.SENDING}') THEN clock_timestamp() END,
    (SELECT min(next_attempt_at) FROM assets_delivery WHERE state IN ({WAITING})))"""  # noqa: S608  (our own states)


@dataclass(frozen=True)
class DeliveryOrder:
    """The payload of a delivery's run."""

    delivery_id: int


def step(term: Term, now: datetime) -> datetime | None:
    """Claim due deliveries, at most 25 per turn, and end those of dead job workers. One error stops no other (A-04)."""
    at_it = Run.objects.filter(pk=OuterRef("run_ref")).exclude(state__in=Run.OVER)
    sending = Delivery.objects.filter(state=State.SENDING)
    for delivery in sending.exclude(Exists(at_it.filter(Q(claimed_at=None) | Q(claimed_at__gt=now - LONGEST))))[:100]:
        _alone(delivery, end_if_abandoned, now)
    idle = Delivery.objects.filter(state__in=Delivery.WAITING, destination__is_active=False)
    for delivery in idle.select_related("destination")[:100]:
        _alone(delivery, give_up_switched_off, now)
    due = Delivery.objects.due(now).select_related("asset", "destination")
    claimed = list(due[:PER_TURN])
    for delivery in claimed:
        _alone(delivery, dispatch, now)
    if len(claimed) == PER_TURN:
        return now + timedelta(seconds=1)
    if Delivery.objects.filter(state=State.SENDING).exists():
        return now + LOOK
    waiting = Delivery.objects.filter(state__in=Delivery.WAITING, next_attempt_at__gt=now)
    return waiting.order_by("next_attempt_at").values_list("next_attempt_at", flat=True).first()


def _alone(delivery: Delivery, act: Any, now: datetime) -> None:
    try:
        act(delivery, now)
    except (OperationalError, InterfaceError):
        raise  # the database is unavailable
    except Exception:  # one failing row does not hold up the others
        logger.exception("A delivery could not be processed. delivery=%s", delivery.pk)


def give_up_switched_off(delivery: Delivery, now: datetime) -> None:
    """End a delivery to an inactive destination, so that it does not wait forever or keep its asset from deletion."""
    text = f"{delivery.destination} is not active"
    if delivery.move(State.GIVEN_UP, now=now, note=text, error=f"{text}.", next_attempt_at=None):
        logger.info("A delivery is given up. delivery=%s why=%s", delivery.pk, text)


def offer(asset: Asset, *, now: datetime) -> int:
    """The asset is ready: request its delivery to every automatic destination of its project that accepts it."""
    destinations = Destination.objects.filter(project=asset.project_id, is_automatic=True, is_active=True)
    if asset.state == Asset.State.PARTIAL:
        destinations = destinations.filter(takes_partial=True)
    return sum(want(asset, destination, now=now, by=SCHEDULER) for destination in destinations)


def want(asset: Asset, destination: Destination, *, now: datetime, by: str) -> bool:
    """Request a delivery. There is one per asset and destination. True if this call created it."""
    delivery, is_new = Delivery.objects.get_or_create(
        asset=asset,
        destination=destination,
        defaults={"state": State.PENDING, "state_since_at": now, "created_at": now, "requested_by": by},
    )
    if is_new:
        delivery.events.create(at=now, old="", new=State.PENDING, by=by, note=f"to {destination}")
        wake_scheduler()
    return is_new


def again(delivery: Delivery, *, now: datetime, by: str) -> bool:
    """Deliver again, with the full number of attempts. The MAM receives an update."""
    if not delivery.may_move(State.PENDING):
        return False
    moved = delivery.move(
        State.PENDING,
        now=now,
        by=by,
        note="delivered again by hand",
        attempts=0,
        next_attempt_at=None,
        rounds=delivery.rounds + 1,
    )
    if moved:
        resolve_alert(f"given_up:{delivery.owner}", now=now, note="delivered again")
        wake_scheduler()
    return moved


def give_up(delivery: Delivery, *, now: datetime, by: str, note: str) -> bool:
    """End a delivery by hand, or because its asset can no longer be delivered."""
    if not delivery.may_move(State.GIVEN_UP):
        return False
    moved = delivery.move(State.GIVEN_UP, now=now, by=by, note=note, next_attempt_at=None)
    if moved:  # not before: the run may belong to an attempt that has just begun
        cancel_of(delivery.owner, by=by, reason=note)
    return moved


def dispatch(delivery: Delivery, now: datetime) -> bool:
    """Claim the delivery and queue its run, in one commit."""
    asset = delivery.asset
    if not asset.is_usable:
        if asset.state == Asset.State.PROCESSING:  # being processed again: try later
            later = now + timedelta(seconds=30)
            Delivery.objects.filter(pk=delivery.pk, state=delivery.state).update(next_attempt_at=later)
            return False
        return give_up(delivery, now=now, by=SCHEDULER, note="the asset is withdrawn, deleted or in the trash")
    with transaction.atomic():
        last = DeliveryAttempt.objects.filter(delivery=delivery).aggregate(last=Max("number"))["last"]
        moved = delivery.move(
            State.SENDING, now=now, note=f"attempt {delivery.attempts + 1}", attempts=delivery.attempts + 1
        )
        if not moved:
            return False
        DeliveryAttempt.objects.create(delivery=delivery, number=(last or 0) + 1, began_at=now)
        run = enqueue(
            JOB,
            DeliveryOrder(delivery.pk),
            key=delivery.owner,
            owner=delivery.owner,
            scope=f"destination:{delivery.destination_id}",
            project_id=asset.project_id,
        )
        Delivery.objects.filter(pk=delivery.pk).update(run_ref=run.pk)
    return True


def fail(delivery: Delivery, error: str, now: datetime) -> None:
    """End a failed attempt: try again after a growing pause, or give up and raise an alert."""
    is_last = delivery.attempts >= MAX_ATTEMPTS
    to = State.GIVEN_UP if is_last else State.FAILED
    next_at = None if is_last else now + backoff(delivery.attempts)
    if not delivery.move(to, now=now, note=error, error=error, next_attempt_at=next_at):
        return
    log_attempt(delivery, now, is_good=False, text=error)
    logger.warning("A delivery failed. delivery=%s attempt=%s error=%s", delivery.pk, delivery.attempts, error)
    if is_last:
        raise_alert(
            f"given_up:{delivery.owner}",
            f"{delivery} was given up after {delivery.attempts} attempts",
            now=now,
            text=f"{error}\nFix the cause, then open the delivery and press Deliver again.",
            subject=delivery.owner,
            project=delivery.asset.project,
        )


def backoff(attempts: int) -> timedelta:
    """The pause doubles, with a quarter of jitter, so that a MAM that comes back does not get all calls at once."""
    seconds = min(settings.DELIVERY_BACKOFF_SECONDS * 2 ** (attempts - 1), MAX_BACKOFF_SECONDS)
    return timedelta(seconds=seconds * random.uniform(0.75, 1.25))  # noqa: S311  (no secret)


def end_if_abandoned(delivery: Delivery, now: datetime) -> bool:
    """The job worker died or the run was cancelled: end the attempt as failed."""
    run = Run.objects.filter(pk=delivery.run_ref or 0).first()
    # Only a claimed run can be late; waiting in the queue does not count.
    is_late = run is not None and run.claimed_at is not None and now - run.claimed_at > LONGEST
    if run is not None and not run.is_over and not is_late:
        return False
    with transaction.atomic():
        # The leader does not wait for a lock on the row.
        if not Delivery.objects.select_for_update(skip_locked=True).filter(pk=delivery.pk).exists():
            return False
        if run is not None and not run.is_over:
            cancel_of(delivery.owner, by=SCHEDULER, reason="it took too long")
        error = "it took too long" if is_late else (run.error.partition("\n")[0] if run and run.error else "")
        fail(delivery, error or "the job worker is gone", now)
    return True


def log_attempt(delivery: Delivery, now: datetime, *, is_good: bool, text: str) -> None:
    """Complete the log row of the attempt that has just ended."""
    attempt = DeliveryAttempt.objects.filter(delivery=delivery).order_by("-number").first()
    if attempt is not None:
        attempt.ended_at, attempt.is_good, attempt.text = now, is_good, text
        attempt.save(update_fields=["ended_at", "is_good", "text"])
