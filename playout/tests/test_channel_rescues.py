"""Channels whose media worker died, stands still or has no node (P-04, P-05)."""

import os
import signal
from datetime import datetime, timedelta
from typing import Any

import pytest

from nodes import workloads
from nodes.models import Node, Workload
from playout.channels import controls, failover, lifecycle
from playout.channels.lifecycle import advance
from playout.models import AsRunEntry, Channel, Recovery
from playout.tests.test_channels import item_on, turn, worker_pid, workload_of
from station.clock import database_now
from station.models import Alert
from testing.waiting import wait_until
from testing.workloads import like_a_channel

pytestmark = pytest.mark.paced

State = Channel.State


def turn_until(channel: Any, state: str, seconds: float = 30) -> None:
    def there() -> bool:
        turn(channel)
        return bool(channel.state == state)

    wait_until(there, seconds, f"the channel is {state}", pause=0.2)


def test_a_killed_worker_is_brought_back_at_the_right_place(channel: Any, settings: Any) -> None:
    """P-04, P-05, P-07, P-08: restarted here, joined in progress, with the seconds off air on record."""
    controls.start(channel, by="anna")
    wait_until(lambda: item_on(channel) == "clip0-30", 20, "the first clip is on", pause=0.2)
    began = AsRunEntry.objects.get(title="clip0-30").started_at
    os.kill(worker_pid(channel, settings), signal.SIGKILL)
    turn_until(channel, State.FAILING_OVER)
    assert AsRunEntry.objects.get(title="clip0-30").reason == "lost"
    turn_until(channel, State.ON_AIR)
    [recovery] = Recovery.objects.all()
    assert recovery.kind == Recovery.Kind.RESTART
    assert recovery.off_air_seconds is not None
    assert 0 < recovery.off_air_seconds < 60
    assert channel.restart_count == 1
    wait_until(lambda: item_on(channel) == "clip0-30", 20, "the clip goes on", pause=0.2)
    progress = workload_of(channel).progress
    expected = (datetime.fromisoformat(progress["place"]["at"]) - began).total_seconds()
    assert progress["item"]["offset_seconds"] == pytest.approx(expected, abs=1.5)
    controls.stop(channel, by="anna")
    assert AsRunEntry.objects.filter(generation=1).exists()
    assert AsRunEntry.objects.filter(generation=2).exists()


def test_a_channel_that_keeps_dying_waits_for_a_person(channel: Any, settings: Any) -> None:
    """P-05: at most three rescues in ten minutes."""
    now = database_now()
    for _ in range(settings.MAX_RECOVERIES):
        Recovery.objects.create(
            channel=channel, kind="restart", reason="x", by="scheduler", lost_at=now, noticed_at=now, back_at=now
        )
    controls.start(channel, by="anna")
    os.kill(worker_pid(channel, settings), signal.SIGKILL)
    turn_until(channel, State.ERROR)
    [alert] = Alert.objects.filter(key=f"channel_error:{channel.owner}")
    assert "3 times within ten minutes" in alert.text
    turn(channel)
    assert channel.state == State.ERROR, "a person must act"
    assert channel.next_attempt_at == now + timedelta(minutes=10)
    Recovery.objects.all().delete()
    assert controls.start(channel, by="anna").is_good
    alert.refresh_from_db()
    assert alert.state == Alert.State.RESOLVED
    controls.stop(channel, by="anna")


def test_a_channel_for_which_nobody_came_is_tried_again(channel: Any, settings: Any) -> None:
    """P-05: off air for good helps nobody; when the ten minutes are over it is tried again."""
    settings.MAX_RECOVERIES = 0
    controls.start(channel, by="anna")
    os.kill(worker_pid(channel, settings), signal.SIGKILL)
    turn_until(channel, State.ERROR)
    Channel.objects.update(next_attempt_at=database_now())
    turn_until(channel, State.ON_AIR)
    assert not Alert.objects.filter(key=f"channel_error:{channel.owner}").exclude(state="resolved").exists()
    controls.stop(channel, by="anna")


