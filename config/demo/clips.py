"""Makes the clips of the demo channel with ffmpeg; a job, so that `manage.py up` does not wait for them."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from assets.files.locations import imports_dir
from assets.files.sandboxed_ffmpeg import ffmpeg_binary
from assets.models import Asset, AssetPart
from assets.processing import steps
from jobs.definitions.job_decorator import job
from jobs.definitions.run_context import RunContext
from playout.models import Playlist, PlaylistItem
from station.clock import database_now
from station.folders import IMPORTS_FOLDER

JOB = "demo.clips"
SECONDS = 20
# Picture and sound of each clip: ffmpeg's own test patterns.
CLIPS = {
    "Demo moving pattern": ("testsrc2=size=640x360:rate=25", "sine=frequency=440:sample_rate=48000"),
    "Demo colour wheel": ("rgbtestsrc=size=640x360:rate=25,hue=H=2*PI*t/10", "sine=frequency=330:sample_rate=48000"),
    "Demo universe": ("mandelbrot=size=640x360:rate=25:maxiter=300", "sine=frequency=220:sample_rate=48000"),
}


@dataclass(frozen=True)
class ClipsOrder:
    """The playlist that gets the clips."""

    playlist_id: int


@job(JOB, title="Make the demo channel's clips", payload=ClipsOrder, isolation="process", timeout_seconds=600)
def make_clips(run: RunContext, order: ClipsOrder) -> dict[str, int]:
    """Make each clip once: clips of an interrupted run are found by their title."""
    playlist = Playlist.objects.filter(pk=order.playlist_id).first()
    if playlist is None:
        return {"made": 0}
    folder = imports_dir() / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    for position, (title, (picture, sound)) in enumerate(CLIPS.items()):
        run.report(100 * position / len(CLIPS), title)
        if playlist.items.filter(title="", asset__title=title).exists():
            continue
        path = folder / f"{title.lower().replace(' ', '-')}.mp4"
        _make(path, picture, sound)
        _file(playlist, title, path, position)
    return {"made": playlist.items.count()}


def _make(path: Path, picture: str, sound: str) -> None:
    binary = ffmpeg_binary()
    draft = path.with_suffix(".new.mp4")
    command = [binary.path, "-y", "-loglevel", "error", "-nostdin", "-f", "lavfi", "-i", picture]
    command += ["-f", "lavfi", "-i", sound, "-t", str(SECONDS), "-c:v", "libx264", "-preset", "veryfast"]
    command += ["-pix_fmt", "yuv420p", "-b:v", "1200k", "-c:a", "aac", "-ac", "2", "-threads", "1", str(draft)]
    subprocess.run(command, env=binary.environment(), check=True, timeout=300, preexec_fn=_be_nice)
    draft.chmod(0o644)
    draft.rename(path)


def _be_nice() -> None:
    os.nice(15)


def _file(playlist: Playlist, title: str, path: Path, position: int) -> None:
    now = database_now()
    asset = Asset.objects.create(
        state=Asset.State.PROCESSING,
        state_since_at=now,
        project=playlist.project,
        title=title,
        origin=Asset.Origin.IMPORT,
        created_at=now,
        created_by="demo",
        size_bytes=path.stat().st_size,
        duration_seconds=SECONDS,
        part_count=1,
    )
    asset.events.create(at=now, old="", new=asset.state, by="demo", note="made for the demo channel")
    relative = f"{IMPORTS_FOLDER}/{path.relative_to(imports_dir())}"
    AssetPart.objects.create(asset=asset, number=1, path=relative, size_bytes=asset.size_bytes, seconds=SECONDS)
    PlaylistItem.objects.create(playlist=playlist, position=position, asset=asset)
    steps.order(asset, steps.FIRST, now=now, by="demo")
