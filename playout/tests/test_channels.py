"""Channels on the process runtime: on air by a button, steered, rescued, counted."""

import json
import os
import signal
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from nodes import workloads
from nodes.models import Node, Workload
from nodes.workloads.reconcile import reconcile
from playout.channels import controls, failover, lifecycle
from playout.channels.lifecycle import advance, step
from playout.models import AsRunEntry, Channel, PlaylistItem, Recovery
from station.clock import database_now
from station.models import Alert
from testing.channels import make_asset, make_channel
from testing.processes import command_of
from testing.waiting import wait_until

pytestmark = pytest.mark.paced

State = Channel.State


@pytest.fixture
def channel(process_node: Any, project: Any, settings: Any) -> Any:
    settings.WORKER_PREVIEW = False
    settings.MANUAL_WAIT_SECONDS = 40
    return make_channel(project, settings.RECORDINGS_DIR)


def workload_of(channel: Any) -> Workload:
    found = workloads.latest(channel.owner)
    assert found is not None
    return found


def worker_pid(channel: Any, settings: Any) -> int:
    pids = json.loads((settings.DATA_DIR / "run" / workload_of(channel).name / "pids.json").read_text())
    return int(pids["worker"]["pid"])


def turn(channel: Any) -> None:
    """What the loop does for one channel: look at its worker, then at itself."""
    for workload in Workload.objects.to_look_at().filter(owner=channel.owner):
        reconcile(workload.pk)
    channel.refresh_from_db()
    advance(channel, database_now())
    channel.refresh_from_db()


def turn_until(channel: Any, state: str, seconds: float = 30) -> None:
    def there() -> bool:
        turn(channel)
        return bool(channel.state == state)

    wait_until(there, seconds, f"the channel is {state}", pause=0.2)


def item_on(channel: Any) -> str:
    turn(channel)
    return str((workload_of(channel).progress.get("item") or {}).get("title"))


def test_start_pause_skip_cue_and_stop_work_without_any_scheduler(channel: Any) -> None:
    """P-01, P-02, P-03: the same module for everybody; what went out is on record."""
    outcome = controls.start(channel, by="anna")
    assert outcome.is_good, outcome.text
    assert outcome.text == "One is on air from local."
    assert channel.state == State.ON_AIR
    wait_until(lambda: item_on(channel) == "clip0-30", 20, "the first clip is on", pause=0.2)
    assert controls.pause(channel, by="anna").text == "One is paused."
    wait_until(lambda: item_on(channel) and workload_of(channel).progress["state"] == "paused", 10, "paused", pause=0.2)
    assert controls.play(channel, by="anna").is_good
    third = PlaylistItem.objects.get(position=2)
    assert controls.cue(channel, by="anna", item=third).is_good
    assert controls.skip(channel, by="anna").is_good
    wait_until(lambda: item_on(channel) == "clip2-30", 20, "the cued clip is on", pause=0.2)
    wait_until(lambda: AsRunEntry.objects.filter(reason="skipped").exists() or turn(channel), 10, "as-run", pause=0.2)
    outcome = controls.stop(channel, by="anna")
    assert outcome.text == "One is off air."
    entries = {entry.title: entry for entry in AsRunEntry.objects.filter(kind="asset")}
    assert entries["clip0-30"].reason == "skipped"
    assert entries["clip2-30"].item == third
    assert not AsRunEntry.objects.filter(ended_at=None).exists()
    assert controls.stop(channel, by="anna").text == "One is off air."
    assert not controls.skip(channel, by="anna").is_good
    events = [f"{event.old} -> {event.new}" for event in channel.events.all()]
    assert events == ["off_air -> starting", "starting -> on_air", "on_air -> stopping", "stopping -> off_air"]


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


def test_an_edited_list_reaches_the_worker_and_what_is_on_stays_on(channel: Any) -> None:
    """P-01."""
    controls.start(channel, by="anna")
    wait_until(lambda: item_on(channel) == "clip0-30", 20, "the first clip is on", pause=0.2)
    PlaylistItem.objects.filter(position=1).delete()
    wait_until(lambda: _next(channel) == "clip2-30", 20, "the worker knows the new list", pause=0.2)
    assert item_on(channel) == "clip0-30"
    controls.stop(channel, by="anna")


