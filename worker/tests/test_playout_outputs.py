"""Outputs of a channel, received by a real ffmpeg: a failing output does not affect the others."""

import json
import re
import socket
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from testing.counted import numbers_in
from testing.media import decode, environment, ffmpeg, free_port
from testing.playing import asset, clips, playout, stamps
from testing.processes import children_of, command_of
from testing.waiting import wait_until
from worker.media.ffmpeg import Binary
from worker.playout.outputs import senders
from worker.playout.outputs.fan_out import Fan
from worker.wire.configuration import Output

pytestmark = pytest.mark.paced


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["srt", "rtmp"])
def test_a_restarted_receiver_gets_a_picture_within_5_seconds(kind: str, tmp_path: Path) -> None:
    """P-09, S-05: a failing output is retried and stops no other output; no command line contains its secret."""
    port = free_port()
    secret = {"srt": {"passphrase": "averysecretword"}, "rtmp": {"rtmp_playpath": "averysecretword"}}[kind]
    address = {"srt": f"srt://127.0.0.1:{port}", "rtmp": f"rtmp://127.0.0.1:{port}/live"}[kind]
    outputs = [
        {"key": "file", "type": "file", "url": "out.ts"},
        {"key": "far", "type": kind, "url": address, "secret": secret},
    ]
    receiver = _receive(kind, port)
    with playout(tmp_path, clips(tmp_path, 1, 60.0), outputs=outputs) as worker:
        try:
            assert _first_frame(receiver, 20) < 20
            commands = [command_of(pid) for pid in children_of(worker.process.pid)]
            assert not [command for command in commands if "averysecretword" in command]
            _kill(receiver)
            receiver = _receive(kind, port)
            took = _first_frame(receiver, 20)
        finally:
            _kill(receiver)
        status = worker.status()
        assert status["encoder_restarts"] == status["dropped"] == 0
        assert status["outputs"][0]["restarts"] == 0
        assert "averysecretword" not in json.dumps(status)
        worker.stop()
    assert took < 5.0, f"{took:.1f} s"
    assert {after - before for before, after in pairwise(stamps(tmp_path / "out.ts", "v"))} == {3600}


def test_a_listening_output_waits_for_its_caller(tmp_path: Path) -> None:
    """P-09: waiting for a caller is not an error and causes no restart."""
    port = free_port(socket.SOCK_DGRAM)
    url = f"srt://127.0.0.1:{port}?mode=listener"
    outputs = [{"key": "file", "type": "file", "url": "out.ts"}, {"key": "far", "type": "srt", "url": url}]
    with playout(tmp_path, clips(tmp_path, 1, 90.0), outputs=outputs, video_bitrate="4M") as worker:
        worker.wait_for(ticks=12 * 25)
        far = worker.status()["outputs"][1]
        assert (far["state"], far["restarts"], far["error"]) == ("waiting", 0, "")
        receiver = _receive("srt", port, mode="caller")
        try:
            _first_frame(receiver, 30)
            wait_until(lambda: worker.status()["outputs"][1]["state"] == "sending", 20, "the output is sending")
        finally:
            _kill(receiver)


@pytest.mark.parametrize("kind", ["udp", "rtp"])
def test_a_udp_or_rtp_output_is_received(kind: str, tmp_path: Path) -> None:
    """P-09: the receiver may start later than the channel."""
    port = free_port(socket.SOCK_DGRAM)
    outputs = [{"key": "far", "type": kind, "url": f"{kind}://127.0.0.1:{port}"}]
    with playout(tmp_path, clips(tmp_path, 1, 60.0), outputs=outputs) as worker:
        worker.wait_for(state="playing", ticks=50)
        receiver = _receive(kind, port)
        try:
            assert _first_frame(receiver, 60) < 60
        finally:
            _kill(receiver)
        wait_until(lambda: worker.status()["outputs"][0]["state"] == "sending", 20, "the output is sending")


def test_an_hls_output_is_a_playable_live_playlist(tmp_path: Path) -> None:
    """P-09: written to the media folder, without an end mark."""
    outputs = [{"key": "web", "type": "hls", "url": "playout/web/index.m3u8"}]
    playlist = tmp_path / "playout/web/index.m3u8"

    def segments() -> list[Path]:
        told = playlist.read_text() if playlist.exists() else ""
        assert "#EXT-X-ENDLIST" not in told
        return [playlist.parent / line for line in told.splitlines() if line and not line.startswith("#")]

    with playout(tmp_path, clips(tmp_path, 1, 90.0), outputs=outputs) as worker:
        worker.wait_for(state="playing")
        known = len(segments())
        wait_until(lambda: len(segments()) >= known + 4, 40, "segments of the clip")
        latest = segments()[-2:]
        told = playlist.read_text()
        worker.stop()
    lengths = [float(each) for each in re.findall(r"#EXTINF:([\d.]+)", told)]
    assert int(re.findall(r"#EXT-X-TARGETDURATION:(\d+)", told)[0]) >= max(round(each) for each in lengths)
    assert len(re.findall(r"#EXT-X-PROGRAM-DATE-TIME:\d{4}-", told)) == len(lengths)
    assert re.findall(r"#EXT-X-MEDIA-SEQUENCE:\d+", told)
    numbers = [number for segment in latest for number in numbers_in(segment)]
    assert len(numbers) >= 75
    assert {after - before for before, after in pairwise(numbers)} <= {0, 1}


