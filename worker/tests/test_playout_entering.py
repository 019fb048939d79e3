"""A recording that is still being written, entered in the middle: the picture asked for is the first one."""

import json
import time
from pathlib import Path

import pytest

from testing.counted import RATE, numbers_in, pattern
from testing.playing import make_clip, playout
from worker.playout.entering import TICKS, WRAP, Key, Transport, find_entry

pytestmark = pytest.mark.paced

SECONDS = 60
# As the recorder writes them, but with few key frames.
WRITTEN = {
    "one-001.ts": ("-g", "100", "-f", "mpegts"),
    "one-001.mp4": ("-g", "100", "-f", "mp4", "-movflags", "frag_keyframe+empty_moov+default_base_moof"),
}


def recorded(folder: Path, name: str) -> Path:
    """Nobody has said yet that it ended."""
    path = folder / "take" / name
    path.parent.mkdir()
    make_clip(path, pattern(), SECONDS, *WRITTEN[name])
    part = {"number": 1, "file": name, "bytes": path.stat().st_size, "seconds": 0.0, "ended_at": None}
    (folder / "take" / "one.json").write_text(json.dumps({"parts": [part]}))
    return path


@pytest.mark.parametrize("name", WRITTEN)
def test_a_growing_recording_is_joined_at_its_right_place(tmp_path: Path, name: str) -> None:
    """P-07, P-09: right item, right offset; not about there, and not by decoding an hour of it first."""
    recorded(tmp_path, name)
    item = {"key": "g", "kind": "growing", "title": "From the court", "journal": "take/one.json", "in": 39.2}
    with playout(tmp_path, [item]) as worker:
        worker.wait_for(state="playing", ticks=75)
        worker.stop()
    shown = [number for number in numbers_in(tmp_path / "out.ts") if number < SECONDS * RATE]
    first = next(place for place, number in enumerate(shown) if 900 < number < 1100)  # bars before it read as anything
    assert shown[first] == pytest.approx(39.2 * RATE, abs=3)
    assert shown[first : first + 25] == list(range(shown[first], shown[first] + 25))


@pytest.mark.parametrize("name", WRITTEN)
def test_an_entry_is_a_key_frame_before_it(tmp_path: Path, name: str) -> None:
    path = recorded(tmp_path, name)
    content = path.read_bytes()
    began = time.monotonic()
    entries = [find_entry(path, seconds) for seconds in (0.0, 3.9, 4.1, 30.0, 59.9, 500.0)]
    assert time.monotonic() - began < 5
    starts = [entry.start if entry else -1 for entry in entries]
    assert starts[0] == starts[1] == len(entries[0].head if entries[0] else b"")
    assert starts[1] < starts[2] < starts[3] < starts[4] == starts[5]
    for entry in entries:
        assert entry is not None
        assert content.startswith(entry.head)
    assert entries[3] is not None
    assert entries[0] is not None
    assert entries[3].at - entries[0].at == pytest.approx(30.0, abs=0.001)


def test_what_cannot_be_entered_says_so(tmp_path: Path) -> None:
    for content in (b"", b"not media" * 5000, b"\x47" * 188 * 9, b"\0\0\0\x10moofxxxxmfhd" * 99):
        for name in WRITTEN:
            path = tmp_path / name
            path.write_bytes(content)
            assert find_entry(path, 10.0) is None


def test_the_clock_of_a_transport_stream_begins_again(tmp_path: Path) -> None:
    """A week in one file: its time stamps have 33 bits."""
    (tmp_path / "x.ts").write_bytes(b"")
    with (tmp_path / "x.ts").open("rb") as file:
        container = Transport(file)
    before, after = Key(0, (WRAP - 9000) / TICKS), Key(188, 0.4)
    assert container.between(before, after) == pytest.approx(0.5)
    assert container.between(after, before) == 0.0
