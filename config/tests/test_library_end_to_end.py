"""A scheduled recording from start to browser: recorded in Docker, interrupted twice, processed, delivered, played."""

import json
import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from config.embedded_postgres import EmbeddedServer
from config.tests.test_browser import chromium  # noqa: F401
from config.tests.test_up import end_leftovers
from testing.airlock import Airlock
from testing.counted import RATE, counted_sender, numbers_in
from testing.engines import IMAGE
from testing.mam import Mam, running_mam
from testing.media import free_port
from testing.processes import command_of
from testing.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.browser, pytest.mark.alone, pytest.mark.timeout(420)]

WINDOW_SECONDS = 40
SET_UP = """
import json, sys
from datetime import timedelta
from assets.models import Destination
from nodes.models import Node
from scheduling.models import Recorder, Schedule
from station.database.notify import wake_scheduler
from station.clock import database_now, house_zone
from station.models import Project
told = json.loads({told!r})
Schedule.objects.update(is_paused=True)
node = Node.objects.create(name="engine", address=told["engine"], media_dir=told["media"], labels="engine",
                           control_port_from=told["ports"])
project = Project.objects.create(name="Evening", slug="evening")  # not the demo: its clips are not delivered
recorder = Recorder.objects.create(name="Counted", project=project, source_type="udp",
                                   address=f"udp://127.0.0.1:{{told['udp']}}", node_labels="engine")
destination = Destination(name="MAM", project=project, config={{"base_url": told["mam"], "media": "upload"}})
destination.set_secret("token")
destination.full_clean()
destination.save()
now = database_now()
starts = (now + timedelta(seconds=25)).astimezone(house_zone()).replace(microsecond=0)
Schedule.objects.create(name="Counted evening", recorder=recorder, kind="once", first_on=starts.date(),
                        start_time=starts.time(), length=timedelta(seconds={seconds}), created_by="test",
                        plan_due_at=now)
wake_scheduler()
"""


@pytest.fixture
def airlock(tmp_path: Path, monkeypatch: Any) -> Iterator[Airlock]:
    monkeypatch.setenv("WORKER_IMAGE", IMAGE)
    monkeypatch.setenv("WEBHOOK_ALLOWED_NETWORKS", "127.0.0.0/8")
    monkeypatch.setenv("DELIVERY_BACKOFF_SECONDS", "0.5")
    airlock = Airlock(tmp_path / "data")
    airlock.start()
    yield airlock
    airlock.stop(signal.SIGTERM)
    end_leftovers(airlock.data_dir)


class Rows:
    """Reads Airlock's database."""

    def __init__(self, data_dir: Path) -> None:
        found = EmbeddedServer(data_dir / "postgres").django_settings()
        self.connection = psycopg.connect(
            dbname=found["NAME"],
            user=found["USER"],
            host=found["HOST"],
            port=found.get("PORT") or None,
            autocommit=True,
        )

    def one(self, query: str) -> Any:
        return self.connection.execute(query).fetchone()  # type: ignore[arg-type]


def kill_recording(name: str) -> None:
    """kill -9 of the ffmpeg that writes this recording, in a container or not."""
    found = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _records(int(path.name), name)]
    assert len(found) == 1, found
    os.kill(found[0], signal.SIGKILL)


def _records(pid: int, name: str) -> bool:
    command = command_of(pid)
    return command.startswith(("ffmpeg", "/usr/bin/ffmpeg")) and f"/{name}-" in command


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_scheduled_recording_is_delivered_and_plays_in_the_browser(
    airlock: Airlock,
    get_engine: Any,
    control_ports: int,
    chromium: Any,  # noqa: F811
) -> None:
    """A-01, A-03, A-05, A-09, R-15: three parts, two gaps, the right completeness, delivered once, playing."""
    media = airlock.data_dir / "media"
    media.mkdir(exist_ok=True)
    media.chmod(0o777)
    port = free_port()
    with running_mam("500", "drop", "503", "half", "500") as mam, counted_sender(port) as sender:
        told = {"engine": get_engine("a").address, "media": str(media), "mam": mam.url, "udp": port}
        code = SET_UP.format(told=json.dumps({**told, "ports": control_ports}), seconds=WINDOW_SECONDS)
        done = airlock.manage("shell", "-c", code)
        assert done.returncode == 0, done.stderr
        rows = Rows(airlock.data_dir)
        with rows.connection:
            asset, parts = record_with_two_kills(rows, airlock)
            check_gaps(asset, parts, sender.began_at, media)
            check_delivery(rows, mam, asset)
    watch_in_browser(airlock, chromium, asset)


