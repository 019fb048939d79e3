"""The capture program against real ffmpeg and real streams: it records, goes on, ends, and tells the truth about it."""

import os
import signal
import subprocess
import time
import urllib.error
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import TOKEN, capture, seconds_between
from testing.media import decode, ffmpeg, free_port, sender, snapshot, start_sender
from testing.processes import command_of
from testing.rtsp import rtsp_server
from testing.waiting import wait_until

pytestmark = pytest.mark.paced

TEST = {"type": "test", "url": "", "size": "160x90"}


def test_a_test_pattern_is_recorded_and_playable_while_it_grows_and_after(tmp_path: Path) -> None:
    """R-16: readable while it grows; SIGTERM leaves a playable file and exit code 0."""
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


def test_fragmented_mp4_is_readable_while_it_grows_and_after_a_kill(tmp_path: Path) -> None:
    """R-16: also without a proper end."""
    with capture(tmp_path, TEST, container="fmp4") as worker:
        worker.wait_for(frames=120)
        [path] = worker.files()
        worker.process.kill()
        worker.process.wait()

    assert path.suffix == ".mp4"
    assert decode(path) > 25


def test_it_ends_by_itself_at_its_end_time(tmp_path: Path) -> None:
    """R-08: the worker needs nobody to stop."""
    ends_at = datetime.now(UTC) + timedelta(seconds=10)
    with capture(tmp_path, TEST, ends_at=ends_at.isoformat()) as worker:
        final = worker.wait_end()

    assert worker.process.returncode == 0
    assert final["parts"][0]["end_reason"] == "ended"
    late = seconds_between(ends_at.isoformat(), final["parts"][0]["ended_at"])
    assert 0 <= late < 5


def test_a_new_end_time_is_taken_while_it_runs(tmp_path: Path) -> None:
    """R-12: extend and shorten work on a live recording."""
    with capture(tmp_path, TEST, ends_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat()) as worker:
        worker.wait_for(state="recording")
        soon = datetime.now(UTC) + timedelta(seconds=1)
        assert worker.ask("/end", body={"ends_at": soon.isoformat()})["ends_at"].startswith(soon.isoformat()[:19])
        assert worker.wait_end()["parts"][0]["end_reason"] == "ended"


def test_status_is_only_for_who_knows_the_token(tmp_path: Path) -> None:
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


def test_a_killed_ffmpeg_is_replaced_within_3_seconds_as_a_new_part_with_a_gap(tmp_path: Path) -> None:
    """R-15: restart within 3 s, new part in the same recording, gap map."""
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
    """R-15: stalled (no progress 15 s) is restarted."""
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


def test_a_killed_worker_takes_its_ffmpeg_along_and_its_successor_continues_the_numbers(tmp_path: Path) -> None:
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


def test_preview_has_a_still_and_a_playlist_and_is_gone_afterwards(tmp_path: Path) -> None:
    with capture(tmp_path, TEST, preview="live/one") as worker:
        folder = tmp_path / "live" / "one"
        wait_until(lambda: (folder / "frame.jpg").exists() and (folder / "index.m3u8").exists(), 30, "a preview")
        assert worker.ask("/preview/frame.jpg")[:3] == b"\xff\xd8\xff"
        assert b"#EXTM3U" in worker.ask("/preview/index.m3u8")
        worker.stop()

    assert not folder.exists()


def test_a_dead_preview_does_not_touch_the_recording(tmp_path: Path) -> None:
    with capture(tmp_path, TEST, preview="live/one") as worker:
        worker.wait_for(state="recording", frames=25)
        previews = wait_until(lambda: worker.preview_pids(), 20, "the preview runs")
        for pid in previews:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not set(previews) & set(worker.preview_pids()), 10, "it is dead")
        frames = worker.status()["frames"]
        status = worker.wait_for(frames=frames + 50)

    assert len(status["parts"]) == 1
    assert status["gaps"] == []


