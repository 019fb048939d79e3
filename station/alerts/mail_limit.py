"""Limits the mails of a route: half of ALERT_MAILS_PER_HOUR one by one, then the others together in digests."""

from collections import Counter
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet

from station.clock import house_time
from station.models import Alert, AlertDelivery, AlertRoute

HOUR = timedelta(hours=1)
# A digest names this many messages and counts the others.
NAMED = 100
AT_ONCE = 2000


def _alone_per_hour() -> int:
    limit: int = settings.ALERT_MAILS_PER_HOUR
    return max(1, limit // 2)


def _digest_pause() -> timedelta:
    """The pause between two digests: as many per hour as the limit leaves."""
    limit: int = settings.ALERT_MAILS_PER_HOUR
    return HOUR / max(1, limit - _alone_per_hour())


def may_send_alone(route: AlertRoute, now: datetime) -> bool:
    """May this message be a mail of its own?"""
    if route.channel != AlertRoute.Channel.MAIL or not settings.ALERT_MAILS_PER_HOUR:
        return True
    alone = _sent(route).filter(sent_at__gt=now - HOUR, is_digest=False)
    return len(alone.values_list("pk", flat=True)[: _alone_per_hour()]) < _alone_per_hour()


def hold_for_digest(route: AlertRoute, now: datetime, lease: timedelta) -> list[AlertDelivery]:
    """Lease all due messages of the route for one mail; none while the pause since the last digest lasts."""
    last: datetime | None = (
        _sent(route).filter(sent_at__gt=now - HOUR, is_digest=True).aggregate(last=Max("sent_at"))["last"]
    )
    pause_ends = last + _digest_pause() if last else now
    with transaction.atomic():
        due = AlertDelivery.objects.due(now).filter(route=route).order_by("id")
        free = due.select_for_update(skip_locked=True, of=("self",)).select_related("alert", "alert__project")
        rows = list(free[:AT_ONCE])
        chosen = AlertDelivery.objects.filter(pk__in=[row.pk for row in rows])
        if pause_ends > now:
            chosen.update(next_attempt_at=pause_ends)
            return []
        for row in rows:
            row.attempts, row.route = row.attempts + 1, route
        AlertDelivery.objects.bulk_update(rows, ["attempts"])
        chosen.update(next_attempt_at=now + lease)
    return rows


def digest(held: list[AlertDelivery]) -> tuple[str, str]:
    """Title and body of one mail for all these messages."""
    counts = Counter(delivery.what for delivery in held)
    title = f"[Airlock] {len(held)} messages: " + ", ".join(f"{count} {what}" for what, count in counts.items())
    if len(held) == 1:
        title = f"[Airlock] {held[0].what}: {held[0].alert.title}"
    lines = [_line(delivery) for delivery in held[:NAMED]]
    if len(held) > NAMED:
        lines.append(f"… and {len(held) - NAMED} more.")
    limit = settings.ALERT_MAILS_PER_HOUR
    lines += ["", f"This address gets at most {limit} mails an hour; messages over half of that come together."]
    return " ".join(title.split()), "\n".join(lines)


def _line(delivery: AlertDelivery) -> str:
    alert = delivery.alert
    of = f" ({alert.project})" if alert.project else ""
    return f"{house_time(alert.raised_at)}{of}, {alert.get_severity_display()}, {delivery.what}: {alert.title}"


def returns(alert: Alert) -> str:
    """What a mail says about an alert that came back."""
    times = "once" if alert.times_returned == 1 else f"{alert.times_returned} times"
    minutes = settings.ALERT_DAMPING.total_seconds() / 60
    return (
        f"It came back {times} soon after it was over. While it comes and goes there are no further messages; "
        f"the next one follows when it has been over for {minutes:g} minutes, or when it gets worse."
    )


def _sent(route: AlertRoute) -> QuerySet[AlertDelivery]:
    return AlertDelivery.objects.filter(route=route, outcome=AlertDelivery.Outcome.SENT)
