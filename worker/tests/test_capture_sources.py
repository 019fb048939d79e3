"""Recording from network sources, each with a real sender: SRT, RTMP, RTSP, UDP, RTP and HLS."""

import subprocess
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import capture, seconds_between
from testing.media import ffmpeg, free_port, sender, start_sender
from testing.processes import command_of
from testing.rtsp import rtsp_server
from testing.waiting import wait_until

pytestmark = pytest.mark.paced


def assert_records(tmp_path: Path, source: dict[str, Any], frames: int = 50) -> None:
    with capture(tmp_path, source) as worker:
        worker.wait_for(state="recording", frames=frames)
        [path] = worker.files()
        worker.stop()
    assert decode_tolerant(path) >= frames // 2


def decode_tolerant(path: Path) -> int:
    """Decode a stream that may begin with a broken picture because it was joined in the middle; returns the frames."""
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


def test_an_srt_caller_keeps_its_passphrase_out_of_command_lines(tmp_path: Path) -> None:
    """S-05: `ps` shows no secret."""
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


def test_an_srt_listener_waits_for_its_caller(tmp_path: Path) -> None:
    port = free_port()
    with capture(tmp_path, {"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=listener"}) as worker:
        worker.wait_for(state="no_signal")
        with sender("-f", "mpegts", f"srt://127.0.0.1:{port}?mode=caller"):
            worker.wait_for(state="recording", frames=40)


def test_an_rtmp_listener_waits_for_its_sender(tmp_path: Path) -> None:
    port = free_port()
    source = {"type": "rtmp", "url": f"rtmp://127.0.0.1:{port}/live/key", "options": {"listen": "1"}}
    with capture(tmp_path, source) as worker:
        worker.wait_for(state="no_signal")
        with sender("-f", "flv", f"rtmp://127.0.0.1:{port}/live/key"):
            worker.wait_for(state="recording", frames=40)


def test_rtmp_is_recorded_from_a_server(tmp_path: Path) -> None:
    port = free_port()
    with sender("-f", "flv", "-listen", "1", f"rtmp://127.0.0.1:{port}/live/key"):
        assert_records(tmp_path, {"type": "rtmp", "url": f"rtmp://127.0.0.1:{port}/live/key"})


def test_rtsp_keeps_its_password_out_of_command_lines(tmp_path: Path) -> None:
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


def test_udp_is_recorded(tmp_path: Path) -> None:
    port = free_port()
    with sender("-f", "mpegts", f"udp://127.0.0.1:{port}?pkt_size=1316"):
        assert_records(tmp_path, {"type": "udp", "url": f"udp://127.0.0.1:{port}"})


def test_rtp_is_recorded(tmp_path: Path) -> None:
    port = free_port() // 2 * 2
    with sender("-f", "rtp_mpegts", f"rtp://127.0.0.1:{port}?pkt_size=1316"):
        assert_records(tmp_path, {"type": "rtp", "url": f"rtp://127.0.0.1:{port}"})


def test_hls_is_recorded_over_http(tmp_path: Path) -> None:
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


def test_a_lost_source_is_recorded_again_when_it_returns(tmp_path: Path) -> None:
    """R-15: the media worker keeps trying, and the gap has the right start and end."""
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


def test_an_hls_playlist_cannot_read_local_files(tmp_path: Path) -> None:
    """S-03: no protocol list contains file:, so a hostile playlist reads nothing."""
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
