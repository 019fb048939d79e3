"""The scheduler step that sends queued alert messages by e-mail and signed webhook, with retries."""

import hashlib
import hmac
import json
import logging
import smtplib
import threading
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import send_mail
from django.db import connections
from django.db.models import Min

from station.alerts import mail_limit
from station.clock import database_now, house_time
from station.leader_term import Term
from station.models import AlertDelivery, AlertRoute
from station.outbound import OutboundError, post
from station.redaction import redact
from station.sealing import CannotOpen, unseal
from station.states import sql_list

logger = logging.getLogger(__name__)

BACKOFF_SECONDS = (10, 30, 60, 300, 900, 3600)
BATCH = 25
LEASE = timedelta(seconds=60)
PAUSE = timedelta(seconds=1)
WAITING = sql_list((AlertDelivery.Outcome.PENDING, AlertDelivery.Outcome.FAILED))
DUE_SQL = f"SELECT min(next_attempt_at) FROM station_alertdelivery WHERE outcome IN ({WAITING})"  # noqa: S608


class Sender:
    """The sending thread, if one was started."""

    thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


def step(term: Term, now: datetime) -> datetime | None:
    """Send due messages on a separate thread, so that a dead mail server delays no recording."""
    sender = term.memory(Sender)
    if AlertDelivery.objects.due(now).exists() and not sender.is_busy:
        sender.thread = threading.Thread(target=_send_and_close, name="alerts", daemon=True)
        sender.thread.start()
    waiting = AlertDelivery.objects.filter(outcome__in=["pending", "failed"])
    upcoming: datetime | None = waiting.aggregate(next=Min("next_attempt_at"))["next"]
    return max(upcoming, now + PAUSE) if upcoming else None


def _send_and_close() -> None:
    try:
        send_due(database_now())
    except Exception:  # the next turn tries again
        logger.exception("Alerts could not be sent.")
    finally:
        connections.close_all()


def send_due(now: datetime) -> int:
    """Try each due message once, oldest first; returns how many were sent."""
    due = AlertDelivery.objects.due(now).order_by("id").select_related("alert", "route", "alert__project")
    sent, full = 0, set()
    for delivery in due[:BATCH]:
        if delivery.route_id in full:
            continue  # sent in the digest, or waits for it
        if mail_limit.may_send_alone(delivery.route, now):
            sent += send(delivery, database_now())
        else:
            full.add(delivery.route_id)
            sent += _send_digest(delivery.route, now)
    return sent


def _send_digest(route: AlertRoute, now: datetime) -> int:
    """Send all due messages of a route that has reached its limit in one mail, or leave them until the next digest."""
    held = mail_limit.hold_for_digest(route, now, LEASE)
    if not held:
        return 0
    title, body = mail_limit.digest(held)
    try:
        send_mail(title, body, settings.DEFAULT_FROM_EMAIL, [route.target])
    except (OSError, smtplib.SMTPException) as error:
        for delivery in held:
            _note_failure(delivery, redact(str(error) or type(error).__name__))
        return 0
    _note_sent([delivery.pk for delivery in held], is_digest=True)
    logger.info("Digest of alerts sent. messages=%s route=%s", len(held), route.name)
    return len(held)


def _note_sent(pks: list[int], *, is_digest: bool = False) -> None:
    AlertDelivery.objects.filter(pk__in=pks).update(
        outcome=AlertDelivery.Outcome.SENT,
        sent_at=database_now(),
        next_attempt_at=None,
        last_error="",
        is_digest=is_digest,
    )


def send(delivery: AlertDelivery, now: datetime) -> bool:
    """Try one message. The row is leased first, so that two schedulers do not both send it."""
    leased = AlertDelivery.objects.filter(
        pk=delivery.pk, attempts=delivery.attempts, outcome__in=["pending", "failed"]
    ).update(attempts=delivery.attempts + 1, next_attempt_at=now + LEASE)
    if not leased:
        return False
    delivery.attempts += 1
    try:
        _transmit(delivery)
    except Exception as error:  # one message that fails must not hold up the others
        if not isinstance(error, (OutboundError, OSError, smtplib.SMTPException, CannotOpen)):
            logger.exception("An alert message failed unexpectedly. delivery=%s", delivery.pk)
        _note_failure(delivery, redact(str(error) or type(error).__name__))
        return False
    _note_sent([delivery.pk])
    logger.info("Alert sent. alert=%s route=%s", delivery.alert_id, delivery.route.name)
    return True


def _note_failure(delivery: AlertDelivery, error: str) -> None:
    spent = delivery.attempts > len(BACKOFF_SECONDS)
    wait = BACKOFF_SECONDS[min(delivery.attempts, len(BACKOFF_SECONDS)) - 1]
    AlertDelivery.objects.filter(pk=delivery.pk).update(
        outcome=AlertDelivery.Outcome.GIVEN_UP if spent else AlertDelivery.Outcome.FAILED,
        next_attempt_at=None if spent else database_now() + timedelta(seconds=wait),
        last_error=error,
    )
    level = logging.ERROR if spent else logging.WARNING
    logger.log(level, "Alert not sent. alert=%s route=%s error=%s", delivery.alert_id, delivery.route.name, error)


def _transmit(delivery: AlertDelivery) -> None:
    alert, route = delivery.alert, delivery.route
    if route.channel == AlertRoute.Channel.MAIL:
        seen = "once" if alert.times_seen == 1 else f"{alert.times_seen} times"
        lines = [alert.text, "", f"Raised {house_time(alert.raised_at)}, seen {seen}."]
        if alert.times_returned:
            lines.append(mail_limit.returns(alert))
        title = " ".join(f"[Airlock] {delivery.what}: {alert.title}".split())
        send_mail(title, "\n".join(lines), settings.DEFAULT_FROM_EMAIL, [route.target])
        return
    body = json.dumps(
        {
            "event": delivery.what,
            "id": alert.pk,
            "key": alert.key,
            "severity": alert.get_severity_display(),
            "title": alert.title,
            "text": alert.text,
            "project": alert.project.slug if alert.project else None,
            "raised_at": alert.raised_at.isoformat(),
            "times_seen": alert.times_seen,
            "times_returned": alert.times_returned,
        }
    ).encode()
    key = f"{alert.pk}-{delivery.what}-{route.pk}" + (f"-{delivery.round}" if delivery.round else "")
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    secret = unseal(route.secret_sealed).get("signing", "")
    if secret:
        headers["X-Airlock-Signature"] = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    post(route.target, body, headers, settings.WEBHOOK_TIMEOUT_SECONDS)
