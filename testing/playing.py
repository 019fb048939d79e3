"""A playout media worker as a plain process, driven by a test without a control plane; and clips to check it with."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testing.capturing import TOKEN, Worker
from testing.counted import pattern
from testing.media import environment, ffmpeg, free_port
from testing.processes import ROOT
from worker.wire.configuration import Control, write_handover

FORMAT = {"width": 320, "height": 180, "rate": [25, 1]}


@contextlib.contextmanager
def playout(media: Path, items: list[dict[str, Any]], **config: Any) -> Iterator[Worker]:
    """Play these items until the block ends; the output is `out.ts` unless `outputs` is given."""
    port = free_port()
    environment = config.pop("environment", {})
    rundown = {"version": "1", "items": items, "is_loop": config.pop("loop", False)}
    rundown |= {"begins_at": config.pop("begins_at", None)}
    control = Control("channel:1", config.pop("generation", 1), TOKEN, "127.0.0.1", port)
    given = {
        "format": FORMAT,
        "outputs": [{"key": "file", "type": "file", "url": "out.ts"}],
        "video_bitrate": "800k",
        "spool": "playout/channel-1",
        "rundown": rundown,
        **config,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "worker", "playout"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "AIRLOCK_MEDIA": str(media),
            "AIRLOCK_FFMPEG_FALLBACK": ffmpeg(),
            "PYTHONUNBUFFERED": "1",
            **environment,
        },
    )
    assert process.stdin is not None
    process.stdin.write(write_handover(control, given) + "\n")
    process.stdin.flush()
    worker = Worker(process, port, media)
    try:
        yield worker
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def asset(key: str, file: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "kind": "asset", "title": f"clip {key}", "file": file, **more}


def clips(media: Path, count: int, seconds: float = 2.0) -> list[dict[str, Any]]:
    """Clips in the channel's format, with numbered frames."""
    for number in range(count):
        make_clip(media / f"{number}.mp4", pattern(), seconds)
    return [asset(str(number), f"{number}.mp4", seconds=seconds) for number in range(count)]


def make_clip(path: Path, picture: str, seconds: float, *more: str, sound: str = "sine=frequency=440") -> None:
    """Make a file from ffmpeg's own patterns."""
    command = [ffmpeg(), "-y", "-loglevel", "error", "-nostdin", "-f", "lavfi", "-i", picture]
    command += ["-f", "lavfi", "-i", f"{sound}:sample_rate=48000"] if sound else []
    command += ["-t", str(seconds), "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"]
    subprocess.run([*command, *more, str(path)], env=environment(), check=True, timeout=120)


def asrun(worker: Worker, since: int = 0) -> list[dict[str, Any]]:
    """The as-run entries of the media worker, in order."""
    found: list[dict[str, Any]] = []
    try:
        while True:
            answer = worker.ask(f"/asrun?since={since}")
            found += answer["entries"]
            since = answer["revision"]
            if answer["is_all"]:
                return sorted(found, key=lambda entry: (entry["generation"], entry["seq"]))
    except OSError:  # it is not up yet
        return []


def ended(worker: Worker) -> list[tuple[str, str]]:
    """(key, reason) of every item of the list that has ended."""
    return [(entry["key"], entry["reason"]) for entry in asrun(worker) if entry["ended_at"] and entry["key"]]


def stamps(path: Path, stream: str) -> list[int]:
    """Presentation times of all packets of a stream (90 kHz), in order."""
    command = [ffmpeg(), "-loglevel", "error", "-nostdin", "-copyts", "-i", str(path), "-map", f"0:{stream}:0"]
    command += ["-c", "copy", "-f", "framehash", "-hash", "crc32", "-"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines() if line and not line.startswith("#")]
    return sorted(int(row[2]) for row in rows)
