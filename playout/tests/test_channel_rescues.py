"""Channels whose media worker died, sends no frames or has no node (P-04, P-05)."""

import os
import signal
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

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


def test_a_killed_media_worker_is_restarted_at_the_right_position(channel: Any, settings: Any) -> None:
    """P-04, P-05, P-07, P-08: on the same node, joined in progress; the seconds off air are recorded."""
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
    wait_until(lambda: item_on(channel) == "clip0-30", 20, "the clip continues", pause=0.2)
    progress = workload_of(channel).progress
    expected = (datetime.fromisoformat(progress["place"]["at"]) - began).total_seconds()
    assert progress["item"]["offset_seconds"] == pytest.approx(expected, abs=1.5)
    controls.stop(channel, by="anna")
    assert AsRunEntry.objects.filter(generation=1).exists()
    assert AsRunEntry.objects.filter(generation=2).exists()


def test_after_three_rescues_in_ten_minutes_a_channel_is_in_error(channel: Any, settings: Any) -> None:
    """P-05: an alert is raised, and a user can start it again at once."""
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
    assert channel.state == State.ERROR, "it is not rescued again"
    assert channel.next_attempt_at == now + timedelta(minutes=10)
    Recovery.objects.all().delete()
    assert controls.start(channel, by="anna").is_good
    alert.refresh_from_db()
    assert alert.state == Alert.State.RESOLVED
    controls.stop(channel, by="anna")


def test_a_channel_in_error_is_started_again_after_ten_minutes(channel: Any, settings: Any) -> None:
    """P-05: also if no user acts."""
    settings.MAX_RECOVERIES = 0
    controls.start(channel, by="anna")
    os.kill(worker_pid(channel, settings), signal.SIGKILL)
    turn_until(channel, State.ERROR)
    Channel.objects.update(next_attempt_at=database_now())
    turn_until(channel, State.ON_AIR)
    assert not Alert.objects.filter(key=f"channel_error:{channel.owner}").exclude(state="resolved").exists()
    controls.stop(channel, by="anna")


def test_without_a_node_a_channel_keeps_trying_and_gives_the_reason(channel: Any) -> None:
    """P-05: it is not given up while it is wanted."""
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


def test_a_failed_start_and_a_missing_node_count_as_one_attempt_each(
    channel: Any, process_node: Any, monkeypatch: Any
) -> None:
    """P-05: the failed start is not counted again after the other error."""
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


def test_a_move_by_hand_during_a_rescue_goes_to_the_chosen_node(
    channel: Any, process_node: Any, monkeypatch: Any
) -> None:
    """P-05, P-11: also after a failed start."""
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


def test_a_media_worker_that_sends_no_frames_is_replaced(channel: Any, settings: Any) -> None:
    """P-04: although it answers."""
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


def test_a_move_to_an_unsuitable_node_is_refused(channel: Any) -> None:
    """P-11: the node is checked before anything is ended; a channel on a card needs an explicit target."""
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


def test_a_media_worker_that_sends_no_picture_is_replaced_after_the_start_deadline(channel: Any) -> None:
    """P-05: an alert is raised, and another generation is started."""
    controls.start(channel, by="anna")
    first = workload_of(channel)
    now = database_now()
    Workload.objects.filter(pk=first.pk).update(progress={**first.progress, "frames": 0, "error": "no encoder"})
    Channel.objects.update(state=State.STARTING, deadline_at=now - timedelta(seconds=1), state_since_at=now)
    channel.refresh_from_db()
    advance(channel, now)
    assert workload_of(channel).is_wanted, (
        "it was requested a moment ago, even if no node was available for long before"
    )
    Workload.objects.filter(pk=first.pk).update(created_at=now - timedelta(minutes=1))
    advance(channel, now)
    assert not workload_of(channel).is_wanted
    assert "no encoder" in channel.error
    assert Alert.objects.filter(key=f"off_air:{channel.owner}").exclude(state="resolved").exists()
    assert channel.deadline_at > now
    turn_until(channel, State.ON_AIR)
    assert workload_of(channel).generation == 2
    controls.stop(channel, by="anna")


def test_a_new_generation_waits_until_the_old_one_has_ended(channel: Any) -> None:
    """P-05: on a move by hand, after the old one ran for hours."""
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
def test_a_new_generation_does_not_wait_for_one_that_is_known_to_have_ended(
    channel: Any, process_node: Any, seen: Any, lingers: bool
) -> None:
    """P-04: nor for the removal of its container, which would take most of a second off air."""
    now = database_now()
    dead = workloads.want(
        channel.owner, node=process_node, program="playout", supervision=like_a_channel(), spec={}, secret={}, now=now
    )
    Workload.objects.filter(pk=dead.pk).update(state="failed", state_since_at=now, **seen)
    assert lifecycle._predecessor_lingers(channel, now) is lingers


def test_nodes_on_which_the_channel_failed_are_tried_last(channel: Any, process_node: Any) -> None:
    """P-05: the lost node, and a node on which a start has failed since."""
    now = database_now()
    lost = Node.objects.create(name="lost", address="tcp://x.example:2376", media_dir="/m", state="up")
    previous = Workload(node=process_node)
    assert failover.where_to(channel, previous) == (frozenset(), None), "no failed attempt yet"
    channel.attempts = 1
    assert failover.where_to(channel, previous) == (frozenset({process_node.pk}), None)
    values = {"channel": channel, "reason": "x", "by": "y", "lost_at": now, "noticed_at": now}
    Recovery.objects.create(kind="move", from_node=lost, **values)
    assert failover.where_to(channel, previous) == (frozenset({process_node.pk, lost.pk}), None)


def test_the_command_moves_one_that_is_failing_over_too(channel: Any, process_node: Any, capsys: Any) -> None:
    """P-11: the runbook's way out if Airlock does not find a node."""
    Channel.objects.update(state=State.FAILING_OVER, is_wanted=True)
    call_command("failover_channel", "One", "--to", process_node.name, "--dry-run")
    assert capsys.readouterr().out == f"One would be moved from ? to {process_node.name}.\n"
