"""Sound that comes later than its picture, as in fragmented files and from encoders: all of it is sent, in sync.

A script takes the place of ffmpeg and behaves like version 5: one thread writes picture and sound in the order in which
they come, and waits while a pipe is full. Later versions read ahead, so they would not show the problem tested here.
"""

import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

from worker.media.ffmpeg import Binary
from worker.playout.inputs.decoder import Decoder
from worker.playout.inputs.decoder_process import Feed
from worker.playout.picture import SAMPLE_BYTES
from worker.wire.picture import SAMPLE_RATE, Format

pytestmark = pytest.mark.paced

RATE = 50
PICTURE = Format(640, 360, Fraction(RATE))
PRETENDER = """#!{python}
import os, sys, time

video, sound = (int(each.partition(":")[2]) for each in sys.argv if each.startswith("pipe:"))
frame, piece, rate = b"x" * {frame_bytes}, b"y" * {piece_bytes}, {rate}


def write(fd, data):
    while data:
        data = data[os.write(fd, data):]


for kind, words in (("video", "iskey:1 type:I"), ("audio", "fmt:fltp channels:2 rate:48000")):
    print(f"[Parsed_showinfo_0 @ 0x1] n:   0 pts:      0 pts_time:0 {{words}}", file=sys.stderr, flush=True)
behind = int({behind} * rate)
began = time.monotonic()
for number in range({seconds} * rate + behind):
    if {is_live}:
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        if number < {seconds} * rate:
            write(video, frame)
        if number >= behind:
            write(sound, piece)
    elif number % behind == 0 and number < {seconds} * rate:
        write(video, frame * behind)
        write(sound, piece * behind)
"""


def ticks_with_sound(folder: Path, *, behind: float, is_live: bool, seconds: int = 5) -> tuple[int, int]:
    """(ticks, ticks with sound) of a decoder that is read at the speed of the pacer."""
    script = folder / "ffmpeg.py"
    script.write_text(
        PRETENDER.format(
            python=sys.executable,
            frame_bytes=PICTURE.frame_bytes,
            piece_bytes=SAMPLE_RATE // RATE * SAMPLE_BYTES,
            rate=RATE,
            behind=behind,
            seconds=seconds,
            is_live=is_live,
        )
    )
    script.chmod(0o755)
    decoder = Decoder(Binary(str(script), is_static=False), PICTURE, Feed(["-i", "x"], is_live=is_live))
    try:
        return _take_all(decoder, seconds, is_live=is_live)
    finally:
        decoder.end()


def _take_all(decoder: Decoder, seconds: int, *, is_live: bool) -> tuple[int, int]:
    deadline = time.monotonic() + 30
    while not decoder.is_ready:
        assert time.monotonic() < deadline, decoder.words()
        if is_live and decoder.is_overfull:
            decoder.catch_up()
        time.sleep(0.005)
    began, ticks, heard = time.monotonic(), 0, 0
    while ticks < (seconds - 1) * RATE:
        time.sleep(max(0.0, began + ticks / RATE - time.monotonic()))
        if is_live and decoder.is_overfull:
            decoder.catch_up()
        taken = decoder.take(SAMPLE_RATE // RATE)
        if taken.is_end:
            break
        if taken.frame is None:  # a busy machine; the pacer would repeat the last frame
            began += 1 / RATE
            continue
        ticks += 1
        heard += taken.sound == b"y" * len(taken.sound)
    return ticks, heard


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffer as few frames as with 1080p50."""
    monkeypatch.setattr("worker.playout.inputs.decoder.BUFFER_BYTES", 21 * PICTURE.frame_bytes)


@pytest.mark.parametrize("behind", [0.02, 0.5, 1.0, 1.4])
def test_late_sound_of_a_file_is_complete(tmp_path: Path, behind: float) -> None:
    """P-09: a fragment holds a second of picture and then its sound."""
    ticks, heard = ticks_with_sound(tmp_path, behind=behind, is_live=False)
    assert ticks == 200
    assert heard == ticks


@pytest.mark.parametrize("behind", [0.02, 0.4, 0.9, 1.3])
def test_late_sound_of_a_live_source_is_complete(tmp_path: Path, behind: float) -> None:
    """P-09: encoders send the sound up to a second later."""
    ticks, heard = ticks_with_sound(tmp_path, behind=behind, is_live=True)
    assert ticks > 100
    assert heard >= ticks - 10  # only 80 ms are held back: on a busy machine a tick may come before its sound
