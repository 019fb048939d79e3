"""Recordings split by the clock: files begin at round times, no frame is lost, no existing file is overwritten."""

import os
import signal
import socket
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import Worker, capture, seconds_between
from testing.counted import counted_sender, numbers_in
from testing.media import decode, free_port
from testing.waiting import wait_until
from worker.capture.journal import Journal
from worker.capture.splitting import Splitter, Take

pytestmark = pytest.mark.paced

TEST = {"type": "test", "url": "", "size": "160x90"}
EVERY = 4
EDGE_FRAMES = 20  # the sender's key frames are 12 frames apart, and its sound is 5 frames ahead


def parts_of(worker: Worker, count: int) -> list[dict[str, Any]]:
    """Wait until the recording has this many parts, and return them."""
    return wait_until(
        lambda: found if len(found := worker.status().get("parts", [])) >= count else None, 60, f"{count} parts"
    )


def seconds_past(part: dict[str, Any], offset: int = 0) -> float:
    """Seconds between a round time and the first frame of the file."""
    return (datetime.fromisoformat(part["first_frame_at"]).timestamp() + offset) % EVERY


@pytest.mark.alone  # ffmpeg reports the edges by the clock; with other recordings on the same machine they are late
@pytest.mark.parametrize("container", ["mpegts", "fmp4"])
def test_files_begin_at_round_times_and_no_frame_is_lost_between_them(tmp_path: Path, container: str) -> None:
    """R-16: every frame number that the source sent is there once, in order."""
    port = free_port(socket.SOCK_DGRAM)
    source = {"type": "udp", "url": f"udp://127.0.0.1:{port}"}
    with counted_sender(port, 60), capture(tmp_path, source, container=container, split_seconds=EVERY) as worker:
        parts_of(worker, 4)
        final = worker.stop()

    parts = final["parts"]
    assert worker.process.returncode == 0
    assert [part["number"] for part in parts] == list(range(1, len(parts) + 1))
    assert [part["end_reason"] for part in parts] == ["split"] * (len(parts) - 1) + ["stopped"]
    assert final["gaps"] == []
    assert [path.name for path in worker.files()] == [part["file"] for part in parts]
    numbers = [number for path in worker.files() for number in numbers_in(path)]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    for path, part in zip(worker.files(), parts, strict=True):
        # ffmpeg 7 does not count the frames it copies: at the edges the lead of the sound and the wait for the first
        # key frame count as picture. Cuts between parts are exact.
        is_edge = part["number"] in {1, len(parts)}
        assert abs(decode(path) - part["frames"]) <= (EDGE_FRAMES if is_edge else 1), part
        assert part["bytes"] == path.stat().st_size
    for before, after in pairwise(parts):
        assert before["last_frame_at"] == after["first_frame_at"]
    for part in parts[1:]:  # the next key frame comes within half a second, and is reported within another
        assert seconds_past(part) < 1.5 or seconds_past(part) > EVERY - 1, part


def test_files_are_split_by_house_time_not_utc(tmp_path: Path) -> None:
    """R-16: the offset to UTC need not be a multiple of the split length."""
    with capture(tmp_path, TEST, split_seconds=EVERY, split_offset_seconds=20_702) as worker:
        parts = parts_of(worker, 3)

    for part in parts[1:]:  # the encoder holds a frame for a second before it writes it
        assert seconds_past(part, 2) < 1.5 or seconds_past(part, 2) > EVERY - 1.5, part


def test_after_a_killed_ffmpeg_the_recording_continues_with_the_next_number(tmp_path: Path) -> None:
    """R-15, R-16: there is one gap, and the new ffmpeg uses the number that was reserved for the killed one."""
    with capture(tmp_path, TEST, split_seconds=EVERY) as worker:
        parts_of(worker, 2)
        os.kill(worker.recorder_pid(), signal.SIGKILL)
        parts_of(worker, 5)
        final = worker.stop()

    reasons = [part["end_reason"] for part in final["parts"]]
    assert [part["number"] for part in final["parts"]] == list(range(1, len(reasons) + 1))
    assert reasons.count("ffmpeg_died") == 1
    assert set(reasons) == {"split", "ffmpeg_died", "stopped"}
    assert [gap["reason"] for gap in final["gaps"]] == ["ffmpeg_died"]
    assert [path.name for path in worker.files()] == [part["file"] for part in final["parts"]]