def test_without_a_node_it_keeps_trying_and_says_why(channel: Any) -> None:
    """P-05: failing is a state with a deadline; nothing is given up while it is wanted."""
    Node.objects.update(is_draining=True)
    channel_wait = channel
    outcome = None
    from django.test import override_settings

    with override_settings(MANUAL_WAIT_SECONDS=1):
        outcome = controls.start(channel_wait, by="anna")
    assert not outcome.is_good
    assert "is being drained" in outcome.text
    assert Alert.objects.filter(key=f"off_air:{channel.owner}").exclude(state="resolved").exists()
    Node.objects.update(is_draining=False)
    Channel.objects.update(next_attempt_at=None)
    turn_until(channel, State.ON_AIR)
    assert not Alert.objects.filter(key=f"off_air:{channel.owner}").exclude(state="resolved").exists()
    controls.stop(channel, by="anna")


def test_a_failed_start_and_no_place_cost_one_pause_each(channel: Any, process_node: Any, monkeypatch: Any) -> None:
    """P-05: the one is not noted again because the other was said since."""
    now = database_now()
    Channel.objects.update(state=State.STARTING, state_since_at=now, is_wanted=True)
    channel.refresh_from_db()
    failed = workloads.want(
        channel.owner, node=process_node, program="playout", supervision=like_a_channel(), spec={}, secret={}, now=now
    )
    Workload.objects.filter(pk=failed.pk).update(state="failed", error="no encoder", state_since_at=now, removed_at=now)
    Node.objects.update(is_draining=True)
    said = []
    for second in (0, 2, 5):
        advance(channel, now + timedelta(seconds=second))
        said.append((channel.attempts, channel.error.partition(":")[0]))
    assert said == [(1, failed.name), (2, "No place to play from"), (3, "No place to play from")]


def test_a_move_by_hand_during_a_rescue_goes_where_it_was_told(
    channel: Any, process_node: Any, monkeypatch: Any
) -> None:
    """P-05, P-11: a start that failed before does not send it elsewhere."""
    now = database_now()
    target = Node.objects.create(name="there", address="tcp://x.example:2376", media_dir="/m", state="up")
    Channel.objects.update(state=State.FAILING_OVER, state_since_at=now, is_wanted=True)
    channel.refresh_from_db()
    Recovery.objects.create(channel=channel, kind="restart", reason="x", by="y", lost_at=now, noticed_at=now)
    failed = workloads.want(
        channel.owner, node=process_node, program="playout", supervision=like_a_channel(), spec={}, secret={}, now=now
    )
    Workload.objects.filter(pk=failed.pk).update(state="failed", error="no encoder", state_since_at=now, removed_at=now)
    advance(channel, now)
    assert channel.attempts == 1
    asked: list[Any] = []
    monkeypatch.setattr(lifecycle, "ask_for_worker", lambda channel, now, avoid, node: asked.append(node))
    assert failover._send_to(channel, failed, target, now + timedelta(seconds=1), by="anna", reason="moved by hand")
    advance(channel, now + timedelta(seconds=1))
    assert asked == [target]


def test_a_worker_that_stands_still_is_replaced(channel: Any, settings: Any) -> None:
    """P-04: health is progress, not an answer."""
    controls.start(channel, by="anna")
    first = workload_of(channel)
    Workload.objects.filter(pk=first.pk).update(progress={**first.progress, "last_frame_age_seconds": 60.0})
    channel.refresh_from_db()
    advance(channel, database_now())
    assert channel.state == State.FAILING_OVER
    turn_until(channel, State.ON_AIR)
    assert workload_of(channel).generation == 2
    assert "no frame goes out" in Recovery.objects.get().reason
    controls.stop(channel, by="anna")