def test_too_little_room_ends_it_cleanly_with_its_own_exit_code(tmp_path: Path) -> None:
    """R-18: disk_full is told apart."""
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
    """S-04: nothing can be written outside of the media folder."""
    with capture(tmp_path, TEST, **config) as worker:
        assert "bad config" in worker.wait_end()["printed"]

    assert worker.process.returncode == code
    assert list(tmp_path.iterdir()) == []


def test_a_taken_control_port_has_its_own_exit_code(tmp_path: Path) -> None:
    with capture(tmp_path / "a", TEST) as first:
        first.wait_for(state="recording")
        control = {"owner": "x:1", "generation": 1, "token": "t", "host": "127.0.0.1", "port": first.port}
        with capture(tmp_path / "b", TEST, control=control) as second:
            second.process.wait(20)
            assert second.process.returncode == 98


# --- Network sources: a real sender for each -------------------------------------------------------------------


def assert_records(tmp_path: Path, source: dict[str, Any], frames: int = 50) -> None:
    with capture(tmp_path, source) as worker:
        worker.wait_for(state="recording", frames=frames)
        [path] = worker.files()
        worker.stop()
    assert decode_tolerant(path) >= frames // 2


def decode_tolerant(path: Path) -> int:
    """A stream joined in the middle may begin with a broken picture; what follows must decode."""
    command = [
        ffmpeg(),
        "-nostdin",
        "-v",
        "fatal",
        "-i",
        str(path),
        "-map",
        "0:v:0",
        "-f",
        "null",
        "-progress",
        "pipe:1",
        "-",
    ]
    from testing.media import environment

    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=True)
    return max(int(line.split("=")[1]) for line in done.stdout.splitlines() if line.startswith("frame="))


def test_srt_as_caller_with_a_passphrase_that_stands_in_no_command_line(tmp_path: Path) -> None:
    """S-05: ps shows no secret."""
    port = free_port()
    secret = "a-secret-passphrase"
    with sender("-f", "mpegts", f"srt://127.0.0.1:{port}?mode=listener&passphrase={secret}"):
        url = f"srt://127.0.0.1:{port}?mode=caller&passphrase={secret}"
        with capture(tmp_path, {"type": "srt", "url": url}, secrets=[secret]) as worker:
            worker.wait_for(state="recording", frames=50)
            assert secret not in command_of(worker.recorder_pid())
            assert secret not in command_of(worker.process.pid)
            [path] = worker.files()
            worker.stop()
    assert decode_tolerant(path) > 25


def test_srt_as_listener_waits_as_long_as_it_takes(tmp_path: Path) -> None:
    port = free_port()
    with capture(tmp_path, {"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=listener"}) as worker:
        worker.wait_for(state="no_signal")
        with sender("-f", "mpegts", f"srt://127.0.0.1:{port}?mode=caller"):
            worker.wait_for(state="recording", frames=40)


def test_rtmp_as_listener(tmp_path: Path) -> None:
    port = free_port()
    source = {"type": "rtmp", "url": f"rtmp://127.0.0.1:{port}/live/key", "options": {"listen": "1"}}
    with capture(tmp_path, source) as worker:
        worker.wait_for(state="no_signal")
        with sender("-f", "flv", f"rtmp://127.0.0.1:{port}/live/key"):
            worker.wait_for(state="recording", frames=40)


def test_rtmp_from_a_server(tmp_path: Path) -> None:
    port = free_port()
    with sender("-f", "flv", "-listen", "1", f"rtmp://127.0.0.1:{port}/live/key"):
        assert_records(tmp_path, {"type": "rtmp", "url": f"rtmp://127.0.0.1:{port}/live/key"})