def test_an_existing_file_is_not_overwritten_by_a_split(tmp_path: Path) -> None:
    """R-16, R-21: two media workers on one storage never write to the same file; the second uses another number."""
    folder = tmp_path / "take"
    folder.mkdir()
    (folder / "one-003.ts").write_bytes(b"another's recording")
    with capture(tmp_path, TEST, split_seconds=EVERY) as worker:
        wait_until(
            lambda: any(part["number"] > 3 for part in worker.status().get("parts", [])), 40, "a part after number 3"
        )
        final = worker.stop()

    assert (folder / "one-003.ts").read_bytes() == b"another's recording"
    assert 3 not in [part["number"] for part in final["parts"]]
    assert "number_taken" in [part["end_reason"] for part in final["parts"]]
    assert all(seconds_between(gap["from_at"], gap["to_at"]) < 10 for gap in final["gaps"])


def test_the_next_media_worker_continues_the_parts_of_a_killed_one(tmp_path: Path) -> None:
    """R-11, R-16: the first parts are not changed, and all parts are one recording."""
    with capture(tmp_path, TEST, split_seconds=EVERY) as worker:
        parts_of(worker, 2)
        worker.process.kill()
        worker.process.wait()
    kept = {path.name: path.stat().st_size for path in worker.files() if path.stat().st_size}
    with capture(tmp_path, TEST, split_seconds=EVERY) as worker:
        parts_of(worker, len(kept) + 2)
        final = worker.stop()

    files = {part["file"]: part["bytes"] for part in final["parts"]}
    assert kept.items() <= files.items()
    assert [gap["reason"] for gap in final["gaps"]] == ["worker_died"]


def test_known_parts_are_not_reported_again(tmp_path: Path) -> None:
    """R-16: a split week has thousands of parts. Totals include all parts; the final status lists only unknown ones."""
    with capture(tmp_path, TEST, split_seconds=EVERY) as worker:
        parts_of(worker, 3)
        some = worker.ask("/status?parts_after=2")
        assert min(part["number"] for part in some["parts"]) == 3
        assert some["frames"] > sum(part["frames"] for part in some["parts"])
        final = worker.stop()

    assert min(part["number"] for part in final["parts"]) == 3


def test_numbers_reserved_by_a_killed_media_worker_are_skipped(tmp_path: Path) -> None:
    """R-11, R-16: it died before its first byte and left one empty file in its journal and one outside it."""
    folder = tmp_path / "take"
    journal = Journal.open(folder, "one", "mpegts")
    first = journal.begin(1, datetime.now(UTC))
    assert journal.reserve(first.number + 1)
    with capture(tmp_path, TEST, split_seconds=EVERY) as worker:
        worker.wait_for(state="recording", frames=25)
        final = worker.stop()

    numbers = [part["number"] for part in final["parts"]]
    assert final["restarts"] == 0
    assert numbers == list(range(3, 3 + len(numbers)))  # a round time may have passed while it recorded
    assert numbers


def test_a_storage_error_at_a_split_does_not_end_the_recording(tmp_path: Path, monkeypatch: Any) -> None:
    """R-18: the current file continues, and the next number is reserved later."""
    journal = Journal.open(tmp_path, "one", "mpegts")
    part = journal.begin(1, datetime.now(UTC))

    def refuse(number: int) -> bool:
        raise OSError("stale file handle")

    with monkeypatch.context() as broken:
        broken.setattr(journal, "reserve", refuse)
        splitter = Splitter(journal, part, EVERY, 0)
        assert splitter.can_go_on
    take = Take(part, None)  # type: ignore[arg-type]
    assert splitter.go_over(take) is take
    assert (tmp_path / "one-002.ts").exists()
    splitter.end(take)
    assert not (tmp_path / "one-002.ts").exists()
