"""A source or server that refuses our secret: the operator reads one sentence, not ffmpeg's messages."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from testing.capturing import capture
from testing.media import free_port, start_sender
from testing.rtsp import rtsp_server
from testing.waiting import wait_until
from worker.media.ffmpeg import Binary
from worker.media.refusals import CREDENTIALS, DIFFERENT, ONE_SIDED, WRONG_PLACE, refusal_in

pytestmark = pytest.mark.paced


def test_a_recorder_that_waits_for_its_caller_names_a_wrong_passphrase(either_ffmpeg: Binary, tmp_path: Path) -> None:
    """R-15: at once, while it goes on waiting for the right one; then it records."""
    port = free_port(socket.SOCK_DGRAM)
    source = {"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=listener&passphrase=averysecretword", "options": {}}
    chosen = {"AIRLOCK_FFMPEG": either_ffmpeg.path}
    with capture(tmp_path, source, secrets=["averysecretword"], environment=chosen) as worker:
        worker.wait_for(state="connecting")
        caller = start_sender("-f", "mpegts", f"srt://127.0.0.1:{port}?passphrase=wrongwrongwrong")
        caller.wait()
        status = worker.wait_for(state="no_signal", error=DIFFERENT)
        assert status["restarts"] == 0
        caller = start_sender("-f", "mpegts", f"srt://127.0.0.1:{port}?passphrase=averysecretword")
        try:
            worker.wait_for(state="recording", error="")
        finally:
            caller.kill()
            caller.wait()


def test_a_recorder_that_calls_names_a_missing_passphrase(either_ffmpeg: Binary, tmp_path: Path) -> None:
    """R-15: the other side has one and we do not."""
    port = free_port(socket.SOCK_DGRAM)
    sending = start_sender("-f", "mpegts", f"srt://127.0.0.1:{port}?mode=listener&passphrase=averysecretword")
    source = {"type": "srt", "url": f"srt://127.0.0.1:{port}", "options": {}}
    try:
        with capture(tmp_path, source, environment={"AIRLOCK_FFMPEG": either_ffmpeg.path}) as worker:
            wait_until(lambda: ONE_SIDED in worker.status().get("error", ""), 20, "the refusal is reported")
    finally:
        sending.kill()
        sending.wait()


@pytest.fixture(params=[401, 403, 404])
def refusing_server(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(request.param)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port, request.param
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_an_hls_server_that_refuses_is_named(
    refusing_server: tuple[int, int], either_ffmpeg: Binary, tmp_path: Path
) -> None:
    """R-15: refused, or not there."""
    port, answer = refusing_server
    words = WRONG_PLACE["hls"] if answer == 404 else CREDENTIALS["hls"]
    source = {"type": "hls", "url": f"http://127.0.0.1:{port}/live.m3u8", "options": {}}
    with capture(tmp_path, source, environment={"AIRLOCK_FFMPEG": either_ffmpeg.path}) as worker:
        wait_until(lambda: words in worker.status().get("error", ""), 20, "the refusal is reported")


def test_an_rtsp_server_that_refuses_is_named(either_ffmpeg: Binary, tmp_path: Path) -> None:
    """R-15: a wrong password."""
    with rtsp_server("bm9ib2R5Om5vdGhpbmc=") as port:
        source = {"type": "rtsp", "url": f"rtsp://user:wrongword@127.0.0.1:{port}/live", "options": {}}
        source["options"] = {"rtsp_transport": "tcp", "timeout": "5000000"}
        chosen = {"AIRLOCK_FFMPEG": either_ffmpeg.path}
        with capture(tmp_path, source, secrets=["wrongword"], environment=chosen) as worker:
            wait_until(lambda: CREDENTIALS["rtsp"] in worker.status().get("error", ""), 20, "the refusal is reported")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[rtmp @ 0x1] Server error: [ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : ", "refuses"),
        ("[rtmp @ 0x1] Server error: NetConnection.Connect.Rejected", "refuses"),
        ("[rtmp @ 0x1] Server error: Authentication failed", "refuses"),
        ("[rtmp @ 0x1] Server error: NetStream.Publish.BadName", "refuses"),
        ("[rtmp @ 0x1] Server error: No such stream; NetStream.Play.StreamNotFound", "does not know"),
        ("[rtmp @ 0x1] Cannot open connection tcp://127.0.0.1:1935", ""),
    ],
)
def test_what_rtmp_servers_say_is_put_in_words(line: str, words: str) -> None:
    """P-09, R-15: servers differ; anything else is shown as ffmpeg says it."""
    found = refusal_in([line], "rtmp")
    assert words in found
    assert bool(found) is bool(words)
