"""Raise, update, acknowledge and resolve alerts. Raising the same key twice updates one alert.

An alert that is raised again within ALERT_DAMPING_MINUTES after it was resolved comes back: a source that flaps is one
alert that counts. Its first return is reported; after that its messages pause until it has been resolved for that
long. So the last message never says "resolved" of something that is not. What a person resolved does not come back: it
is new.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, models, transaction

from station.models import Alert, AlertDelivery, AlertRoute, Project
from station.models.alert import Severity
from station.states import SCHEDULER

SEEN_INTERVAL = timedelta(seconds=10)
RAISED, ESCALATED, RESOLVED, RETURNED = "raised", "escalated", "resolved", "returned"


def raise_alert(
    key: str,
    title: str,
    *,
    now: datetime,
    severity: Severity = Severity.WARNING,
    text: str = "",
    subject: str = "",
    project: Project | None = None,
    count: int = 1,
) -> Alert:
    """Raise the alert `key`. If it is unresolved already: count it, update its text, send again only if it is worse.

    The checks that raise it may come several times a second. While nothing changes, it is counted every ten seconds.
    """
    changes: dict[str, Any] = {"title": title[:200], "text": text, "last_seen_at": now}
    for _ in range(3):  # another raise or resolve may win the race once or twice
        alert = Alert.objects.filter(key=key).exclude(state=Alert.State.RESOLVED).first() or _come_back(key, now)
        if alert is None:
            try:
                with transaction.atomic():
                    alert = Alert.objects.create(
                        key=key,
                        severity=severity,
                        subject=subject,
                        project=project,
                        state=Alert.State.OPEN,
                        state_since_at=now,
                        raised_at=now,
                        times_seen=count,
                        **changes,
                    )
                    _queue(alert, RAISED, now)
                return alert
            except IntegrityError:
                continue
        if count == 1 and not _is_news(alert, title[:200], text, severity, now):
            if Alert.objects.filter(pk=alert.pk).exclude(state=Alert.State.RESOLVED).exists():
                return alert
            continue
        with transaction.atomic():
            worse = severity > alert.severity
            updated = (
                Alert.objects.filter(pk=alert.pk)
                .exclude(state=Alert.State.RESOLVED)
                .update(
                    times_seen=models.F("times_seen") + count,
                    severity=max(severity, alert.severity),
                    **changes,
                )
            )
            if not updated:
                continue
            alert.refresh_from_db()
            if worse:
                alert.remark(f"now {alert.get_severity_display()}", now=now)
                _queue(alert, ESCALATED, now)
        return alert
    raise RuntimeError(f"alert {key} changes faster than it can be raised")


def _is_news(alert: Alert, title: str, text: str, severity: Severity, now: datetime) -> bool:
    is_same = (alert.title, alert.text) == (title, text) and severity <= alert.severity
    return not is_same or not timedelta(0) <= now - alert.last_seen_at < SEEN_INTERVAL


def _come_back(key: str, now: datetime) -> Alert | None:
    """The alert that was resolved by itself a moment ago, unresolved again; None if there is none."""
    alert = Alert.objects.filter(key=key).order_by("-raised_at", "-id").first()
    if alert is None or alert.state != Alert.State.RESOLVED or now - alert.state_since_at >= settings.ALERT_DAMPING:
        return None
    resolved = alert.events.order_by("id").last()
    if resolved is None or resolved.by != SCHEDULER:
        return None
    try:
        with transaction.atomic():
            times = alert.times_returned + 1
            if not alert.move(resolved.old, now=now, note=f"came back ({times})", times_returned=times):
                return None
            # A route that was not yet notified of the end need not be notified of the return.
            untold = alert.deliveries.filter(what=RESOLVED, attempts=0)
            quiet = set(untold.values_list("route_id", flat=True))
            untold.delete()
            _queue(alert, RETURNED, now, but_not=quiet)
    except IntegrityError:
        return None  # another process has raised it meanwhile
    return alert


def acknowledge(alert: Alert, *, now: datetime, by: str) -> bool:
    if alert.state != Alert.State.OPEN:
        return False
    return alert.move(Alert.State.ACKNOWLEDGED, now=now, by=by)


def resolve_alert(key: str, *, now: datetime, by: str = SCHEDULER, note: str = "") -> bool:
    """Resolve the alert `key`. True if it was unresolved."""
    alert = Alert.objects.filter(key=key).exclude(state=Alert.State.RESOLVED).first()
    return alert is not None and resolve(alert, now=now, by=by, note=note)


def resolve_alerts(keys: Collection[str], *, now: datetime, by: str = SCHEDULER, note: str = "") -> None:
    """Resolve those of the alerts that are unresolved."""
    for alert in Alert.objects.filter(key__in=keys).exclude(state=Alert.State.RESOLVED):
        resolve(alert, now=now, by=by, note=note)


def resolve(alert: Alert, *, now: datetime, by: str, note: str = "") -> bool:
    """Resolve this alert."""
    if not alert.may_move(Alert.State.RESOLVED):
        return False
    with transaction.atomic():
        if not alert.move(Alert.State.RESOLVED, now=now, by=by, note=note):
            return False
        # One that flaps is reported as resolved only when it has stayed so for a while (see _come_back).
        _queue(alert, RESOLVED, now + (settings.ALERT_DAMPING if alert.times_returned else timedelta(0)))
    return True


def _queue(alert: Alert, what: str, at: datetime, but_not: Collection[int] = ()) -> None:
    """Queue a message for each matching route; station.alerts.sending sends it outside any transaction."""
    routes = AlertRoute.objects.filter(is_active=True, min_severity__lte=alert.severity).filter(
        models.Q(project=None) | models.Q(project=alert.project)
    )
    AlertDelivery.objects.bulk_create(
        [
            AlertDelivery(alert=alert, route=route, what=what, round=alert.times_returned, next_attempt_at=at)
            for route in routes
            if route.pk not in but_not
        ],
        ignore_conflicts=True,
    )
