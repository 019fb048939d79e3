"""The station's clock in a media worker: set at the start, corrected by the control plane, independent of its node."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from testing.capturing import capture, seconds_between
from worker.capture.journal import Journal
from worker.process.node_time import OFFSET_FILE
from worker.process.station_clock import LAUNCH_SECONDS, StationClock, boot_seconds
from worker.wire.commands import SetClock
from worker.wire.configuration import LaunchClock

TEST = {"type": "test", "url": "", "size": "160x90"}
EVERY = 5


@pytest.fixture
def node_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the offset of this machine's clock."""
    path = tmp_path / "offset"
    monkeypatch.setenv(OFFSET_FILE, str(path))
    return path


def ahead(clock: StationClock) -> float:
    """How far it is ahead of the real time."""
    return clock.now() - time.time()


@pytest.mark.parametrize(
    ("offset", "known", "start_took", "error"),
    [
        (0.0, 0.0, 3.0, 0.0),  # a slow start does not matter: the node's clock is right
        (4.0, 4.0, 3.0, 0.0),  # nor if we know how wrong it is
        (-4.0, -4.0, 3.0, 0.0),
        (60.0, 0.0, 3.0, -3.0),  # it cannot be right: late by the time of the start, until the first poll
        (-60.0, 0.0, 3.0, -3.0),
        (60.0, 4.0, 0.0, 0.0),  # it has jumped since it was measured
    ],
)
def test_the_first_time_of_a_media_worker_is_the_station_s(
    node_clock: Path, offset: float, known: float, start_took: float, error: float
) -> None:
    """R-23."""
    node_clock.write_text(str(offset))
    clock = StationClock()
    clock.begin(LaunchClock(datetime.now(UTC) - timedelta(seconds=start_took), known))
    assert ahead(clock) == pytest.approx(error, abs=0.1)
    assert abs(error) < LAUNCH_SECONDS


def test_a_jump_of_the_node_s_clock_does_not_move_the_station_s_time(node_clock: Path) -> None:
    """R-23: even without a control plane. The node's own clock is reported as it is."""
    node_clock.write_text("0")
    clock = StationClock()
    for offset in ("10", "-10", "nonsense"):
        node_clock.write_text(offset)
        assert ahead(clock) == pytest.approx(0.0, abs=0.1)
    node_clock.write_text("10")
    reading = clock.reading()
    assert (reading.node_at - reading.station_at).total_seconds() == pytest.approx(10.0, abs=0.1)


def test_a_correction_that_arrives_late_or_twice_sets_the_same_time() -> None:
    """R-23: it names the moment it speaks of."""
    clock = StationClock()
    command = SetClock(boot_seconds() - 30.0, datetime.now(UTC) - timedelta(seconds=25))
    assert clock.take(command) == pytest.approx(5.0, abs=0.1)
    assert clock.take(command) == 0.0
    assert ahead(clock) == pytest.approx(5.0, abs=0.1)


def test_a_part_whose_media_worker_was_killed_ended_with_its_last_write(tmp_path: Path) -> None:
    """R-15, R-23: the file's date is in the time of its file system; only its age counts."""
    began = datetime.now(UTC) - timedelta(seconds=60)
    part = Journal.open(tmp_path, "one", "mpegts").begin(1, began)
    path = tmp_path / part.file
    path.write_bytes(b"picture")
    os.utime(path, (time.time() - 20, time.time() - 20))

    [found] = Journal.open(tmp_path, "one", "mpegts").parts

    assert found.end_reason == "worker_died"
    assert found.seconds == pytest.approx(40.0, abs=0.5)


@pytest.mark.paced
def test_a_correction_moves_the_times_of_the_part_being_written(tmp_path: Path) -> None:
    """R-23: the part began when it began, although the clock was wrong at that moment."""
    with capture(tmp_path, TEST) as worker:
        worker.wait_for(frames=25)
        before = worker.status()
        clock = before["clock"]
        station_at = datetime.fromisoformat(clock["station_at"]) - timedelta(seconds=100)
        worker.ask("/clock", body={"boot_seconds": clock["boot_seconds"], "station_at": station_at.isoformat()})
        final = worker.stop()

    [first], [part] = before["parts"], final["parts"]
    assert seconds_between(first["started_at"], part["started_at"]) == pytest.approx(-100.0, abs=0.01)
    assert seconds_between(first["first_frame_at"], part["first_frame_at"]) == pytest.approx(-100.0, abs=0.5)
    assert part["seconds"] == pytest.approx(seconds_between(part["first_frame_at"], part["last_frame_at"]), abs=1.0)


@pytest.mark.paced
def test_files_are_split_by_the_station_s_time_on_a_node_with_another_time(tmp_path: Path) -> None:
    """R-16, R-23: ffmpeg splits by the clock of its machine, which is 27.5 s behind here."""
    station_at = datetime.now(UTC) + timedelta(seconds=27.5)
    with capture(tmp_path, TEST, split_seconds=EVERY, station_at=station_at) as worker:
        worker.wait_for(frames=25 * EVERY * 2)
        parts = worker.stop()["parts"]

    assert len(parts) >= 2
    for part in parts[1:]:  # the encoder holds a frame for a second before it writes it
        past = datetime.fromisoformat(part["first_frame_at"]).timestamp() % EVERY
        assert past < 1.5 or past > EVERY - 1.5, part
