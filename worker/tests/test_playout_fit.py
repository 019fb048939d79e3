"""Clips of another shape than the channel: bars, cropped or stretched."""

import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from testing.media import environment, ffmpeg
from worker.media.ffmpeg import Binary
from worker.playout.inputs.decoder_process import Feed, _outputs
from worker.wire.picture import Format

WIDTH, HEIGHT = 320, 180
SHAPES = {
    "4:3": ["color=white:size=144x108:rate=25", "setsar=1"],
    "vertical": ["color=white:size=90x160:rate=25", "setsar=1"],
    "wider": ["color=white:size=320x120:rate=25", "setsar=1"],
    "anamorphic": ["color=white:size=144x144:rate=25", "setsar=16/9"],
    "interlaced": ["color=white:size=160x90:rate=25", "interlace=lowpass=0,fieldorder=tff"],
}


CASES = [*((shape, "pad") for shape in SHAPES), ("4:3", "crop"), ("wider", "crop"), ("vertical", "stretch")]


@pytest.mark.parametrize(("shape", "fit"), CASES)
def test_a_clip_of_another_shape_is_fitted(shape: str, fit: str, either_ffmpeg: Binary, tmp_path: Path) -> None:
    """P-09: every frame has the channel's size; only `pad` shows black."""
    source, filters = SHAPES[shape]
    clip = tmp_path / "clip.mkv"
    make = [ffmpeg(), "-y", "-loglevel", "error", "-f", "lavfi", "-i", source, "-t", "0.4", "-vf", filters]
    subprocess.run([*make, "-c:v", "mpeg4", "-q:v", "2", str(clip)], env=environment(), check=True)
    arguments = _outputs(Feed([]), Format(WIDTH, HEIGHT, Fraction(25), fit), {"v": 1})
    command = [either_ffmpeg.path, "-nostdin", "-loglevel", "error", "-i", str(clip), *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, check=True)
    size = WIDTH * HEIGHT * 3 // 2
    assert len(done.stdout) >= 5 * size
    assert len(done.stdout) % size == 0
    row = done.stdout[WIDTH * (HEIGHT // 2) : WIDTH * (HEIGHT // 2) + WIDTH]
    column = done.stdout[WIDTH // 2 : WIDTH * HEIGHT : WIDTH]
    has_pillars, has_letterbox = row[2] < 60, column[2] < 60
    expected = {"4:3": (True, False), "vertical": (True, False), "wider": (False, True)}.get(shape, (False, False))
    assert (has_pillars, has_letterbox) == (expected if fit == "pad" else (False, False))
    assert row[WIDTH // 2] > 200
