"""Two recordings of one source, the second begins when the first ends: what is lost at the border."""

import contextlib
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import Worker, capture
from testing.counted import RATE, numbers_in, pattern
from testing.media import free_port
from testing.transport_streams import Piece, make_stream, sending

pytestmark = [pytest.mark.paced, pytest.mark.alone]
GROUP = "239.255.77.7"
GOP_FRAMES = 12


@contextlib.contextmanager
def consecutive(tmp_path: Path, source: dict[str, Any], border: datetime) -> Iterator[tuple[Worker, Worker]]:
    end = (border + timedelta(seconds=4)).isoformat()
    with (
        capture(tmp_path / "a", source, ends_at=border.isoformat()) as first,
        capture(tmp_path / "b", source, begins_at=border.isoformat(), ends_at=end, follows=True) as second,
    ):
        yield first, second


def lost_frames(first: Worker, second: Worker) -> int:
    """How many frames are in neither recording. Negative: so many are in both."""
    return numbers_in(second.files()[0])[0] - numbers_in(first.files()[0])[-1] - 1


def record_both(tmp_path: Path, port: int, host: str, url: str, *, rtp: bool = False) -> int:
    stream = make_stream(tmp_path, 16, picture=pattern())
    border = datetime.now(UTC) + timedelta(seconds=7)
    source = {"type": "rtp" if rtp else "udp", "url": url}
    with sending(port, Piece(stream, 16), host=host, rtp=rtp), consecutive(tmp_path, source, border) as (first, second):
        first.wait_end()
        second.wait_end()
    return lost_frames(first, second)


@pytest.mark.parametrize("kind", ["udp", "rtp"])
def test_no_frame_is_lost_at_the_border_if_two_can_read_the_source(tmp_path: Path, kind: str) -> None:
    """R-17: a multicast group."""
    port = free_port(socket.SOCK_DGRAM) // 2 * 2
    url = f"{kind}://{GROUP}:{port}?localaddr=127.0.0.1"
    lost = record_both(tmp_path, port, GROUP, url, rtp=kind == "rtp")
    print(json.dumps({"lost": lost}))
    assert -4 * RATE < lost <= 0


@pytest.mark.parametrize("kind", ["udp", "rtp"])
def test_a_port_passes_from_one_recording_to_the_next_within_half_a_second(tmp_path: Path, kind: str) -> None:
    """R-17: a port has one reader. The next recording begins with the next key frame, half a second apart here."""
    port = free_port(socket.SOCK_DGRAM) // 2 * 2
    lost = record_both(tmp_path, port, "127.0.0.1", f"{kind}://127.0.0.1:{port}", rtp=kind == "rtp")
    print(json.dumps({"lost": lost}))
    assert 0 <= lost <= RATE / 2 + GOP_FRAMES
