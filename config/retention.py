"""The jobs that delete old rows: one for each kind of table, once a day, with a limit from the settings (J-29).

Runs have their own job (jobs/runs/retention.py), and so have assets (assets/library/retention.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef, Q

from assets.models import AssetEvent, Delivery, DeliveryAttempt, DeliveryEvent, ImportEvent
from jobs.definitions.job_decorator import MINOR, every, job
from jobs.definitions.run_context import RunContext
from nodes.models import NodeEvent, Reservation, Workload, WorkloadEvent
from playout.models import AsRunEntry, ChannelEvent, Recovery
from scheduling.models import BookingEvent
from station.clock import database_now
from station.database.old_rows import OldRows
from station.models import Alert, AlertDelivery, AlertEvent, AuditEntry

DAY, HOUR = 86400.0, 3600.0
FIRST_AT, APART = 2 * HOUR, 600.0
# Between two batches, so that cleaning a large table for the first time leaves room for the others.
PAUSE_SECONDS = 0.02
SECRETS_KEPT = timedelta(days=1)


@dataclass(frozen=True)
class Table:
    """A job's name, what it deletes, and the setting that says after how many days."""

    name: str
    title: str
    setting: str
    rows: Callable[[], list[OldRows]]

    @property
    def days(self) -> float:
        days: float = getattr(settings, self.setting)
        return days


def _workloads() -> list[OldRows]:
    """The last generation of an owner that may start again stays: the next one counts from it."""
    newer = Workload.objects.filter(owner=OuterRef("owner"), generation__gt=OuterRef("generation"))
    passing = Q()
    for word in settings.PASSING_OWNERS:
        passing |= Q(owner__startswith=f"{word}:")
    gone = Workload.objects.filter(state__in=Workload.OVER, removed_at__isnull=False)
    return [OldRows(gone.filter(Exists(newer) | passing), "removed_at", [(WorkloadEvent, "subject")])]


def _events() -> list[OldRows]:
    """Those of workloads, alerts and runs are deleted with them."""
    kinds = (BookingEvent, NodeEvent, ChannelEvent, AssetEvent, DeliveryEvent, ImportEvent)
    found = [OldRows(kind._base_manager.all(), "at", is_log=True) for kind in kinds]
    return [*found, OldRows(Recovery.objects.filter(back_at__isnull=False), "noticed_at")]


def _alerts() -> list[OldRows]:
    resolved = Alert.objects.filter(state=Alert.State.RESOLVED)
    return [OldRows(resolved, "state_since_at", [(AlertEvent, "subject"), (AlertDelivery, "alert")])]


def _delivery_log() -> list[OldRows]:
    """Attempts of finished deliveries."""
    return [OldRows(DeliveryAttempt.objects.filter(delivery__state__in=Delivery.OVER), "began_at")]


def _reservations() -> list[OldRows]:
    return [OldRows(Reservation.objects.filter(released_at__isnull=False), "released_at")]


def _asrun() -> list[OldRows]:
    return [OldRows(AsRunEntry.objects.filter(ended_at__isnull=False), "started_at", is_log=True)]


def _audit() -> list[OldRows]:
    return [OldRows(AuditEntry.objects.all(), "at", is_log=True), OldRows(LogEntry.objects.all(), "action_time")]


TABLES = [
    Table("workloads", "Delete old workloads with their logs", "WORKLOADS_KEPT_DAYS", _workloads),
    Table("events", "Delete the old history of bookings, assets, nodes and channels", "EVENTS_KEPT_DAYS", _events),
    Table("alerts", "Delete old resolved alerts", "ALERTS_KEPT_DAYS", _alerts),
    Table("delivery_log", "Delete old attempts of deliveries", "DELIVERY_LOG_KEPT_DAYS", _delivery_log),
    Table("reservations", "Delete old reservations of ports", "RESERVATIONS_KEPT_DAYS", _reservations),
    Table("asrun", "Delete old as-run entries", "ASRUN_KEPT_DAYS", _asrun),
    Table("audit", "Delete old audit entries", "AUDIT_KEPT_DAYS", _audit),
]


def clean(table: Table, run: RunContext) -> dict[str, Any]:
    """Delete what is older than the table's limit."""
    if not table.days:
        return {"note": f"{table.setting} is 0: nothing is deleted."}
    older_than, deleted = database_now() - timedelta(days=table.days), 0

    def go_on(count: int) -> None:
        run.report(None, f"{deleted + count} deleted")
        run.sleep(PAUSE_SECONDS)

    for old in table.rows():
        deleted += old.delete(older_than, go_on)
    return {"deleted": deleted}


def _declare(number: int, table: Table) -> None:
    @job(
        f"{table.name}.retention",
        title=table.title,
        when=every(DAY, delay_seconds=FIRST_AT + APART * number),
        timeout_seconds=2 * HOUR,
        keep=MINOR,
    )
    def handler(run: RunContext) -> dict[str, Any]:
        return clean(table, run)


for _number, _table in enumerate(TABLES):
    _declare(_number, _table)


@job("secrets.retention", when=every(HOUR, delay_seconds=210), timeout_seconds=600, keep=MINOR)
def forget_secrets(run: RunContext) -> dict[str, Any]:
    """Delete the secrets of removed workloads, and expired sessions."""
    now, after, forgotten = database_now(), 0, 0
    removed = Workload.objects.filter(removed_at__lt=now - SECRETS_KEPT).exclude(secrets_sealed="")
    while pks := list(removed.filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:1000]):
        run.check()
        forgotten += Workload.objects.filter(pk__in=pks).update(secrets_sealed="")
        after = pks[-1]
    return {"secrets": forgotten, "sessions": Session.objects.filter(expire_date__lt=now).delete()[0]}