def test_a_file_output_waits_while_disk_space_is_low_and_the_channel_continues(tmp_path: Path) -> None:
    """P-09, R-18: the remaining disk space is for recordings."""
    far_too_much = 1 << 60
    with playout(tmp_path, clips(tmp_path, 1, 30.0), min_free_bytes=far_too_much) as worker:
        status = worker.wait_for(state="playing", frames=50)
        file = status["outputs"][0]
        assert file["state"] == "waiting"
        assert "MB are free" in file["error"]
    assert not (tmp_path / "out.ts").exists()


def test_a_file_output_is_closed_properly_when_disk_space_runs_low(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-18: it continues in a new file when there is enough space again."""
    room = [10_000]
    monkeypatch.setattr(senders, "free_bytes", lambda folder: room[0])
    binary = Binary(ffmpeg(), is_static=True)
    fan = Fan()
    output = Output(key="file", type="file", url=str(tmp_path / "out.ts"))
    sender = senders.FileSender(binary, fan, output, (), 5_000)
    (tmp_path / "media").mkdir()
    with playout(tmp_path / "media", clips(tmp_path / "media", 1, 30.0)) as worker:
        worker.wait_for(state="playing", ticks=100)
        worker.stop()
    stream = (tmp_path / "media" / "out.ts").read_bytes()
    sender.start()
    try:
        wait_until(lambda: _fed(sender, fan, stream) and _size(tmp_path / "out.ts"), 20, "the file is written")
        room[0] = 1_000
        wait_until(
            lambda: "MB are free" in sender.error and sender.state == "waiting", 20, "the output waits for disk space"
        )
        assert decode(tmp_path / "out.ts") > 0
        room[0] = 10_000
        wait_until(lambda: _fed(sender, fan, stream) and _size(tmp_path / "out-002.ts"), 20, "a second file is written")
    finally:
        sender.end()
        sender.join(5)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _fed(sender: senders.FileSender, fan: Fan, stream: bytes) -> senders.FileSender:
    fan.put(stream)
    return sender


def test_secrets_of_a_list_loaded_later_are_redacted(tmp_path: Path) -> None:
    """S-05: a live source was added to the list while the channel was on air."""
    port = free_port(socket.SOCK_DGRAM)
    source = {"type": "srt", "url": f"srt://127.0.0.1:{port}/averysecretword?timeout=300000", "options": {}}
    live = {"key": "l", "kind": "live", "title": "averysecretword", "seconds": 20.0}
    with playout(tmp_path, clips(tmp_path, 1, 2.0)) as worker:
        worker.wait_for(state="playing")
        rundown = {"version": "2", "items": [asset("0", "0.mp4", seconds=2.0), live], "is_loop": False}
        worker.ask("/load", body={"rundown": rundown, "sources": {"l": source}, "redact": ["averysecretword"]})
        status = wait_until(lambda: found if (found := worker.status())["error"] else None, 40, "an error is reported")
    assert "averysecretword" not in status["error"].partition(":")[2], status["error"]


def _kill(receiver: "subprocess.Popen[str]") -> None:
    receiver.kill()
    receiver.wait()
    if receiver.stdout is not None:
        receiver.stdout.close()


def _receive(kind: str, port: int, mode: str = "listener") -> "subprocess.Popen[str]":
    secret = "&passphrase=averysecretword" if mode == "listener" else ""
    inputs = {
        "udp": ["-i", f"udp://127.0.0.1:{port}"],
        "rtp": ["-i", f"rtp://127.0.0.1:{port}"],
        "srt": ["-i", f"srt://127.0.0.1:{port}?mode={mode}{secret}"],
        "rtmp": ["-listen", "1", "-i", f"rtmp://127.0.0.1:{port}/live/averysecretword"],
    }[kind]
    command = [ffmpeg(), "-loglevel", "error", "-progress", "pipe:1", "-stats_period", "0.1", "-probesize", "200000"]
    command += ["-analyzeduration", "300000", "-fpsprobesize", "0", *inputs, "-map", "0:v:0", "-f", "null", "-"]
    return subprocess.Popen(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _first_frame(receiver: "subprocess.Popen[str]", limit: float) -> float:
    """Seconds until the receiver has decoded a frame."""
    began = time.monotonic()
    assert receiver.stdout is not None
    for line in receiver.stdout:
        name, _, value = line.strip().partition("=")
        if name == "frame" and value.isdigit() and int(value) > 0:
            return time.monotonic() - began
        assert time.monotonic() - began < limit
    raise AssertionError("the receiver ended without a picture")
