"""A clap: the picture turns white in the moment in which a tone begins. How far apart they are is what lips show."""

import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

from testing.media import environment, ffmpeg

AT_SECONDS = 1.0
BRIGHT, DARK, LOUD = 220, 150, 30
QUIET_SAMPLES = 4000
SAMPLES_PER_SECOND, FRAMES_PER_SECOND = 8000, 1000


def make_clap(path: Path, *options: str) -> None:
    """Two seconds with a clap after the first one."""
    flash = "color=c=black:size=320x180:rate=25,drawbox=c=white:t=fill:enable='between(n,25,27)'"
    beep = f"aevalsrc='0.8*sin(2*PI*1000*t)*between(t,{AT_SECONDS},1.12)':s=48000"
    command = [ffmpeg(), "-y", "-loglevel", "error", "-nostdin", "-f", "lavfi", "-i", flash, "-f", "lavfi", "-i", beep]
    command += ["-t", "2", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", *options]
    subprocess.run([*command, str(path)], env=environment(), check=True, timeout=60)


def claps_in(path: Path) -> tuple[list[float], list[float]]:
    """The times at which the picture turns white and the tone begins, in seconds from the beginning of the file.

    Both are read by one ffmpeg: two would each begin to count at the beginning of their own track.
    """
    with tempfile.TemporaryDirectory() as folder:
        seen, heard = Path(folder) / "seen", Path(folder) / "heard"
        light = f"fps={FRAMES_PER_SECOND}:start_time=0,scale=1:1:flags=area,format=gray"
        sound = f"aresample={SAMPLES_PER_SECOND}:async=1:first_pts=0"
        command = [ffmpeg(), "-loglevel", "error", "-nostdin", "-i", str(path)]
        command += ["-map", "0:v:0", "-vf", light, "-f", "rawvideo", str(seen)]
        command += ["-map", "0:a:0", "-ac", "1", "-af", sound, "-f", "u8", str(heard)]
        subprocess.run(command, env=environment(), timeout=120, check=True)
        return _flashes(seen.read_bytes()), _beeps(heard.read_bytes())


def _flashes(light: bytes) -> list[float]:
    places = [place for place, (before, after) in enumerate(pairwise(light), 1) if before < DARK and after > BRIGHT]
    return [place / FRAMES_PER_SECOND for place in places]


def _beeps(sound: bytes) -> list[float]:
    found, quiet = [], QUIET_SAMPLES
    for place, level in enumerate(sound):
        if abs(level - 128) > LOUD:
            if quiet >= QUIET_SAMPLES:
                found.append(place / SAMPLES_PER_SECOND)
            quiet = 0
        else:
            quiet += 1
    return found
