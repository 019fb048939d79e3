"""What a recording of a foreign sender holds, and what its media worker says about it."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testing.media import environment, ffmpeg


@dataclass(frozen=True)
class Held:
    """What the files of a recording hold, by decoding them."""

    frames: int
    sound_seconds: float
    errors: str

    @property
    def seconds(self) -> float:
        return self.frames / 25


def decoded(paths: list[Path]) -> Held:
    """Decode all files: frames of the first picture, seconds of the first sound, and what ffmpeg complains about."""
    frames, sound, errors = 0, 0.0, []
    for path in paths:
        command = [ffmpeg(), "-nostdin", "-v", "error", "-i", str(path), "-map", "0:v:0?", "-map", "0:a:0?"]
        command += ["-f", "null", "-progress", "pipe:1", "-stats_period", "60", "-"]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
        errors += [line for line in done.stderr.splitlines() if line.strip()]
        told = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        frames += int(told.get("frame", 0))
        sound += _sound_seconds(path)
    return Held(frames, sound, "\n".join(errors))


def _sound_seconds(path: Path) -> float:
    command = [ffmpeg(), "-nostdin", "-v", "error", "-i", str(path), "-map", "0:a:0?", "-ar", "48000", "-ac", "1"]
    done = subprocess.run([*command, "-f", "s16le", "-"], env=environment(), capture_output=True, check=False)
    return len(done.stdout) / 2 / 48000


def gap_seconds(status: dict[str, Any]) -> float:
    """The sum of the gaps the media worker reports."""
    return sum(float(gap["seconds"]) for gap in status["gaps"])


def mediainfo(path: Path) -> list[dict[str, Any]]:
    """The tracks as mediainfo sees them."""
    done = subprocess.run(["mediainfo", "--Output=JSON", str(path)], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout)["media"]["track"])
