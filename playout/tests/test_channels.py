"""Channels on the process runtime: start, stop, control, alerts and secrets."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from nodes import workloads
from nodes.machines.call_pools import pools
from nodes.models import Node, Workload
from nodes.workloads.reconcile import reconcile
from playout.channels import controls, failover, on_air_watch
from playout.channels.lifecycle import advance
from playout.channels.loop_step import step
from playout.models import AsRunEntry, Channel, PlaylistItem, Recovery
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert
from testing.channels import make_asset
from testing.processes import command_of
from testing.waiting import wait_until
from testing.workloads import like_a_channel
from worker.wire.status import PlayoutStatus

pytestmark = pytest.mark.paced

State = Channel.State


def workload_of(channel: Any) -> Workload:
    found = workloads.latest(channel.owner)
    assert found is not None
    return found


def worker_pid(channel: Any, settings: Any) -> int:
    pids = json.loads((settings.DATA_DIR / "run" / workload_of(channel).name / "pids.json").read_text())
    return int(pids["worker"]["pid"])


def turn(channel: Any) -> None:
    """One turn of the loop for one channel: check its workload, then advance the channel."""
    for workload in Workload.objects.to_look_at().filter(owner=channel.owner):
        reconcile(workload.pk)
    channel.refresh_from_db()
    advance(channel, database_now())
    channel.refresh_from_db()


def item_on(channel: Any) -> str:
    turn(channel)
    return str((workload_of(channel).progress.get("item") or {}).get("title"))


def test_start_pause_skip_cue_and_stop_work_without_a_scheduler(channel: Any) -> None:
    """P-01, P-02, P-03: what was sent is in the as-run entries."""
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


def test_an_edited_list_is_sent_to_the_media_worker_and_the_item_on_air_continues(channel: Any) -> None:
    """P-01."""
    controls.start(channel, by="anna")
    wait_until(lambda: item_on(channel) == "clip0-30", 20, "the first clip is on", pause=0.2)
    PlaylistItem.objects.filter(position=1).delete()
    wait_until(lambda: _next(channel) == "clip2-30", 20, "the media worker has the new list", pause=0.2)
    assert item_on(channel) == "clip0-30"
    controls.stop(channel, by="anna")


def test_a_clip_is_inserted_as_the_next_item_or_taken_at_once(channel: Any, project: Any, settings: Any) -> None:
    """P-01, P-09: it is added to the playlist, so a rescue plays it, too."""
    news = make_asset(project, settings.RECORDINGS_DIR, "news-30", 30.0)
    flash = make_asset(project, settings.RECORDINGS_DIR, "flash-30", 30.0)
    outcome = controls.insert(channel, asset=news, by="anna")
    assert (outcome.is_good, outcome.text) == (False, "One is off air.")
    controls.start(channel, by="anna")
    wait_until(lambda: item_on(channel) == "clip0-30", 20, "the first clip is on", pause=0.2)
    outcome = controls.insert(channel, asset=news, by="anna")
    assert (outcome.is_good, outcome.text) == (True, "One has news-30 as its next item. It was added to Loop.")
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


def test_a_channel_without_an_output_does_not_start(channel: Any) -> None:
    channel.outputs.all().delete()
    outcome = controls.start(channel, by="anna")
    assert not outcome.is_good
    assert "no output" in outcome.text


def test_a_channel_on_a_card_is_never_moved_and_the_alert_names_the_runbook(channel: Any, process_node: Any) -> None:
    """P-06: a user must act."""
    now = database_now()
    channel.outputs.all().delete()
    Channel.objects.update(node=process_node, is_wanted=True)
    channel.refresh_from_db()
    channel.outputs.create(type="decklink", address="0")
    channel.move(State.STARTING, now=now)
    channel.move(State.ON_AIR, now=now)
    lost = workloads.want(
        channel.owner, node=process_node, program="playout", supervision=like_a_channel(), spec={}, secret={}, now=now
    )
    Workload.objects.update(state="lost", exit_reason="node_gone", error="gone")
    lost.refresh_from_db()
    failover.recover(channel, lost, now)
    assert channel.state == State.ERROR
    [alert] = Alert.objects.filter(key=f"channel_error:{channel.owner}")
    assert "docs/operations.md" in alert.text
    assert "may be off air" in alert.title
    assert not Recovery.objects.exists()
    lost.refresh_from_db()
    assert lost.is_wanted, "it may still be on air, so it is not ended"
    Workload.objects.update(state="running", progress={"frames": 100, "asrun_revision": 0}, heartbeat_at=now)
    advance(channel, now)
    assert channel.state == State.ON_AIR, "its machine is back, and the media worker never stopped"
    alert.refresh_from_db()
    assert alert.state == Alert.State.RESOLVED


def test_the_loop_starts_a_wanted_channel(channel: Any) -> None:
    """P-01: users set is_wanted, the loop sets the state."""
    Channel.objects.update(is_wanted=True)
    now = database_now()
    assert step(Term(), now) == now + timedelta(seconds=0.5)
    wait_until(lambda: Channel.objects.get().state == State.STARTING, 10, "the check on another thread")
    assert pools.wait_idle(20)
    controls.stop(channel, by="anna")


def test_the_secrets_of_an_output_are_sealed_and_kept_out_of_command_lines(channel: Any, settings: Any) -> None:
    """S-05."""
    output = channel.outputs.create(type="srt", address="srt://127.0.0.1:9?passphrase=averysecretword")
    assert output.address == "srt://127.0.0.1:9"
    controls.start(channel, by="anna")
    workload = workload_of(channel)
    assert "averysecretword" not in str(workload.spec)
    from testing.processes import children_of

    commands: list[str] = []

    def is_seen() -> bool:  # nothing listens there, so the sender ends and is restarted
        commands.extend(command_of(pid) for pid in children_of(worker_pid(channel, settings)))
        return any("srt://127.0.0.1:9" in command for command in commands)

    wait_until(is_seen, 20, "the sender was started")
    assert not any("averysecretword" in command for command in commands)
    controls.stop(channel, by="anna")


def test_commands_refuse_with_a_reason_and_a_dry_run_changes_nothing(channel: Any, capsys: Any) -> None:
    """P-11."""
    for command in (["failover_channel", "Nobody"], ["failover_drill", "Nobody"]):
        with pytest.raises(CommandError, match="There is no channel called Nobody"):
            call_command(*command)
    with pytest.raises(CommandError, match="no node called nowhere"):
        call_command("drain_node", "nowhere")
    with pytest.raises(CommandError, match="is off air"):
        call_command("failover_channel", "One")
    controls.start(channel, by="anna")
    for command in ("failover_channel", "failover_drill"):  # a dry run refuses what the real run refuses
        with pytest.raises(CommandError, match="would not be moved: there is no other node that can take it"):
            call_command(command, "One", "--dry-run")
        with pytest.raises(CommandError, match="was not moved: there is no other node that can take it"):
            call_command(command, "One")
    with pytest.raises(CommandError, match="it is already on local"):
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


def test_bars_on_air_raise_an_alert(channel: Any) -> None:
    """P-09: the channel is not moved; the alert is resolved when an item plays again."""
    controls.start(channel, by="anna")
    workload = workload_of(channel)
    key = f"bars:{channel.owner}"
    for progress, state in (({"bars_seconds": 30.0, "state": "slate"}, "open"), ({"state": "playing"}, "resolved")):
        workload.progress = {**workload.progress, "item": None, "bars_seconds": 0.0, **progress}
        on_air_watch.watch_on_air(channel, workload.status(PlayoutStatus), database_now())
        assert Alert.objects.get(key=key).state == state
    controls.stop(channel, by="anna")


def test_reseal_seals_every_secret_again(channel: Any) -> None:
    """S-05: in all apps, so that an old key can be removed."""
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
    assert output.secrets == {}, "an old secret is not used for a new address"
