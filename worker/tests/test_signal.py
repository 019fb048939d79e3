"""Detection of the signal: sound without a picture, and a card's own bars, mean no signal. Radio needs no picture.

A script takes the place of ffmpeg and prints what ffmpeg would print, so that a test can "pull the cable" of a card.
"""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import capture
from testing.waiting import wait_until
from worker.capture import probe
from worker.wire.configuration import ProbeConfig, Source

pytestmark = pytest.mark.paced

UDP = {"type": "udp", "url": "udp://127.0.0.1:9"}
CARD = {"type": "decklink", "url": "0"}
PACKET_BYTES = 188
PRETENDER = """#!{python}
import pathlib, sys, time

folder = pathlib.Path({folder!r})
if "-sources" in sys.argv:
    print("  81:8a7b [DeckLink Duo (1)]")
    raise SystemExit
if "-version" in sys.argv:
    raise SystemExit
target = sys.argv[-1].partition("]")[2]


def say(text):
    print(text, file=sys.stderr, flush=True)


say("  Stream #0:0: Audio: aac, 48000 Hz, stereo")
if not (folder / "no-video").exists():
    say("  Stream #0:1: Video: h264, yuv420p, 160x90, 25 fps, 25 tbr")
frames, seconds, before = 0, 0.0, ""
while True:
    time.sleep(0.1)
    mode = (folder / "mode").read_text()
    if mode != before and mode == "pulled":
        say("[decklink @ 0x55] Frame received (#7) - No input signal detected - Frames dropped 1")
    if before == "pulled" and mode != before:
        say("[decklink @ 0x55] Frame received (#9) - Input returned - Frames dropped 2")
    before, seconds = mode, seconds + 0.1
    frames += 0 if mode == "sound" else 3
    if target:
        with open(target, "ab") as file:
            file.write(b"x" * 188)
    print(f"frame={{frames}}\\nout_time_us={{int(seconds * 1e6)}}\\nprogress=continue", flush=True)
"""


class Pretended:
    """A fake ffmpeg with a source that the test controls: picture, sound (alone), pulled (a card that sends bars)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "ffmpeg.py"
        self.path.write_text(PRETENDER.format(python=sys.executable, folder=str(folder)))
        self.path.chmod(0o755)
        self.send("picture")

    def send(self, mode: str) -> None:
        draft = self.folder / "mode.new"
        draft.write_text(mode)
        os.replace(draft, self.folder / "mode")

    @property
    def environment(self) -> dict[str, str]:
        return {"AIRLOCK_FFMPEG": str(self.path)}


@pytest.fixture
def pretended(tmp_path: Path) -> Pretended:
    return Pretended(tmp_path)


@pytest.mark.parametrize(("source", "mode"), [(UDP, "sound"), (CARD, "pulled")], ids=["sound alone", "cable pulled"])
def test_a_lost_picture_is_no_signal_and_a_gap_although_data_still_arrives(
    pretended: Pretended, tmp_path: Path, source: dict[str, Any], mode: str
) -> None:
    """R-15: bars, or sound without a picture, do not count as recorded; the gap ends when the picture returns."""
    with capture(tmp_path, source, environment=pretended.environment) as worker:
        worker.wait_for(state="recording", frames=10)
        pretended.send(mode)
        lost = worker.wait_for(state="no_signal")
        assert (lost["signal"], lost["error"]) == (False, "the source sends no picture")
        pretended.send("picture")
        worker.wait_for(state="recording")
        [gap] = wait_until(lambda: worker.status()["gaps"], 10, "the gap is reported")
        status = worker.status()
        assert (status["signal"], status["error"]) == (True, "")
        assert len(status["parts"]) == 1
    assert gap["reason"] == "no_signal"
    assert gap["seconds"] >= 3


@pytest.mark.parametrize(("source", "mode"), [(UDP, "sound"), (CARD, "pulled")], ids=["sound alone", "cable pulled"])
def test_a_picture_that_does_not_return_is_a_gap_at_the_end(
    pretended: Pretended, tmp_path: Path, source: dict[str, Any], mode: str
) -> None:
    """R-15: data written after the picture was lost does not make the recording complete."""
    with capture(tmp_path, source, environment=pretended.environment) as worker:
        worker.wait_for(state="recording", frames=10)
        pretended.send(mode)
        lost = worker.wait_for(state="no_signal")
        # A machine that stands still looks the same at first. Wait until data was written without a picture.
        worker.wait_for(state="no_signal", bytes=lost["bytes"] + 5 * PACKET_BYTES)
        final = worker.stop()
    [gap] = final["gaps"]
    assert gap["reason"] == "no_signal"
    assert gap["seconds"] >= 3


def test_a_source_without_a_picture_stream_is_recorded(pretended: Pretended, tmp_path: Path) -> None:
    """R-15, R-19: for radio a missing picture is no gap."""
    (tmp_path / "no-video").touch()
    pretended.send("sound")
    with capture(tmp_path, UDP, environment=pretended.environment) as worker:
        status = worker.wait_for(state="recording", seconds=2.0)
        final = worker.stop()
    assert status["signal"] is True
    assert status["first_frame_at"]
    assert final["gaps"] == []
    assert final["parts"][0]["last_frame_at"] > final["parts"][0]["first_frame_at"]


@pytest.mark.parametrize(
    ("mode", "words"), [("picture", ""), ("pulled", "the card has no signal"), ("sound", "no picture within 4 s")]
)
def test_the_pre_flight_check_tells_bars_from_a_picture(
    pretended: Pretended, monkeypatch: pytest.MonkeyPatch, mode: str, words: str
) -> None:
    """R-20."""
    monkeypatch.setenv("AIRLOCK_FFMPEG", str(pretended.path))
    pretended.send(mode)
    assert probe.look(ProbeConfig(Source(type="decklink", url="0"), 4.0), []) == words
