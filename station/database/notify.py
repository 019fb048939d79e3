"""Waking the loop, or the workers, from anywhere: a NOTIFY that takes effect when the transaction commits.

Every NOTIFY takes a lock on the whole instance at commit, so only what cannot wait for the safety-net tick is told.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from station.clock import is_pretended

CHANNEL = "airlock"
STEP_DOWN = "step down"
RUNS_CHANNEL = "airlock_runs"


def wake_scheduler(payload: str = "") -> None:
    """Something must happen earlier than the loop can know. A rehearsal wakes nobody."""
    if is_pretended():
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload])


def wake_for(moment: datetime, now: datetime) -> None:
    """Wake the loop if this moment may come before its next tick; otherwise the tick finds it in time."""
    ahead = settings.SCHEDULER_TICK_SECONDS + settings.ARM_AHEAD_SECONDS + settings.LAUNCH_AHEAD_SECONDS + 5
    if moment <= now + timedelta(seconds=ahead):
        wake_scheduler()


def wake_workers(word: str = "") -> None:
    """Something can be claimed, its time is near, or a run is to be cancelled."""
    if is_pretended():
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [RUNS_CHANNEL, word])
