"""Wake the scheduler or the job workers with a NOTIFY, which takes effect when the transaction commits.

Every NOTIFY takes a lock on the whole instance at commit, so use it only for work that cannot wait for the next tick.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from station.clock import is_pretended

CHANNEL = "airlock"
STEP_DOWN = "step down"
RUNS_CHANNEL = "airlock_runs"


def wake_scheduler(payload: str = "") -> None:
    """Wake the loop because something is due earlier than it expects. Does nothing in a rehearsal."""
    if is_pretended():
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload])


def wake_for(moment: datetime, now: datetime) -> None:
    """Wake the loop if `moment` may come before its next tick; otherwise the tick finds it in time."""
    ahead = settings.SCHEDULER_TICK_SECONDS + settings.ARM_AHEAD_SECONDS + settings.LAUNCH_AHEAD_SECONDS + 5
    if moment <= now + timedelta(seconds=ahead):
        wake_scheduler()


def wake_workers(word: str = "") -> None:
    """Wake the job workers: a run can be claimed, is due soon, or must be cancelled."""
    if is_pretended():
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [RUNS_CHANNEL, word])
