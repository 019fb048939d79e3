"""Raises the alerts about one channel, and resolves them."""

from datetime import datetime

from playout.models import Channel
from station.alerts import raise_alert, resolve_alert
from station.alerts import resolve as resolve_one
from station.models.alert import Alert, Severity
from station.states import SCHEDULER

# Everything an alert of a channel can be about. Going off air resolves all of them.
TROUBLES = (
    *("off_air", "output", "channel_error", "channel_trouble", "list_refused", "not_stopping"),
    *("bars", "stuck", "list_failed", "dropping", "port_clash"),
    *("return_lost", "black", "freeze", "silence", "loudness"),
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


def resolve_all(channel: Channel, notes: dict[str, str], now: datetime) -> None:
    """Resolve those of these kinds that are unresolved, with one query if none is. `notes`: a note for each kind."""
    keys = [f"{kind}:{channel.owner}" for kind in notes]
    for found in Alert.objects.filter(key__in=keys).exclude(state=Alert.State.RESOLVED):
        resolve_one(found, now=now, by=SCHEDULER, note=notes[found.key.partition(":")[0]])


def resolve(channel: Channel, kind: str, now: datetime, note: str) -> None:
    resolve_alert(f"{kind}:{channel.owner}", now=now, note=note)
