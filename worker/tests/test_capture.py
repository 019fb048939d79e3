"""The capture program with real ffmpeg: it records, recovers, ends, and reports correctly."""

import os
import signal
import subprocess
import time
import urllib.error
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import TOKEN, capture, seconds_between
from testing.media import decode, snapshot
from testing.processes import command_of
from testing.waiting import wait_until

pytestmark = pytest.mark.paced

TEST = {"type": "test", "url": "", "size": "160x90"}


def test_a_recording_is_playable_while_it_grows_and_after_a_stop(tmp_path: Path) -> None:
    """R-16: the growing file is readable; SIGTERM leaves a playable file and exit code 0."""
    with capture(tmp_path, TEST) as worker:
        status = worker.wait_for(state="recording", frames=50)
        assert status["signal"] is True
        assert status["last_frame_age_seconds"] < 3
        [path] = worker.files()
        assert decode(snapshot(path)) > 0

        final = worker.stop()

    assert worker.process.returncode == 0
    assert final["state"] == "done"
    assert [part["end_reason"] for part in final["parts"]] == ["stopped"]
    assert final["bytes"] == path.stat().st_size
    assert abs(decode(path) - final["frames"]) <= 2


def test_a_fragmented_mp4_is_readable_after_a_kill(tmp_path: Path) -> None:
    """R-16: even though the file was not closed."""
    with capture(tmp_path, TEST, container="fmp4") as worker:
        worker.wait_for(frames=120)
        [path] = worker.files()
        worker.process.kill()
        worker.process.wait()

    assert path.suffix == ".mp4"
    assert decode(path) > 25


def test_a_capture_ends_by_itself_at_its_end_time(tmp_path: Path) -> None:
    """R-08: the media worker stops without a command."""
    ends_at = datetime.now(UTC) + timedelta(seconds=10)
    with capture(tmp_path, TEST, ends_at=ends_at.isoformat()) as worker:
        final = worker.wait_end()

    assert worker.process.returncode == 0
    assert final["parts"][0]["end_reason"] == "ended"
    late = seconds_between(ends_at.isoformat(), final["parts"][0]["ended_at"])
    assert 0 <= late < 5


def test_a_running_capture_accepts_a_new_end_time(tmp_path: Path) -> None:
    """R-12: extend and shorten work on a live recording."""
    with capture(tmp_path, TEST, ends_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat()) as worker:
        worker.wait_for(state="recording")
        soon = datetime.now(UTC) + timedelta(seconds=1)
        assert worker.ask("/end", body={"ends_at": soon.isoformat()})["ends_at"].startswith(soon.isoformat()[:19])
        assert worker.wait_end()["parts"][0]["end_reason"] == "ended"


