"""A channel on a node whose clock is wrong: fixed starts and as-run entries are in the station's time."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodes import workloads
from nodes.workloads.reconcile import reconcile
from playout.channels import controls
from playout.channels.lifecycle import advance
from playout.models import AsRunEntry, PlaylistItem
from station.clock import database_now, house_zone
from station.models import Alert
from testing.channels import make_asset
from testing.waiting import wait_until
from worker.process.node_time import OFFSET_FILE

pytestmark = pytest.mark.paced

SLACK_SECONDS = 1.0


@pytest.mark.parametrize(("at_start", "then"), [(10, 10), (-10, -10), (0, 10)])
def test_a_fixed_start_happens_at_the_station_s_time(
    channel: Any, project: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_start: int, then: int
) -> None:
    """P-09, R-23: the node's clock is 10 s ahead or behind, or jumps ahead just before the start."""
    offset = tmp_path / "offset"
    offset.write_text(str(at_start))
    monkeypatch.setenv(OFFSET_FILE, str(offset))
    fixed_at = (database_now() + timedelta(seconds=20)).replace(microsecond=0)
    news = make_asset(project, settings.RECORDINGS_DIR, "news-30", 30.0)
    local = fixed_at.astimezone(house_zone())
    PlaylistItem.objects.create(playlist=channel.playlist, position=9, asset=news, start_time=local.time())
    assert controls.start(channel, by="anna").is_good
    offset.write_text(str(then))

    entry = wait_until(lambda: _entry(channel, "news-30"), 40, "the news are on", pause=0.1)
    seen_at = database_now()
    assert abs((entry.started_at - fixed_at).total_seconds()) < SLACK_SECONDS, (entry.started_at, fixed_at)
    assert entry.started_at <= seen_at
    assert 0 <= (seen_at - fixed_at).total_seconds() < 6, "it was on air at its time"
    first = AsRunEntry.objects.get(title="clip0-30")
    assert first.ended_at is not None
    assert first.frames / 25 == pytest.approx((first.ended_at - first.started_at).total_seconds(), abs=SLACK_SECONDS)
    assert Alert.objects.filter(key__startswith="node_clock:", state="open").count() == 1
    controls.stop(channel, by="anna")


def _entry(channel: Any, title: str) -> AsRunEntry | None:
    workload = workloads.latest(channel.owner)
    assert workload is not None
    reconcile(workload.pk)
    channel.refresh_from_db()
    advance(channel, database_now())
    return AsRunEntry.objects.filter(title=title).first()
