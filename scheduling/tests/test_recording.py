"""Start and Stop by hand with a real capture on the process runtime."""

from pathlib import Path
from typing import Any

import pytest

from nodes.machines.call_pools import pools
from nodes.models import Node, Workload
from scheduling.leader.loop import Loop
from scheduling.models import Booking, Recorder
from scheduling.recording.controls import start_now, stop_now
from testing.media import decode, snapshot
from testing.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def files_of(booking: Booking, settings: Any) -> list[Path]:
    folder = settings.RECORDINGS_DIR / booking.folder
    return sorted(folder.glob(f"{booking.file_name}-*"))


def test_start_gives_a_growing_playable_file_and_stop_keeps_it(recorder: Recorder, settings: Any) -> None:
    """R-16: the file can be read while it grows. A-01: folder and file follow the template."""
    outcome = start_now(recorder, by="anna")

    assert outcome.is_good, outcome.text
    assert "is recording on local" in outcome.text
    booking = outcome.target
    assert booking is not None
    assert booking.state == Booking.State.RECORDING
    [path] = files_of(booking, settings)
    first_size = path.stat().st_size
    wait_until(lambda: path.stat().st_size > first_size + 50_000, 20, "the file grows")
    assert decode(snapshot(path)) > 0

    outcome = stop_now(recorder, by="anna")

    assert outcome.is_good, outcome.text
    booking.refresh_from_db()
    assert booking.state == Booking.State.COMPLETED
    assert booking.size_bytes == path.stat().st_size
    assert abs(decode(path) - booking.frames) <= 2  # ffmpeg's last report comes before its last flush
    assert not Workload.objects.to_look_at().exists()
    assert [event.new for event in booking.events.all()] == [
        "planned",
        "armed",
        "starting",
        "recording",
        "stopping",
        "completed",
    ]


def test_second_start_of_a_recording_recorder_is_refused_and_names_the_first(recorder: Recorder) -> None:
    """R-13: refused by the database, with an explanation and the next free slot."""
    first = start_now(recorder, by="anna")
    assert first.is_good, first.text

    second = start_now(recorder, by="bert")

    assert not second.is_good
    assert "booked by anna" in second.text
    assert "free for this length from" in second.text
    assert second.target == first.target
    assert Booking.objects.count() == 1


def test_stop_of_an_idle_recorder_says_so(recorder: Recorder) -> None:
    assert stop_now(recorder, by="anna").text == "Studio A is not recording."


def test_a_scheduler_on_another_machine_does_not_touch_this_machine_s_processes(
    recorder: Recorder, settings: Any, tmp_path: Path
) -> None:
    """A process node means the processes of one machine and folder: elsewhere "not found" does not mean "gone"."""
    outcome = start_now(recorder, by="anna")
    assert outcome.is_good, outcome.text
    before = Workload.objects.get()
    home = settings.DATA_DIR
    settings.DATA_DIR = tmp_path / "another machine"
    loop = Loop()
    for _ in range(4):
        loop.run_once()
        pools.close()

    workload = Workload.objects.get()
    assert (workload.pk, workload.state) == (before.pk, "running")
    assert Node.objects.get().state == "up"
    assert Node.objects.get().missed_checks == 0
    patience, settings.MANUAL_WAIT_SECONDS = settings.MANUAL_WAIT_SECONDS, 2.0
    refused = stop_now(recorder, by="bert")
    assert "has not confirmed it yet" in refused.text

    settings.DATA_DIR, settings.MANUAL_WAIT_SECONDS = home, patience
    assert stop_now(recorder, by="anna").is_good
