"""Raises the alerts about one channel, and resolves them."""

from datetime import datetime

from playout.models import Channel
from station.alerts import raise_alert, resolve_alert
from station.models.alert import Severity

# Everything an alert of a channel can be about. Going off air resolves all of them.
TROUBLES = (
    *("off_air", "output", "channel_error", "channel_trouble", "list_refused", "not_stopping"),
    *("bars", "stuck", "list_failed", "dropping"),
)


def alert(
    channel: Channel, kind: str, title: str, text: str, now: datetime, severity: Severity = Severity.CRITICAL
) -> None:
    raise_alert(
        f"{kind}:{channel.owner}",
        title,
        now=now,
        severity=severity,
        text=text,
        subject=channel.owner,
        project=channel.project,
    )


def resolve(channel: Channel, kind: str, now: datetime, note: str) -> None:
    resolve_alert(f"{kind}:{channel.owner}", now=now, note=note)