def test_rtsp_with_a_password_that_stands_in_no_command_line(tmp_path: Path) -> None:
    """S-05."""
    secret = "cam-secret-4711"
    login = b64encode(f"user:{secret}".encode()).decode()
    with rtsp_server(login) as port:
        source = {"type": "rtsp", "url": f"rtsp://user:{secret}@127.0.0.1:{port}/stream"}
        source["options"] = {"rtsp_transport": "tcp", "timeout": "10000000"}
        with capture(tmp_path, source, secrets=[secret]) as worker:
            worker.wait_for(state="recording", frames=50)
            assert secret not in command_of(worker.recorder_pid())
            [path] = worker.files()
            worker.stop()
    assert decode_tolerant(path) > 25


def test_udp(tmp_path: Path) -> None:
    port = free_port()
    with sender("-f", "mpegts", f"udp://127.0.0.1:{port}?pkt_size=1316"):
        assert_records(tmp_path, {"type": "udp", "url": f"udp://127.0.0.1:{port}"})


def test_rtp(tmp_path: Path) -> None:
    port = free_port() // 2 * 2
    with sender("-f", "rtp_mpegts", f"rtp://127.0.0.1:{port}?pkt_size=1316"):
        assert_records(tmp_path, {"type": "rtp", "url": f"rtp://127.0.0.1:{port}"})


def test_hls_over_http(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    port = free_port()
    command = ["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(site)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with sender("-f", "hls", "-hls_time", "1", "-hls_list_size", "5", str(site / "index.m3u8")):
            wait_until(lambda: len(list(site.glob("*.ts"))) > 2, 20, "segments")
            assert_records(tmp_path / "media", {"type": "hls", "url": f"http://127.0.0.1:{port}/index.m3u8"})
    finally:
        server.kill()
        server.wait()


def test_a_lost_source_is_picked_up_again_when_it_returns(tmp_path: Path) -> None:
    """R-15: signal loss is not a fault of the node; keep trying; the gap has the right edges."""
    port = free_port()
    output = ("-f", "mpegts", f"srt://127.0.0.1:{port}?mode=listener")
    first = start_sender(*output)
    try:
        with capture(tmp_path, {"type": "srt", "url": f"srt://127.0.0.1:{port}"}) as worker:
            worker.wait_for(state="recording", frames=50)
            first.kill()
            first.wait()
            lost_at = datetime.now(UTC)
            worker.wait_for(state="no_signal")
            with sender(*output):
                wait_until(lambda: worker.status().get("gaps"), 40, "the source is back")
                back = datetime.now(UTC)
                [gap] = worker.status()["gaps"]
    finally:
        first.kill()
        first.wait()
    assert abs(seconds_between(lost_at.isoformat(), gap["from_at"])) < 2
    assert abs(seconds_between(back.isoformat(), gap["to_at"])) < 3
    assert gap["reason"] == "source_lost"


def test_a_playlist_from_outside_cannot_reach_the_disk(tmp_path: Path) -> None:
    """S-03: file: is in no protocol list, so a hostile playlist gets nothing."""
    site = tmp_path / "site"
    site.mkdir()
    secret = tmp_path / "secret.ts"
    subprocess.run(
        [ffmpeg(), "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25", "-t", "3", str(secret)],
        check=True,
    )
    lines = ["#EXTM3U", "#EXT-X-TARGETDURATION:3", "#EXTINF:3,", f"file://{secret}", "#EXT-X-ENDLIST", ""]
    (site / "index.m3u8").write_text("\n".join(lines))
    port = free_port()
    command = ["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(site)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with capture(tmp_path / "media", {"type": "hls", "url": f"http://127.0.0.1:{port}/index.m3u8"}) as worker:
            status = wait_until(lambda: (worker.status().get("restarts", 0) >= 2) and worker.status(), 40, "two tries")
            assert status["frames"] == 0
            assert worker.files() == [] or all(path.stat().st_size == 0 for path in worker.files())
    finally:
        server.kill()
        server.wait()


def test_the_worker_without_a_controller_gives_up_after_15_seconds(tmp_path: Path) -> None:
    """A controller killed before it handed over the config leaves no waiting worker behind."""
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
