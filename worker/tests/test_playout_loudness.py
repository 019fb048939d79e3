"""The gain of an item is applied where it is decoded."""

import re
import subprocess
from pathlib import Path

import pytest

from testing.counted import pattern
from testing.media import environment, ffmpeg
from testing.playing import asset, ended, make_clip, playout
from testing.waiting import wait_until
from worker.media.ffmpeg import Binary
from worker.playout.inputs.decoder_process import Feed, _outputs
from worker.wire.picture import Format

TARGET = -23.0


def loudness(path: Path) -> tuple[float, list[float]]:
    """Integrated, and every momentary value above the noise."""
    command = [
        ffmpeg(),
        "-nostdin",
        "-hide_banner",
        "-i",
        str(path),
        "-map",
        "0:a:0",
        "-af",
        "ebur128",
        "-f",
        "null",
        "-",
    ]
    said = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stderr
    moments = [float(each) for each in re.findall(r" M: *(-?[\d.]+)", said)]
    return float(re.findall(r"I: +(-?[\d.]+) LUFS", said)[-1]), [each for each in moments if each > -50]


@pytest.mark.paced
def test_a_loud_and_a_soft_clip_go_out_equally_loud(tmp_path: Path) -> None:
    """P-09: -14 and -30 LUFS, both within 1 LU of the target."""
    items = []
    for number, level in enumerate((-14.0, -30.0)):
        # A stereo sine has about the loudness of its level in dB: 0 LUFS at full scale.
        sound = f"aevalsrc=exprs=pow(10\\,{level}/20)*sin(2*PI*997*t)|pow(10\\,{level}/20)*sin(2*PI*997*t)"
        make_clip(tmp_path / f"{number}.mp4", pattern(), 4.0, sound=sound)
        found, _ = loudness(tmp_path / f"{number}.mp4")
        assert abs(found - level) < 1.5
        items.append(asset(str(number), f"{number}.mp4", seconds=4.0, gain_db=TARGET - found))
    with playout(tmp_path, items) as worker:
        wait_until(lambda: len(ended(worker)) >= 2, 30, "both clips were played")
        worker.stop()
    _, moments = loudness(tmp_path / "out.ts")
    # Where one clip follows the other, or silence follows, a moment has less of it.
    near = [each for each in moments if abs(each - TARGET) <= 1.0]
    assert len(near) > 50
    assert max(moments) < TARGET + 1.0
    assert len(near) > 0.8 * len(moments)


def test_surround_sound_is_mixed_down_before_the_gain(either_ffmpeg: Binary, tmp_path: Path) -> None:
    """P-09: both versions of ffmpeg take the filters; two channels come out."""
    path = tmp_path / "surround.mka"
    make = [ffmpeg(), "-y", "-loglevel", "error", "-f", "lavfi", "-i", "anoisesrc=d=1:c=pink:a=0.3", "-ac", "6"]
    subprocess.run([*make, "-c:a", "pcm_s16le", str(path)], env=environment(), check=True)
    sizes = {}
    for gain in (0.0, -6.0):
        arguments = _outputs(Feed([], gain_db=gain), Format(320, 180, 25), {"a": 1})  # type: ignore[arg-type]
        command = [either_ffmpeg.path, "-nostdin", "-loglevel", "error", "-i", str(path), *arguments]
        done = subprocess.run(command, env=environment(), capture_output=True, check=True)
        samples = memoryview(done.stdout).cast("h")
        sizes[gain] = (len(samples), sum(abs(each) for each in samples))
    assert sizes[0.0][0] == sizes[-6.0][0] == 48_000 * 2
    assert 0.45 < sizes[-6.0][1] / sizes[0.0][1] < 0.55
