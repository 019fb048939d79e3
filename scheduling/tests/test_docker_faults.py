"""Recordings survive faults of real engines: freeze, restart, lost container, missing image, full disk, lost node."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from nodes.models import Node, Workload
from nodes.workloads import workload_name
from scheduling.models import Booking, Recorder
from scheduling.recording.controls import start_now
from station.models import Alert
from testing.media import decode
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.docker, pytest.mark.crash]


@pytest.fixture
def make_recorder(project: Any) -> Any:
    def make(name: str = "Studio", **fields: Any) -> Recorder:
        defaults = {"source_type": "test", "picture_size": "160x90", "video_bitrate": "200k"}
        return Recorder.objects.create(name=name, project=project, **{**defaults, **fields})

    return make


def ours(node: Any) -> list[str]:
    return [name for name in node.engine.containers() if "probe" not in name]


def booking_is(state: str) -> bool:
    return Booking.objects.get().state == state


def frames() -> int:
    workload = Workload.objects.order_by("-generation").first()
    return int(workload.progress.get("frames", 0)) if workload else 0


def assert_nothing_stuck() -> None:
    now = timezone.now()
    for model in (Booking, Workload):
        for row in model.objects.filter(state__in=model.live_states(), deadline_at__lt=now):
            assert (now - row.deadline_at).total_seconds() < 10, f"{row} is stuck in {row.state}"


def test_an_engine_frozen_for_20_seconds_during_a_start_makes_one_container(
    make_docker_node: Any, make_recorder: Any, scheduler: Any, settings: Any
) -> None:
    """A time-out means unknown, never failed: the container created on SIGCONT is adopted or removed, not doubled."""
    node = make_docker_node("a")
    recorder = make_recorder()
    scheduler(NODE_CALL_SECONDS="5")
    settings.MANUAL_WAIT_SECONDS = 8.0
    settings.NODE_CALL_SECONDS = 5.0
    node.engine.freeze()
    began = timezone.now()

    outcome = start_now(recorder, by="anna")

    assert not outcome.is_good
    assert "keeps trying" in outcome.text or "tries again" in outcome.text, outcome.text
    wait_until(lambda: (timezone.now() - began).total_seconds() > 20, 30, "20 s of frozen engine")
    node.engine.thaw()
    wait_until(lambda: booking_is("recording"), 60, "it records after the thaw")
    wait_until(lambda: len(ours(node)) == 1, 30, "one container, no orphan")
    assert ours(node) == [Workload.objects.order_by("-generation")[0].name]
    assert_nothing_stuck()


def test_an_engine_restart_with_live_restore_does_not_interrupt_the_recording(
    make_docker_node: Any, make_recorder: Any, scheduler: Any
) -> None:
    node = make_docker_node("a")
    scheduler()
    assert start_now(make_recorder(), by="anna").is_good
    node.engine.kill()
    before = frames()
    wait_until(lambda: frames() > before + 50, 30, "frames continue while the engine is dead")

    node.engine.start()

    before = frames()
    wait_until(lambda: frames() > before + 50, 30, "frames continue after the restart")
    workload = Workload.objects.get()
    assert workload.state == Workload.State.RUNNING
    assert workload.generation == 1
    assert workload.progress["gaps"] == []
    assert len(workload.progress["parts"]) == 1


def test_a_killed_container_is_replaced_and_the_recording_continues_as_a_new_part(
    make_docker_node: Any, make_recorder: Any, scheduler: Any
) -> None:
    """R-15: a new generation continues the same recording; the gap is recorded."""
    node = make_docker_node("a")
    scheduler()
    outcome = start_now(make_recorder(), by="anna")
    assert outcome.is_good
    [name] = ours(node)
    wait_until(lambda: frames() > 50, 20, "it has recorded something")

    node.engine.docker("kill", "--signal", "KILL", name)

    wait_until(lambda: Workload.objects.filter(generation=2, state="running").exists(), 30, "a second generation runs")
    wait_until(lambda: booking_is("recording"), 30, "it records again")
    wait_until(lambda: len(Booking.objects.get().parts) == 2, 30, "two parts")
    wait_until(lambda: ours(node) == [workload_name(outcome.target.owner, 2)], 30, "the dead container is removed")
    first = Workload.objects.get(generation=1)
    assert (first.state, first.exit_code, first.exit_reason) == ("failed", 137, "killed")
    booking = Booking.objects.get()
    assert booking.errors[0]["error"].startswith("killed, exit code 137")
    wait_until(lambda: len(Booking.objects.get().gaps) == 1, 10, "one gap")


def test_a_foreign_container_of_the_same_name_is_not_touched_and_a_new_generation_is_used(
    make_docker_node: Any, make_recorder: Any, scheduler: Any
) -> None:
    node = make_docker_node("a")
    recorder = make_recorder()
    Booking.objects.all().delete()
    next_owner = f"booking:{_next_booking_id()}"
    stranger = workload_name(next_owner, 1)
    node.engine.docker("create", "--name", stranger, "airlock-worker:test", "disk")
    scheduler()

    outcome = start_now(recorder, by="anna")

    assert outcome.target is not None
    assert outcome.target.owner == next_owner
    wait_until(lambda: booking_is("recording"), 30, "it records under another name")
    assert sorted(ours(node)) == sorted([stranger, workload_name(next_owner, 2)])
    failed = Workload.objects.get(generation=1)
    assert failed.exit_reason == "name_taken"
    assert Alert.objects.filter(key=f"name_taken:{stranger}").exists()
    node.engine.docker("rm", stranger)


def _next_booking_id() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value, is_called FROM scheduling_booking_id_seq")
        last, is_called = cursor.fetchone()
    return int(last) + (1 if is_called else 0)


def test_a_missing_image_is_explained_and_tried_again(make_docker_node: Any, make_recorder: Any, settings: Any) -> None:
    node = make_docker_node("a")
    settings.WORKER_IMAGE = "airlock-worker:absent"

    outcome = start_now(make_recorder(), by="anna")

    assert not outcome.is_good
    assert "The media worker image airlock-worker:absent is not on this node" in outcome.text
    booking = Booking.objects.get()
    assert booking.state in {"retry_wait", "starting"}
    assert "airlock-worker:absent" in booking.errors[0]["error"]
    assert Alert.objects.filter(key=f"not_starting:{booking.owner}", state="open").exists()
    assert ours(node) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 12 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,mode=0777", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_ends_the_recording_as_partial_and_keeps_every_byte(
    make_docker_node: Any, make_recorder: Any, scheduler: Any, small_disk: Path, settings: Any
) -> None:
    """R-18: `partial` with `disk_full`, an alert, and a file that can be played."""
    node = make_docker_node("a")
    Node.objects.filter(pk=node.pk).update(media_dir=str(small_disk), free_bytes=None)
    settings.MIN_FREE_DISK_MB = 4
    scheduler(MIN_FREE_DISK_MB="4", NODE_DISK_CHECK_SECONDS="3600")
    recorder = make_recorder(picture_size="640x360", video_bitrate="16M")

    start_now(recorder, by="anna")

    wait_until(lambda: Booking.objects.get().is_over, 60, "the full disk ends it")
    booking = Booking.objects.get()
    assert (booking.state, booking.outcome) == ("partial", "disk_full")
    assert Alert.objects.filter(key=f"disk_full:{booking.owner}").exists()
    path = small_disk / booking.folder / booking.parts[0]["file"]
    assert path.stat().st_size == booking.parts[0]["bytes"] > 1_000_000
    assert decode(path) > 0
    wait_until(lambda: ours(node) == [], 30, "nothing is left")


def test_a_lost_node_is_replaced_by_another_and_cleaned_up_when_it_returns(
    make_docker_node: Any, make_recorder: Any, scheduler: Any
) -> None:
    """R-21: the recording continues on another node; what is left on the lost node is removed when it returns."""
    first, second = make_docker_node("a"), make_docker_node("b")
    second_open = Node.objects.filter(pk=second.pk)
    second_open.update(is_draining=True)
    scheduler()
    assert start_now(make_recorder(), by="anna").is_good
    second_open.update(is_draining=False)
    old = Workload.objects.get()
    assert old.node_id == first.pk

    first.engine.kill_with_containers()

    wait_until(lambda: Workload.objects.filter(generation=2, node=second, state="running").exists(), 90, "it moved")
    wait_until(lambda: booking_is("recording"), 30, "it records again")
    old.refresh_from_db()
    assert (old.state, old.exit_reason) == ("lost", "node_gone")
    assert Node.objects.get(pk=first.pk).state == Node.State.DOWN
    assert Alert.objects.filter(key=f"node_down:{first.pk}", state="open").exists()

    first.engine.start()

    wait_until(lambda: Node.objects.get(pk=first.pk).state == Node.State.UP, 30, "the node is back")
    wait_until(lambda: ours(first) == [], 30, "its leftover is removed")
    wait_until(lambda: Workload.objects.get(pk=old.pk).removed_at, 10, "the row says so")
    assert Alert.objects.filter(key=f"node_down:{first.pk}", state="resolved").exists()
    assert_nothing_stuck()


@pytest.mark.alone
def test_a_container_with_our_label_but_no_row_is_ended_within_30_seconds(
    make_docker_node: Any, make_recorder: Any, scheduler: Any
) -> None:
    node = make_docker_node("a")
    outcome = start_now(make_recorder(), by="anna")
    assert outcome.is_good
    Workload.objects.all().delete()
    Booking.objects.all().delete()

    scheduler()

    wait_until(lambda: ours(node) == [], 30, "the orphan is ended and removed", claim=True)
    folder = Path(node.media_dir) / outcome.target.folder
    journal = json.loads((folder / f"{outcome.target.file_name}.json").read_text())
    assert journal["parts"][0]["end_reason"] == "stopped", "it was asked to end, not killed"
