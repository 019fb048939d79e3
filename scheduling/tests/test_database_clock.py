"""The database's clock is set while a recording runs: nothing is blind until the clock has caught up (R-23)."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from nodes.models import Workload
from scheduling.bookings.making import book
from scheduling.leader.turn_times import Reading
from scheduling.models import Booking, Recorder
from station.clock import database_now, is_pause_over
from station.models import Alert
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.crash]

TEN_MINUTES = timedelta(minutes=10)
# A function of ours that is found before PostgreSQL's own.
OTHER_CLOCK = """
    CREATE SCHEMA other_clock;
    CREATE TABLE other_clock.setting AS SELECT 0 AS seconds;
    CREATE FUNCTION other_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
        SELECT pg_catalog.clock_timestamp() + (SELECT seconds FROM other_clock.setting) * interval '1 second' $$;
"""


@pytest.fixture
def set_clock(transactional_db: Any) -> Iterator[Callable[[timedelta], None]]:
    """set_clock(timedelta): the clock of the test database shows this much more, in all its sessions."""
    path = "other_clock, public, pg_catalog"
    name = connection.settings_dict["NAME"]

    def run(*statements: str) -> None:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    run(OTHER_CLOCK, f'ALTER DATABASE "{name}" SET search_path = {path}', f"SET search_path = {path}")
    yield lambda offset: run(f"UPDATE other_clock.setting SET seconds = {offset.total_seconds()}")
    run(f'ALTER DATABASE "{name}" RESET search_path', "RESET search_path", "DROP SCHEMA other_clock CASCADE")


def worker_pid(data_dir: Path) -> int:
    pids = json.loads((data_dir / "run" / Workload.objects.latest("generation").name / "pids.json").read_text())
    return int(pids["worker"]["pid"])


def test_a_media_worker_that_dies_is_replaced_although_the_clock_was_set_back(
    recorder: Recorder, scheduler: Any, set_clock: Callable[[timedelta], None], settings: Any
) -> None:
    scheduler(WORKER_PREVIEW="false", LAUNCH_AHEAD_SECONDS="0")
    now = database_now()
    # Its window was open ten minutes ago, too.
    booking = book(recorder, now - 2 * TEN_MINUTES, now + timedelta(minutes=30), now=now)
    wait_until(lambda: Booking.objects.get().state == Booking.State.RECORDING, 60, "it records")

    set_clock(-TEN_MINUTES)
    wait_until(lambda: Alert.objects.filter(key="database_clock").first(), 20, "the jump is noticed")
    os.kill(worker_pid(settings.DATA_DIR), signal.SIGKILL)

    wait_until(lambda: len(Booking.objects.get().parts) == 2, 30, "a second part follows within seconds, not minutes")
    assert Workload.objects.filter(owner=booking.owner).count() == 2
    assert Alert.objects.get(key="database_clock").title == "The database's clock was set back by 10 min"


@pytest.mark.parametrize(("moved", "jump"), [(10.0, 0.0), (7.0, 0.0), (13.0, 0.0), (600.0, 587.5), (-600.0, -607.5)])
def test_a_jump_is_what_no_delay_explains(moved: float, jump: float) -> None:
    """Between the two readings 7.5 to 12.5 s passed, because each answer took up to 2.5 s."""
    first = database_now()
    before = Reading(first, asked=100.0, answered=102.5)
    after = Reading(first + timedelta(seconds=moved), asked=110.0, answered=112.5)
    assert after.jump_since(before) == pytest.approx(jump)


@pytest.mark.parametrize(("seconds", "is_over"), [(-1.0, True), (5.0, False), (11.0, True)])
def test_a_pause_that_is_longer_than_any_pause_is_over(seconds: float, is_over: bool) -> None:
    now = database_now()
    assert is_pause_over(now + timedelta(seconds=seconds), now, 10.0) is is_over
