"""Rehearsal: runs the real planning, placement and supervision on a simulated clock with simulated nodes.

It works on a copy: temporary tables of this session hide the real ones, in a transaction that is always rolled back, so
no other session sees it and nothing stays. The result shows what the current schedules, recorders and nodes would do:
which bookings start, clash, start late or are skipped, also on days when the clocks change.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.apps import apps
from django.db import connection, transaction
from django.db.models import Min, Q

from nodes.models import Node, Workload
from nodes.runtimes import simulated
from nodes.workloads.reconcile import reconcile
from scheduling.models import Booking, Schedule
from scheduling.recording.lifecycle import advance
from scheduling.rules import planning
from station.clock import pretend
from station.leader_term import Term
from station.states import sql_list

State = Booking.State
APPS = ("station", "nodes", "jobs", "scheduling")
COPIED = {
    "station_project", "station_installation", "nodes_node", "nodes_port", "nodes_reservation",
    "scheduling_recorder", "scheduling_schedule", "scheduling_booking",
}  # fmt: skip
GLANCE = timedelta(seconds=1)
MAX_DAYS = 400
KEPT = sql_list((State.PLANNED, State.ARMED, State.SKIPPED))
UNARM = f"UPDATE scheduling_booking SET state = '{State.PLANNED}' WHERE state = '{State.ARMED}'"  # noqa: S608


class CannotRehearse(Exception):
    """The rehearsal cannot run; the text says why."""


@dataclass(frozen=True)
class Happening:
    """What would happen to one booking."""

    booking: Booking
    state: str
    notes: tuple[str, ...]

    @property
    def late_seconds(self) -> float:
        """How long after the planned start the first frame would come."""
        if self.booking.first_frame_at is None:
            return 0.0
        return max(0.0, (self.booking.first_frame_at - self.booking.starts_at).total_seconds())


def rehearse(begins: datetime, ends: datetime) -> list[Happening]:
    """What would happen to all bookings that open in that time."""
    if not begins < ends <= begins + timedelta(days=MAX_DAYS):
        raise CannotRehearse(f"The end must come after the start, at most {MAX_DAYS} days later.")
    moment = begins
    with _copy(begins), simulated.simulation(), pretend(lambda: moment):
        Node.objects.update(state=Node.State.UP, process_home="", missed_checks=0, last_error="")
        Schedule.objects.filter(is_paused=False).update(planned_until_at=None, plan_due_at=begins)
        while moment < ends:
            following = _turn(moment)
            moment = min(max(following, moment + GLANCE), ends)
        rows = Booking.objects.filter(opens_at__gte=begins, opens_at__lt=ends).order_by("starts_at", "pk")
        found = rows.select_related("recorder", "schedule").prefetch_related("events")
        return [
            Happening(row, row.state, tuple(event.note for event in row.events.all() if event.note)) for row in found
        ]


def _turn(now: datetime) -> datetime:
    """Do the work of one turn of the loop; returns when the next turn is needed."""
    while (due := planning.step(Term(), now)) is not None and due <= now:
        continue
    for booking in (
        Booking.objects.before_start().filter(opens_at__lte=now).select_related("recorder__project", "recorder__node")
    ):
        advance(booking, now)
    for pk in list(Workload.objects.to_look_at().values_list("pk", flat=True)):
        reconcile(pk)
    for booking in Booking.objects.active().select_related("recorder__project", "recorder__node"):
        advance(booking, now)
    for pk in list(Workload.objects.to_look_at().exclude(state=Workload.State.RUNNING).values_list("pk", flat=True)):
        reconcile(pk)
    hurried = Booking.objects.filter(state__in=[State.STARTING, State.STOPPING, State.CANCELLING])
    if hurried.exists() or Workload.objects.to_look_at().exclude(state=Workload.State.RUNNING).exists():
        return now + GLANCE
    times = Booking.objects.aggregate(
        opens=Min("opens_at", filter=Q(state=State.PLANNED)),
        closes=Min("closes_at", filter=Q(state__in=Booking.ACTIVE)),
        retries=Min("next_attempt_at", filter=Q(state=State.RETRY_WAIT)),
    )
    moments = [moment for moment in (*times.values(), due) if moment is not None]
    return min(moments, default=now + timedelta(days=1))


@contextlib.contextmanager
def _copy(begins: datetime) -> Iterator[None]:
    """Temporary copies of our tables with the rows that matter from `begins` on."""
    tables = [model._meta.db_table for label in APPS for model in apps.get_app_config(label).get_models()]
    # One transaction that is always rolled back: even with a lost connection, or one shared by a pooler, no statement
    # of the rehearsal reaches the real tables.
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_schema()")
            schema = (cursor.fetchone() or ["public"])[0]
            for table in tables:
                cursor.execute(f"CREATE TEMPORARY TABLE {table} (LIKE {schema}.{table} INCLUDING ALL)")
                if table not in COPIED:
                    continue
                condition, values = "", []
                if table == "scheduling_booking":
                    condition, values = f"WHERE closes_at > %s AND state IN ({KEPT})", [begins]
                cursor.execute(f"INSERT INTO {table} SELECT * FROM {schema}.{table} {condition}", values)  # noqa: S608
                cursor.execute(f"SELECT COALESCE(max(id), 0) + 1 FROM {schema}.{table}")  # noqa: S608
                following = (cursor.fetchone() or [1])[0]
                cursor.execute(f"ALTER TABLE {table} ALTER COLUMN id RESTART WITH {int(following)}")
            cursor.execute(UNARM)
            cursor.execute("SELECT relpersistence FROM pg_class WHERE oid = 'scheduling_booking'::regclass")
            if cursor.fetchone() != ("t",):
                raise CannotRehearse("The temporary tables are not in use. Nothing was changed.")
        yield
        transaction.set_rollback(True)
