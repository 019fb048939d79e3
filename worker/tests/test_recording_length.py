"""A recording ends at its end time, whatever the transport and container."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import capture, seconds_between
from testing.counted import RATE, counted_sender, numbers_in
from testing.media import decode, free_port, sender

pytestmark = [pytest.mark.paced, pytest.mark.alone]
END_SECONDS = 0.2


@pytest.mark.parametrize("container", ["mpegts", "fmp4"])
def test_the_last_frame_is_the_one_sent_at_the_end_time(tmp_path: Path, container: str) -> None:
    """R-13, R-16: neither too long nor too short, and the file is closed properly."""
    port = free_port(socket.SOCK_DGRAM)
    ends_at = datetime.now(UTC) + timedelta(seconds=6)
    source = {"type": "udp", "url": f"udp://127.0.0.1:{port}"}
    with (
        counted_sender(port, 60) as sent,
        capture(tmp_path, source, container=container, ends_at=ends_at.isoformat()) as worker,
    ):
        final = worker.wait_end()
    [path] = worker.files()
    last = sent.began_at + numbers_in(path)[-1] / RATE
    assert abs(last - ends_at.timestamp()) < END_SECONDS
    assert final["parts"][0]["end_reason"] == "ended"
    assert abs(seconds_between(ends_at.isoformat(), final["parts"][0]["last_frame_at"])) < 2 * END_SECONDS


@pytest.mark.parametrize("kind", ["srt", "rtmp", "rtp"])
def test_a_recording_ends_on_time(tmp_path: Path, kind: str) -> None:
    """R-13: ffmpeg ends at once when it is asked to."""
    port = free_port() // 2 * 2
    sources: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
        "srt": (
            {"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=listener"},
            ("-f", "mpegts", f"srt://127.0.0.1:{port}?mode=caller"),
        ),
        "rtmp": (
            {"type": "rtmp", "url": f"rtmp://127.0.0.1:{port}/live/key", "options": {"listen": "1"}},
            ("-f", "flv", f"rtmp://127.0.0.1:{port}/live/key"),
        ),
        "rtp": (
            {"type": "rtp", "url": f"rtp://127.0.0.1:{port}"},
            ("-f", "rtp_mpegts", f"rtp://127.0.0.1:{port}?pkt_size=1316"),
        ),
    }
    source, output = sources[kind]
    ends_at = datetime.now(UTC) + timedelta(seconds=10)
    with capture(tmp_path, source, ends_at=ends_at.isoformat()) as worker:
        worker.wait_for(state="no_signal")  # it listens
        with sender(*output):
            final = worker.wait_end()
    ended_at = final["parts"][0]["ended_at"]
    assert -0.05 < seconds_between(ends_at.isoformat(), ended_at) < 2 * END_SECONDS
    assert decode(worker.files()[0]) > 2 * RATE
