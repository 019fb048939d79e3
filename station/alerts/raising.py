"""Raise, update, acknowledge and resolve alerts. Raising the same key twice updates one alert."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, models, transaction

from station.models import Alert, AlertDelivery, AlertRoute, Project
from station.models.alert import Severity
from station.states import SCHEDULER

RAISED, ESCALATED, RESOLVED = "raised", "escalated", "resolved"


def raise_alert(
    key: str,
    title: str,
    *,
    now: datetime,
    severity: Severity = Severity.WARNING,
    text: str = "",
    subject: str = "",
    project: Project | None = None,
) -> Alert:
    """Raise the alert `key`. If it is unresolved already: count it, update its text, send again only if it is worse."""
    changes: dict[str, Any] = {"title": title[:200], "text": text, "last_seen_at": now}
    for _ in range(3):  # another raise or resolve may win the race once or twice
        alert = Alert.objects.filter(key=key).exclude(state=Alert.State.RESOLVED).first()
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
                        **changes,
                    )
                    _queue(alert, RAISED, now)
                return alert
            except IntegrityError:
                continue
        with transaction.atomic():
            worse = severity > alert.severity
            updated = (
                Alert.objects.filter(pk=alert.pk)
                .exclude(state=Alert.State.RESOLVED)
                .update(
                    times_seen=models.F("times_seen") + 1,
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


def acknowledge(alert: Alert, *, now: datetime, by: str) -> bool:
    if not alert.may_move(Alert.State.ACKNOWLEDGED):
        return False
    return alert.move(Alert.State.ACKNOWLEDGED, now=now, by=by)


def resolve_alert(key: str, *, now: datetime, by: str = SCHEDULER, note: str = "") -> bool:
    """Resolve the alert `key`. True if it was unresolved."""
    alert = Alert.objects.filter(key=key).exclude(state=Alert.State.RESOLVED).first()
    return alert is not None and resolve(alert, now=now, by=by, note=note)


def resolve(alert: Alert, *, now: datetime, by: str, note: str = "") -> bool:
    """Resolve this alert."""
    if not alert.may_move(Alert.State.RESOLVED):
        return False
    with transaction.atomic():
        if not alert.move(Alert.State.RESOLVED, now=now, by=by, note=note):
            return False
        _queue(alert, RESOLVED, now)
    return True


def _queue(alert: Alert, what: str, now: datetime) -> None:
    """Queue a message for each matching route; station.alerts.sending sends it outside any transaction."""
    routes = AlertRoute.objects.filter(is_active=True, min_severity__lte=alert.severity).filter(
        models.Q(project=None) | models.Q(project=alert.project)
    )
    AlertDelivery.objects.bulk_create(
        [AlertDelivery(alert=alert, route=route, what=what, next_attempt_at=now) for route in routes],
        ignore_conflicts=True,
    )