def test_the_status_needs_the_token(tmp_path: Path) -> None:
    with capture(tmp_path, TEST) as worker:
        worker.wait_for(state="recording")
        for token in ("", "wrong", TOKEN + "x"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                worker.ask(token=token)
            assert refused.value.code == 401
            refused.value.close()
        for path in ("/", "/preview/../../etc/passwd", "/status/"):
            with pytest.raises(urllib.error.HTTPError) as missing:
                worker.ask(path)
            assert missing.value.code == 404
            missing.value.close()


@pytest.mark.alone
def test_a_killed_ffmpeg_is_replaced_within_3_seconds_as_a_new_part_with_a_gap(tmp_path: Path) -> None:
    """R-15: the same recording gets a new part, and the gap is recorded."""
    with capture(tmp_path, TEST) as worker:
        worker.wait_for(state="recording", frames=50)
        killed_at = datetime.now(UTC).isoformat()
        os.kill(worker.recorder_pid(), signal.SIGKILL)
        wait_until(lambda: len(worker.status()["parts"]) == 2 and worker.status()["gaps"], 20, "a second part")
        status = worker.wait_for(state="recording")
        final = worker.stop()

    [gap] = status["gaps"]
    assert gap["reason"] == "ffmpeg_died"
    assert abs(seconds_between(killed_at, gap["from_at"])) < 1
    assert gap["seconds"] < 3
    assert [part["number"] for part in final["parts"]] == [1, 2]
    assert all(decode(path) > 0 for path in worker.files())


def test_a_frozen_ffmpeg_is_replaced_after_15_seconds(tmp_path: Path) -> None:
    """R-15: no progress for 15 s counts as stalled."""
    with capture(tmp_path, TEST) as worker:
        worker.wait_for(state="recording", frames=25)
        pid = worker.recorder_pid()
        os.kill(pid, signal.SIGSTOP)
        worker.wait_for(state="no_signal")
        assert worker.status()["signal"] is False
        wait_until(lambda: len(worker.status()["parts"]) == 2, 40, "a second part")
        status = worker.wait_for(state="recording")

    assert status["parts"][0]["end_reason"] == "stalled"
    [gap] = status["gaps"]
    assert 14 < gap["seconds"] < 22


def test_ffmpeg_ends_with_a_killed_media_worker_and_the_next_one_continues_the_part_numbers(tmp_path: Path) -> None:
    with capture(tmp_path, TEST) as first:
        first.wait_for(state="recording", frames=40)
        ffmpeg_pid = first.recorder_pid()
        first.process.kill()
        first.process.wait()
        wait_until(lambda: "tee" not in command_of(ffmpeg_pid), 5, "ffmpeg is gone")
    with capture(tmp_path, TEST) as second:
        status = second.wait_for(state="recording", frames=60)

    assert [part["number"] for part in status["parts"]] == [1, 2]
    assert status["parts"][0]["end_reason"] == "worker_died"
    assert len(status["gaps"]) == 1
    assert status["gaps"][0]["seconds"] > 0.2


def test_the_preview_has_a_still_and_a_playlist_and_is_deleted_at_the_end(tmp_path: Path) -> None:
    with capture(tmp_path, TEST, preview="live/one") as worker:
        folder = tmp_path / "live" / "one"
        wait_until(lambda: (folder / "frame.jpg").exists() and (folder / "index.m3u8").exists(), 30, "a preview")
        assert worker.ask("/preview/frame.jpg")[:3] == b"\xff\xd8\xff"
        assert b"#EXTM3U" in worker.ask("/preview/index.m3u8")
        worker.stop()

    assert not folder.exists()


def test_a_killed_preview_does_not_affect_the_recording(tmp_path: Path) -> None:
    with capture(tmp_path, TEST, preview="live/one") as worker:
        worker.wait_for(state="recording", frames=25)
        previews = wait_until(lambda: worker.preview_pids(), 20, "the preview runs")
        for pid in previews:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not set(previews) & set(worker.preview_pids()), 10, "the preview has ended")
        frames = worker.status()["frames"]
        status = worker.wait_for(frames=frames + 50)

    assert len(status["parts"]) == 1
    assert status["gaps"] == []


def test_too_little_disk_space_ends_the_capture_with_its_own_exit_code(tmp_path: Path) -> None:
    """R-18: the exit code distinguishes a full disk from other failures."""
    with capture(tmp_path, TEST, min_free_bytes=10**18) as worker:
        worker.wait_end()

    assert worker.process.returncode == 3


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"folder": "../outside"}, 64),
        ({"name": "a/b"}, 64),
        ({"container": "avi"}, 64),
        ({"control": {}}, 64),
    ],
)
def test_a_bad_config_is_refused(tmp_path: Path, config: dict[str, Any], code: int) -> None:
    """S-04: nothing is written outside the media folder."""
    with capture(tmp_path, TEST, **config) as worker:
        assert "bad config" in worker.wait_end()["printed"]

    assert worker.process.returncode == code
    assert list(tmp_path.iterdir()) == []


def test_a_control_port_in_use_has_its_own_exit_code(tmp_path: Path) -> None:
    with capture(tmp_path / "a", TEST) as first:
        first.wait_for(state="recording")
        control = {"owner": "x:1", "generation": 1, "token": "t", "host": "127.0.0.1", "port": first.port}
        with capture(tmp_path / "b", TEST, control=control) as second:
            second.process.wait(20)
            assert second.process.returncode == 98


def test_a_media_worker_that_gets_no_config_ends_after_15_seconds(tmp_path: Path) -> None:
    """If the scheduler is killed before it sends the config, no waiting media worker is left behind."""
    began = time.monotonic()
    process = subprocess.Popen(
        ["python3", "-m", "worker", "capture"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    try:
        assert process.wait(40) == 65
    finally:
        process.kill()
        process.communicate()
    assert time.monotonic() - began > 10