def test_a_clip_nobody_had_planned_is_next_and_another_is_on_at_once(channel: Any, project: Any, settings: Any) -> None:
    """P-01, P-09: it stands in the list then, so a rescue finds it there."""
    news = make_asset(project, settings.RECORDINGS_DIR, "news-30", 30.0)
    flash = make_asset(project, settings.RECORDINGS_DIR, "flash-30", 30.0)
    outcome = controls.insert(channel, asset=news, by="anna")
    assert (outcome.is_good, outcome.text) == (False, "One is off air.")
    controls.start(channel, by="anna")
    wait_until(lambda: item_on(channel) == "clip0-30", 20, "the first clip is on", pause=0.2)
    outcome = controls.insert(channel, asset=news, by="anna")
    assert (outcome.is_good, outcome.text) == (True, "One has news-30 as its next item. It stands in Loop now.")
    assert _next(channel) == "news-30"
    assert item_on(channel) == "clip0-30"
    assert controls.insert(channel, asset=flash, in_seconds=5.0, by="anna", take=True).is_good
    wait_until(lambda: item_on(channel) == "flash-30", 20, "it is on", pause=0.2)
    assert _next(channel) == "news-30"
    rows = PlaylistItem.objects.order_by("position")
    assert [row.shown_title for row in rows] == ["clip0-30", "flash-30", "news-30", "clip1-30", "clip2-30"]
    assert [row.position for row in rows] == [0, 1, 2, 3, 4]
    controls.stop(channel, by="anna")
    first = AsRunEntry.objects.get(title="clip0-30")
    assert not AsRunEntry.objects.filter(kind="slate", started_at__gt=first.started_at).exists(), (
        "a take shows no slate"
    )


def _next(channel: Any) -> str:
    turn(channel)
    return str((workload_of(channel).progress.get("next") or {}).get("title"))


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
    failed = workloads.want(channel.owner, node=process_node, program="playout", spec={}, secret={}, now=now)
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
    failed = workloads.want(channel.owner, node=process_node, program="playout", spec={}, secret={}, now=now)
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


def test_no_output_no_start(channel: Any) -> None:
    channel.outputs.all().delete()
    outcome = controls.start(channel, by="anna")
    assert not outcome.is_good
    assert "no output" in outcome.text


def test_a_card_is_never_moved_and_the_alert_names_the_runbook(channel: Any, process_node: Any) -> None:
    """P-06: DeckLink: alert only, a person acts."""
    now = database_now()
    channel.outputs.all().delete()
    Channel.objects.update(node=process_node, is_wanted=True)
    channel.refresh_from_db()
    channel.outputs.create(type="decklink", address="0")
    channel.move(State.STARTING, now=now)
    channel.move(State.ON_AIR, now=now)
    lost = workloads.want(channel.owner, node=process_node, program="playout", spec={}, secret={}, now=now)
    Workload.objects.update(state="lost", exit_reason="node_gone", error="gone")
    lost.refresh_from_db()
    failover.recover(channel, lost, now)
    assert channel.state == State.ERROR
    [alert] = Alert.objects.filter(key=f"channel_error:{channel.owner}")
    assert "docs/operations.md" in alert.text
    assert "may be off air" in alert.title
    assert not Recovery.objects.exists()
    lost.refresh_from_db()
    assert lost.is_wanted, "it may well be on: nobody ends it"
    Workload.objects.update(state="running", progress={"frames": 100, "asrun_revision": 0}, heartbeat_at=now)
    advance(channel, now)
    assert channel.state == State.ON_AIR, "its machine is back, and it never stopped"
    alert.refresh_from_db()
    assert alert.state == Alert.State.RESOLVED


def test_the_loop_finds_a_wanted_channel(channel: Any) -> None:
    """P-01: wanted is a person's, the state is observed."""
    Channel.objects.update(is_wanted=True)
    now = database_now()
    assert step(now) == now + timedelta(seconds=0.5)
    channel.refresh_from_db()
    assert channel.state == State.STARTING
    controls.stop(channel, by="anna")


