"""A DATABASE_URL with two servers: the scheduler finds the primary, also after a promotion (R-02, R-04)."""

import json
from pathlib import Path
from typing import Any

import pytest

from testing.database import OwnServer, own_server
from testing.processes import manage, start_manage
from testing.waiting import wait_until

pytestmark = pytest.mark.crash

BOOK = """
from datetime import timedelta
from nodes.machines import health
from nodes.models import Node
from scheduling.bookings.making import book
from scheduling.models import Recorder
from station.clock import database_now
from station.models import Project
project = Project.objects.create(name="News", slug="news")
node = Node.objects.create(name="local", address="process", media_dir={media!r}, control_port_from={port})
health.check(node)
now = database_now()
for number in range(4):
    recorder = Recorder.objects.create(
        name=f"Cam {{number}}", project=project, source_type="test", picture_size="160x90", video_bitrate="64k"
    )
    starts_at = now + timedelta(seconds=6 + 10 * number)
    book(recorder, starts_at, starts_at + timedelta(seconds=8), now=now, title="show")
"""
STATES = """
import json
from scheduling.models import Booking
print(json.dumps([[b.state, b.late_by_seconds, b.attempts] for b in Booking.objects.order_by("pk")]))
"""


def shell(code: str, **own: str) -> str:
    done = manage("shell", "--no-imports", "-v0", "-c", code, **own)
    assert done.returncode == 0, done.stderr
    return done.stdout


def status(**own: str) -> dict[str, Any]:
    done = manage("scheduler_status", "--json", **own)
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {}


def test_bookings_start_on_time_before_and_after_a_promotion(tmp_path: Path, control_ports: int, settings: Any) -> None:
    """The standby comes first in the URL. The primary is lost between two starts; the standby is promoted."""
    log = tmp_path / "scheduler.log"
    with own_server() as primary:
        standby = primary.make_standby(Path(primary.host).parent.parent.parent / "second")
        try:
            promote_between_starts(primary, standby, log, control_ports, str(settings.RECORDINGS_DIR))
        finally:
            standby.stop()


def promote_between_starts(primary: OwnServer, standby: OwnServer, log: Path, port: int, media: str) -> None:
    Path(media).mkdir(parents=True, exist_ok=True)
    base = primary.url.partition("?")[0]
    own = {"DATABASE_URL": f"{base}?host={standby.host},{primary.host}", "WORKER_PREVIEW": "false"}
    assert manage("migrate", "-v0", **own).returncode == 0
    process = start_manage("runscheduler", log=log, **own)
    try:
        wait_until(lambda: status(**own).get("is_locked"), 60, "it leads on the primary, the second of the two")
        shell(BOOK.format(media=media, port=port), **own)
        states = wait_until(lambda: begun(own, 1), 60, "the first has begun")
        primary.stop()
        standby.promote()
        states = wait_until(lambda: begun(own, 4), 120, "all four have begun, the last ones on the promoted server")
        wait_until(lambda: {state for state, _, _ in states_now(own)} <= {"completed", "partial"}, 60, "all are over")
        states = states_now(own)
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()[-3000:]
    assert states[-1][0] == "completed", (states, log.read_text()[-3000:])
    assert states[-1][1] < 2.0, "the last one starts on time"
    assert [attempts for _, _, attempts in states] == [1, 1, 1, 1]


def states_now(own: dict[str, str]) -> list[list[Any]]:
    return list(json.loads(shell(STATES, **own)))


def begun(own: dict[str, str], count: int) -> list[list[Any]]:
    states = states_now(own)
    return states if sum(attempts > 0 for _, _, attempts in states) >= count else []