def test_a_move_to_where_it_cannot_go_leaves_it_where_it_is(channel: Any) -> None:
    """P-11: labels, room and draining are asked before anything is ended; a card's machine is a person's choice."""
    controls.start(channel, by="anna")
    other = Node.objects.create(name="another", address="tcp://x.example:2376", media_dir="/m", state="up")
    Channel.objects.update(node_labels="studio")
    Node.objects.filter(name="local").update(labels="studio")
    channel.refresh_from_db()
    outcome = controls.move(channel, by="anna")
    assert not outcome.is_good
    assert "no other node that can take it" in outcome.text
    outcome = controls.move(channel, by="anna", to_node=other)
    assert "another: lacks the label studio" in outcome.text
    channel.outputs.create(type="decklink", address="0")
    assert "name the machine that has the cable" in controls.move(channel, by="anna").text
    assert channel.state == State.ON_AIR
    assert workload_of(channel).is_wanted
    assert not Recovery.objects.exists()
    controls.stop(channel, by="anna")


def test_a_worker_that_never_gives_a_picture_is_given_up_in_time(channel: Any) -> None:
    """P-05: starting has a deadline, too; somebody is told, and another one is tried."""
    controls.start(channel, by="anna")
    first = workload_of(channel)
    now = database_now()
    Workload.objects.filter(pk=first.pk).update(progress={**first.progress, "frames": 0, "error": "no encoder"})
    Channel.objects.update(state=State.STARTING, deadline_at=now - timedelta(seconds=1), state_since_at=now)
    channel.refresh_from_db()
    advance(channel, now)
    assert workload_of(channel).is_wanted, "asked for a moment ago, however long there was no place before"
    Workload.objects.filter(pk=first.pk).update(created_at=now - timedelta(minutes=1))
    advance(channel, now)
    assert not workload_of(channel).is_wanted
    assert "no encoder" in channel.error
    assert Alert.objects.filter(key=f"off_air:{channel.owner}").exclude(state="resolved").exists()
    assert channel.deadline_at > now
    turn_until(channel, State.ON_AIR)
    assert workload_of(channel).generation == 2
    controls.stop(channel, by="anna")


def test_one_that_still_sends_is_waited_for_however_long_it_ran(channel: Any) -> None:
    """P-05: a move by hand: the old one was not told to stop yet, so the new one is not asked for."""
    controls.start(channel, by="anna")
    first = workload_of(channel)
    now = database_now()
    Workload.objects.filter(pk=first.pk).update(is_wanted=False, state_since_at=now - timedelta(hours=3))
    Channel.objects.update(state=State.FAILING_OVER, state_since_at=now)
    channel.refresh_from_db()
    advance(channel, now)
    assert workload_of(channel).generation == 1
    turn_until(channel, State.ON_AIR)
    assert workload_of(channel).generation == 2
    assert Workload.objects.get(pk=first.pk).is_over
    controls.stop(channel, by="anna")


@pytest.mark.parametrize(("seen", "lingers"), [({"exit_code": 137}, False), ({"exit_code": None}, True)])
def test_one_whose_end_was_seen_is_not_waited_for(channel: Any, process_node: Any, seen: Any, lingers: bool) -> None:
    """P-04: not until its container is cleared away, too: that was most of a second off air."""
    now = database_now()
    dead = workloads.want(
        channel.owner, node=process_node, program="playout", supervision=like_a_channel(), spec={}, secret={}, now=now
    )
    Workload.objects.filter(pk=dead.pk).update(state="failed", state_since_at=now, **seen)
    assert lifecycle._predecessor_lingers(channel, now) is lingers


def test_where_it_failed_is_tried_last(channel: Any, process_node: Any) -> None:
    """P-05: a lost node, and one that was tried in vain since."""
    now = database_now()
    lost = Node.objects.create(name="lost", address="tcp://x.example:2376", media_dir="/m", state="up")
    previous = Workload(node=process_node)
    assert failover.where_to(channel, previous) == (frozenset(), None), "a fresh start"
    channel.attempts = 1
    assert failover.where_to(channel, previous) == (frozenset({process_node.pk}), None)
    values = {"channel": channel, "reason": "x", "by": "y", "lost_at": now, "noticed_at": now}
    Recovery.objects.create(kind="move", from_node=lost, **values)
    assert failover.where_to(channel, previous) == (frozenset({process_node.pk, lost.pk}), None)