def test_the_secrets_of_an_output_are_sealed_and_stand_in_no_command_line(channel: Any, settings: Any) -> None:
    """S-05."""
    output = channel.outputs.create(type="srt", address="srt://127.0.0.1:9?passphrase=averysecretword")
    assert output.address == "srt://127.0.0.1:9"
    controls.start(channel, by="anna")
    workload = workload_of(channel)
    assert "averysecretword" not in str(workload.spec)
    from testing.processes import children_of

    commands: list[str] = []

    def is_seen() -> bool:  # nobody listens there: it comes and goes
        commands.extend(command_of(pid) for pid in children_of(worker_pid(channel, settings)))
        return any("srt://127.0.0.1:9" in command for command in commands)

    wait_until(is_seen, 20, "the sender is tried")
    assert not any("averysecretword" in command for command in commands)
    controls.stop(channel, by="anna")


def test_commands_refuse_in_words_and_a_dry_run_changes_nothing(channel: Any, capsys: Any) -> None:
    """P-11."""
    for command in (["failover_channel", "Nobody"], ["failover_drill", "Nobody"]):
        with pytest.raises(CommandError, match="There is no channel called Nobody"):
            call_command(*command)
    with pytest.raises(CommandError, match="no node called nowhere"):
        call_command("drain_node", "nowhere")
    with pytest.raises(CommandError, match="is off air"):
        call_command("failover_channel", "One")
    controls.start(channel, by="anna")
    for command in ("failover_channel", "failover_drill"):  # what is refused is refused beforehand, too
        with pytest.raises(CommandError, match="would not be moved: there is no other node that can take it"):
            call_command(command, "One", "--dry-run")
        with pytest.raises(CommandError, match="was not moved: there is no other node that can take it"):
            call_command(command, "One")
    with pytest.raises(CommandError, match="it is on local already"):
        call_command("failover_channel", "One", "--to", "local")
    call_command("drain_node", "local", "--dry-run")
    out = capsys.readouterr().out
    assert out.startswith("local would get no new work.\nOne would not be moved: there is no other node"), out
    assert not Node.objects.filter(is_draining=True).exists()
    with pytest.raises(CommandError, match="1 of its channels could not be moved and are still on local"):
        call_command("drain_node", "local", "--json")
    assert len(json.loads(capsys.readouterr().out)["not_moved"]) == 1
    call_command("undrain_node", "local")
    Node.objects.create(name="another", address="tcp://x.example:2376", media_dir="/m", state="up")
    capsys.readouterr()
    call_command("failover_channel", "One", "--dry-run", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["moved"]) == ("One would be moved from local to another.", False)
    assert not Recovery.objects.exists()
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
    assert "say which machine has the cable" in controls.move(channel, by="anna").text
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
    dead = workloads.want(channel.owner, node=process_node, program="playout", spec={}, secret={}, now=now)
    Workload.objects.filter(pk=dead.pk).update(state="failed", state_since_at=now, **seen)
    assert lifecycle._predecessor_lingers(channel, now) is lingers


def test_bars_on_air_are_told(channel: Any) -> None:
    """P-09: frames go out, nothing is moved; but somebody must know, and hear when it is over."""
    controls.start(channel, by="anna")
    workload = workload_of(channel)
    key = f"bars:{channel.owner}"
    for progress, state in (({"bars_seconds": 30.0, "state": "slate"}, "open"), ({"state": "playing"}, "resolved")):
        workload.progress = {**workload.progress, "item": None, "bars_seconds": 0.0, **progress}
        lifecycle._watch_program(channel, workload, database_now())
        assert Alert.objects.get(key=key).state == state
    controls.stop(channel, by="anna")


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


def test_every_sealed_secret_is_sealed_anew(channel: Any) -> None:
    """S-05: a key can go only when nothing needs it any more, of whichever app."""
    from scheduling.management.commands.reseal import sealed_fields

    names = {f"{model.__name__}.{field}" for model, field in sealed_fields()}
    assert {"ChannelOutput.secrets_sealed", "Destination.secrets_sealed", "Recorder.secrets_sealed"} <= names
    output = channel.outputs.create(type="srt", address="srt://127.0.0.1:9?passphrase=averysecretword")
    before = output.secrets_sealed
    call_command("reseal")
    output.refresh_from_db()
    assert output.secrets_sealed != before
    assert output.secrets == {"passphrase": "averysecretword"}
    output.address = "srt://elsewhere.example:9"
    output.save()
    assert output.secrets == {}, "an old secret does not go to a new place"
