"""A channel's media worker is not given up after a short silence or during its start (P-04)."""

import json
import os
import signal
from datetime import timedelta
from typing import Any

import pytest

from nodes import workloads
from nodes.models import Workload
from playout.channels.lifecycle import advance
from playout.models import Channel, Recovery
from station.clock import database_now
from station.models import Alert
from testing.channels import make_channel
from testing.waiting import wait_until
from testing.workloads import like_a_channel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.crash, pytest.mark.paced]

State = Channel.State
QUIET = {"WORKER_PREVIEW": "false"}
# The production values, not the longer limits of the tests.
LIMITS = {"WORKER_ANSWER_SECONDS": "2", "PLAYOUT_SILENCE_SECONDS": "3", "PLAYOUT_POLL_SECONDS": "1"}


@pytest.fixture
def channel(process_node: Any, project: Any, settings: Any) -> Any:
    settings.WORKER_PREVIEW = False
    return make_channel(project, settings.RECORDINGS_DIR, clips=1)


def workload_of(channel: Channel) -> Workload:
    found = workloads.latest(channel.owner)
    assert found is not None
    return found


def state_of(channel: Channel) -> str:
    channel.refresh_from_db()
    return str(channel.state)


def worker_pid(channel: Channel, settings: Any) -> int:
    pids = json.loads((settings.DATA_DIR / "run" / workload_of(channel).name / "pids.json").read_text())
    return int(pids["worker"]["pid"])


def put_on_air(channel: Channel) -> None:
    Channel.objects.update(is_wanted=True)
    wait_until(lambda: state_of(channel) == State.ON_AIR, 60, "it is on air")
    wait_until(lambda: workload_of(channel).heartbeat_at, 20, "its media worker has answered")


def test_a_short_silence_is_tolerated_and_a_long_one_ends_the_media_worker(
    channel: Channel, scheduler: Any, settings: Any
) -> None:
    """P-04: with the production limits it is replaced after 3 to 10 seconds."""
    scheduler(**QUIET, **LIMITS)
    put_on_air(channel)
    first = workload_of(channel)
    pid = worker_pid(channel, settings)

    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: workload_of(channel).missed_looks >= 1, 20, "a miss is counted", pause=0.02)
    os.kill(pid, signal.SIGCONT)

    wait_until(lambda: workload_of(channel).missed_looks == 0, 20, "it answers, and the count is reset")
    assert state_of(channel) == State.ON_AIR
    assert (workload_of(channel).pk, channel.restart_count) == (first.pk, 0)

    heard_at = workload_of(channel).heartbeat_at
    os.kill(pid, signal.SIGSTOP)
    counts: list[int] = []

    def is_given_up() -> bool:
        first.refresh_from_db()
        counts.append(first.missed_looks)
        return first.is_over

    try:
        wait_until(is_given_up, 30, "it is given up", pause=0.02)
    finally:
        os.kill(pid, signal.SIGCONT)  # a frozen process could not handle SIGTERM
    noticed = (first.state_since_at - heard_at).total_seconds()  # type: ignore[operator]
    print(f"silent for {noticed:.1f} s when it was given up; misses: {sorted(set(counts))}")
    assert max(counts) >= 2
    assert (first.state, first.exit_reason) == (Workload.State.FAILED, "unresponsive")
    assert noticed >= 3.0, "no sooner than PLAYOUT_SILENCE_SECONDS"
    assert noticed < 10.0, "detected within ten seconds"
    wait_until(lambda: state_of(channel) == State.ON_AIR and channel.restart_count == 1, 60, "its successor is on air")
    assert workload_of(channel).generation == 2
    assert Recovery.objects.get().kind == Recovery.Kind.RESTART


def test_a_media_worker_that_has_not_answered_yet_has_until_its_start_deadline(
    channel: Channel, process_node: Any
) -> None:
    """P-04: until then it is not replaced, and no alert is raised."""
    now = database_now()
    Channel.objects.update(is_wanted=True, state=State.STARTING, state_since_at=now)
    channel.refresh_from_db()
    workloads.want(
        channel.owner, node=process_node, program="playout", supervision=like_a_channel(), spec={}, secret={}, now=now
    )
    Workload.objects.update(state="starting")

    for seconds in (1, 5, 15, 29):
        advance(channel, now + timedelta(seconds=seconds))

    assert workload_of(channel).heartbeat_at is None
    assert (state_of(channel), channel.attempts, channel.error) == (State.STARTING, 0, "")
    assert Workload.objects.count() == 1
    assert not Alert.objects.exists()
    Workload.objects.update(state="failed", removed_at=now)
