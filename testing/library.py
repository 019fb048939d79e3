"""Media files and assets for tests: small, made with ffmpeg, with known contents."""

import subprocess
from pathlib import Path
from typing import Any

from assets.models import Asset, AssetPart
from station.clock import database_now
from testing.media import environment, ffmpeg

TONE = "aevalsrc=0.0707946*sin(2*PI*1000*t)|0.0707946*sin(2*PI*1000*t):s=48000"  # -23 dBFS on both channels


def make(path: Path, *arguments: str) -> Path:
    """Run ffmpeg to make a file; fails with its error messages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [ffmpeg(), "-hide_banner", "-loglevel", "error", "-nostdin", "-y", *arguments, str(path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return path


def make_clip(
    path: Path, seconds: float = 2.0, *, size: str = "320x180", rate: int = 25, extra: tuple[str, ...] = ()
) -> Path:
    """A moving picture with a tone, H.264 and AAC; the container follows from the file name."""
    return make(
        path,
        *("-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}:duration={seconds}"),
        *("-f", "lavfi", "-i", f"{TONE}:d={seconds}"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-pix_fmt", "yuv420p", "-c:a", "aac", *extra),
    )


def make_tone(path: Path, seconds: float = 10.0) -> Path:
    return make(path, "-f", "lavfi", "-i", f"{TONE}:d={seconds}", "-c:a", "pcm_s24le")


def make_troubled(path: Path) -> Path:
    """12 s: picture and tone, black from 3 to 5, silence from 6 to 8, a frozen picture from 8 to 11."""
    picture = (
        "testsrc2=size=320x180:rate=25:duration=12[moving];"
        "color=black:size=320x180:rate=25:duration=12[black];"
        "[moving]split[m1][m2];[m2]select=eq(n\\,200),loop=loop=-1:size=1,setpts=N/25/TB,trim=duration=12[still];"
        "[m1][black]overlay=enable='between(t,3,4.99)'[a];[a][still]overlay=enable='between(t,8,10.99)'[v]"
    )
    sound = "aevalsrc='if(between(t,6,8),0,0.1*sin(2*PI*440*t))':s=48000:d=12[s]"
    return make(
        path,
        *("-filter_complex", f"{picture};{sound}", "-map", "[v]", "-map", "[s]", "-t", "12"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-crf", "10", "-pix_fmt", "yuv420p", "-c:a", "aac"),
    )


def make_asset(settings: Any, project: Any, *files: Path, **fields: Any) -> Asset:
    """An asset in state processing, with these files in the library's folder. Nothing is queued."""
    now = database_now()
    given = {"state": Asset.State.PROCESSING, "state_since_at": now, "created_at": now, "title": "A clip", **fields}
    asset = Asset.objects.create(project=project, origin=Asset.Origin.IMPORT, part_count=len(files), **given)
    for number, path in enumerate(files, start=1):
        relative = path.relative_to(settings.RECORDINGS_DIR)
        AssetPart.objects.create(asset=asset, number=number, path=str(relative), size_bytes=path.stat().st_size)
    return asset
