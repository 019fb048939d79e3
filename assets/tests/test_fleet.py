"""Many assets and two job workers, one of them killed every five seconds: each asset is processed once."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from assets.files import locations
from assets.models import Asset, AssetStep
from assets.processing import steps as processing
from jobs.models import JobWorker, Run
from station.clock import database_now
from testing.library import make_asset, make_clip
from testing.processes import start_manage
from testing.waiting import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.alone, pytest.mark.timeout(900)]

# Takes about half a minute; with AIRLOCK_FLEET_ASSETS=200 two minutes and more.
COUNT = int(os.environ.get("AIRLOCK_FLEET_ASSETS", "45"))
KILL_EVERY_SECONDS = 5.0


@pytest.fixture
def small_assets(settings: Any, project: Any, media: Path, transactional_db: Any) -> list[Asset]:
    clip = make_clip(media / "clip.ts", 0.4, size="96x54")
    assets = []
    for number in range(COUNT):
        path = media / "take" / f"{number}.ts"
        path.parent.mkdir(exist_ok=True)
        os.link(clip, path)
        assets.append(make_asset(settings, project, path, title=f"Clip {number}"))
    for asset in assets:
        processing.order(asset, processing.FIRST, now=database_now(), by="test")
    return assets


def _left_over() -> list[tuple[str, str]]:
    """Unfinished runs of assets, without runs of scheduled jobs."""
    return list(Run.objects.live().filter(owner__startswith="asset:").values_list("state", "job__name"))


def _is_up(pid: int) -> bool:
    return JobWorker.objects.filter(name__endswith=f"pid {pid}", ended_at=None).exists()


def test_many_assets_with_a_job_worker_killed_every_five_seconds(
    small_assets: list[Asset], settings: Any, scheduler: Any, tmp_path: Path
) -> None:
    """A-05, J-07, J-17: each is processed once, and none is stuck."""
    log = tmp_path / "workers.log"
    where = {"RECORDINGS_DIR": str(settings.RECORDINGS_DIR), "LOG_LEVEL": "WARNING"}
    start = lambda: start_manage("runworker", "--concurrency", "2", log=log, **where)  # noqa: E731
    scheduler(**where)
    workers = [start(), start()]
    kills, killed_at, deadline = 0, time.monotonic(), time.monotonic() + 600
    try:
        while Asset.objects.filter(state=Asset.State.PROCESSING).exists():
            assert time.monotonic() < deadline, list(Run.objects.values_list("state", "error")[:20])
            assert all(worker.poll() is None for worker in workers), log.read_text()[-2000:]
            time.sleep(0.5)
            if time.monotonic() - killed_at >= KILL_EVERY_SECONDS:
                victim = kills % 2
                workers[victim].send_signal(signal.SIGKILL)
                workers[victim].wait()
                workers[victim] = start()
                kills, killed_at = kills + 1, time.monotonic()
        # A run whose job worker was killed after the result was written is repeated, finds the result, and ends.
        wait_until(lambda: not _left_over(), 60, f"nothing of any asset is left over: {_left_over()}")
        wait_until(lambda: all(_is_up(worker.pid) for worker in workers), 30, "both job workers are running")
    finally:
        for worker in workers:
            worker.terminate()
        codes = [worker.wait(60) for worker in workers]
    assert codes == [0, 0], log.read_text()[-2000:]
    assert kills >= 2
    states = list(Asset.objects.values_list("state", flat=True))
    assert states == [Asset.State.READY] * COUNT
    steps = AssetStep.objects.all()
    assert steps.count() == COUNT * len(AssetStep.Kind)
    assert set(steps.values_list("times_done", flat=True)) == {1}
    assert not steps.exclude(error="").exists()
    products = {path.name for asset in small_assets for path in locations.products_dir(asset.pk).iterdir()}
    assert products == set(locations.PRODUCTS)
    print(f"{kills} kills; orphaned runs: {Run.objects.filter(attempt__gt=1).count()}")