def record_with_two_kills(rows: Rows, airlock: Airlock) -> tuple[Any, Any]:
    # By name: bookings of the demo's schedule exist as well.
    query = """SELECT b.state, b.file_name, b.id, b.errors FROM scheduling_booking b
               JOIN scheduling_recorder r ON r.id = b.recorder_id WHERE r.name = 'Counted'"""
    wait_until(lambda: is_recording(rows.one(query), airlock), 90, f"it records; {airlock.log}", pause=0.5)
    _, name, booking, _ = rows.one(query)
    query_state = f"SELECT state FROM assets_asset WHERE booking_id = {booking}"
    wait_until(lambda: rows.one(query_state) == ("live",), 15, "an asset is live")
    query_parts = f"SELECT part_count FROM assets_asset WHERE booking_id = {booking}"
    query_frames = f"SELECT frames FROM scheduling_booking WHERE id = {booking}"
    for number in (1, 2):
        enough = rows.one(query_frames)[0] + 10 * RATE
        wait_until(lambda wanted=enough: rows.one(query_frames)[0] >= wanted, 40, "ten more seconds", pause=0.2)
        kill_recording(name)
        wait_until(lambda wanted=number: rows.one(query_parts)[0] == wanted + 1, 15, "there is a new part")
    wanted = f"SELECT state FROM assets_asset WHERE booking_id = {booking}"
    wait_until(lambda: rows.one(wanted)[0] in {"ready", "partial", "error"}, 120, "it is processed", pause=0.5)
    asset = rows.one(
        f"""SELECT id, state, gaps, completeness_percent, extract(epoch FROM wanted_from_at),
                   extract(epoch FROM wanted_until_at), error FROM assets_asset WHERE booking_id = {booking}"""
    )
    parts = rows.connection.execute(
        f"SELECT path FROM assets_assetpart WHERE asset_id = {asset[0]} ORDER BY number"  # type: ignore[arg-type]
    ).fetchall()
    return asset, [path for (path,) in parts]


def is_recording(booking: Any, airlock: Airlock) -> bool:
    state, *_, errors = booking or ("not planned yet", "")
    assert state not in {"failed", "missed", "skipped", "partial", "completed"}, (
        f"{state}: {errors}\n{airlock.text()[-8000:]}"
    )
    return bool(state == "recording")


def check_gaps(asset: Any, parts: list[str], began_at: float, media: Path) -> None:
    """Compare the gaps with the frame numbers in the picture and with the times they were sent."""
    _, state, gaps, completeness, wanted_from, wanted_until, error = asset
    assert state in {"ready", "partial"}, error
    assert len(parts) == 3
    assert len(gaps) == 2
    numbers = [numbers_in(media / path) for path in parts]
    for gap, before, after in zip(gaps, numbers, numbers[1:], strict=False):
        lost_at, back_at = began_at + (before[-1] + 1) / RATE, began_at + after[0] / RATE
        print(f"edges off by {moment(gap['from_at']) - lost_at:+.2f} s and {moment(gap['to_at']) - back_at:+.2f} s")
        assert moment(gap["from_at"]) == pytest.approx(lost_at, abs=1.0)
        assert moment(gap["to_at"]) == pytest.approx(back_at, abs=1.0)
        assert gap["seconds"] == pytest.approx(back_at - lost_at, abs=1.0)
    first, last = float(wanted_from), float(wanted_until)
    assert last - first == pytest.approx(WINDOW_SECONDS, abs=0.1)
    there = {number for each in numbers for number in each if first <= began_at + number / RATE < last}
    truth = 100 * len(there) / ((last - first) * RATE)
    print(f"completeness {completeness:.2f} %, counted {truth:.2f} %; gaps {[gap['seconds'] for gap in gaps]}")
    assert completeness == pytest.approx(truth, abs=0.5)


def check_delivery(rows: Rows, mam: Mam, asset: Any) -> None:
    """Five failed attempts, then delivered once."""
    query = f"SELECT state, attempts, external_id FROM assets_delivery WHERE asset_id = {asset[0]}"
    wait_until(lambda: (rows.one(query) or [""])[0] == "delivered", 120, "the MAM has it", pause=0.5)
    assert rows.one(query) == ("delivered", 6, "mam-1")
    assert list(mam.assets) == ["mam-1"]
    assert len(mam.uploads) == 3
    log = f"""SELECT count(*) FROM assets_deliveryattempt a JOIN assets_delivery d ON d.id = a.delivery_id
              WHERE d.asset_id = {asset[0]}"""
    assert rows.one(log)[0] == 6


def watch_in_browser(airlock: Airlock, chromium: Any, asset: Any) -> None:  # noqa: F811
    context = chromium.new_context(viewport={"width": 1360, "height": 900})
    page = context.new_page()
    page.goto(f"{airlock.url}admin/")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", airlock.password())
    page.click("[type=submit]")
    page.wait_for_url("**/admin/")
    page.goto(f"{airlock.url}admin/assets/asset/")
    page.locator("img.airlock-thumb").first.wait_for()
    page.get_by_role("link", name="Counted evening").first.click()
    page.wait_for_url(f"**/assets/asset/{asset[0]}/change/**")
    assert page.locator("rect.airlock-bar-gap").count() == 2
    video = page.locator("video.airlock-video")
    video.evaluate("video => video.play()")
    wait_until(lambda: video.evaluate("video => video.currentTime") > 1.5, 30, "the picture moves")
    assert video.evaluate("video => video.videoWidth") > 0
    bar = page.locator("[data-bar]")
    box = bar.bounding_box()
    bar.click(position={"x": box["width"] * 0.9, "y": 5})
    wait_until(lambda: video.evaluate("video => video.currentTime") > 25, 10, "a click on the bar seeks")
    context.close()
