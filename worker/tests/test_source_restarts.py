"""A source whose clock jumps or that starts again: recorded on at once, and what is missing is counted right."""

import socket
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import Worker, capture, seconds_between
from testing.media import free_port
from testing.transport_streams import Piece, Sent, length_of, make_stream, sending

pytestmark = [pytest.mark.paced, pytest.mark.alone]
WRAP_SECONDS = (1 << 33) / 90_000  # the clock of a transport stream starts again after 26 hours
SLACK_SECONDS = 0.5


def record(tmp_path: Path, *pieces: Piece, kind: str = "udp") -> tuple[Worker, Sent, dict[str, Any]]:
    """Record all pieces, to the end of the last."""
    port = free_port(socket.SOCK_DGRAM) // 2 * 2
    media = tmp_path / "media"
    media.mkdir()
    with capture(media, {"type": kind, "url": f"{kind}://127.0.0.1:{port}"}) as worker:
        worker.wait_for(state="connecting")
        with sending(port, *pieces, rtp=kind == "rtp") as sent:
            assert sent.is_over.wait(60)
            return worker, sent, worker.stop()


@pytest.mark.parametrize("kind", ["udp", "rtp"])
@pytest.mark.parametrize("second", [5.0, 60_000.0])
def test_a_jump_of_the_sources_clock_does_not_change_the_length(tmp_path: Path, kind: str, second: float) -> None:
    """R-15: 8 s are 8 s, forwards and backwards."""
    pieces = [Piece(make_stream(tmp_path, 4, starts_at=start), 4) for start in (20_000.0, second)]
    worker, _, final = record(tmp_path, *pieces, kind=kind)
    [part] = final["parts"]
    assert final["gaps"] == []
    assert abs(length_of(worker.files()[0]) - 8) < 2 * SLACK_SECONDS
    assert abs(part["seconds"] - 8) < 2 * SLACK_SECONDS
    assert abs(seconds_between(part["first_frame_at"], part["last_frame_at"]) - 8) < 2 * SLACK_SECONDS


def test_the_clock_of_a_transport_stream_may_start_again_after_26_hours(tmp_path: Path) -> None:
    """R-15."""
    worker, _, final = record(tmp_path, Piece(make_stream(tmp_path, 6, starts_at=WRAP_SECONDS - 3), 6))
    assert abs(length_of(worker.files()[0]) - 6) < 2 * SLACK_SECONDS
    assert abs(final["seconds"] - 6) < 2 * SLACK_SECONDS
    assert final["gaps"] == []


@pytest.mark.parametrize("kind", ["udp", "rtp"])
@pytest.mark.parametrize("burst", [0.0, 2.0])
def test_an_encoder_that_starts_again_costs_only_its_own_pause(tmp_path: Path, kind: str, burst: float) -> None:
    """R-15: the gap is as long as nothing was sent, also if the encoder then sends two seconds at once."""
    first = Piece(make_stream(tmp_path, 3), 3)
    again = Piece(make_stream(tmp_path, 6), 6, pause_seconds=3, burst_seconds=burst)
    _, sent, final = record(tmp_path, first, again, kind=kind)
    [gap] = final["gaps"]
    assert abs(gap["seconds"] - (sent.began[1] - sent.ended[0])) < SLACK_SECONDS
    first_at, last_at = final["parts"][0]["first_frame_at"], final["parts"][-1]["last_frame_at"]
    assert abs(seconds_between(first_at, last_at) - (sent.ended[1] - sent.began[0])) < 2 * SLACK_SECONDS


def test_a_source_that_returns_with_other_tracks_is_recorded_in_a_new_part(tmp_path: Path) -> None:
    """R-15: another encoder may number its tracks differently."""
    first = Piece(make_stream(tmp_path, 3), 3)
    other = Piece(make_stream(tmp_path, 7, more=("-mpegts_start_pid", "0x300")), 7, pause_seconds=1)
    _, sent, final = record(tmp_path, first, other)
    assert [part["end_reason"] for part in final["parts"]] == ["source_changed", "stopped"]
    missing = sum(gap["seconds"] for gap in final["gaps"])
    assert missing < sent.began[1] - sent.ended[0] + 3
