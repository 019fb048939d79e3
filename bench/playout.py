"""Measures the cost of a channel: processor time of the media worker's process, and of all its processes vs ffmpeg."""

import subprocess
import tempfile
import time
from pathlib import Path

from bench.metric import Metric
from testing.capturing import Worker
from testing.media import environment, ffmpeg
from testing.playing import asset, make_clip, playout
from testing.processes import children_of

FORMAT = {"width": 1280, "height": 720, "rate": [25, 1]}
CLIPS, CLIP_SECONDS = 4, 10.0
WINDOW_SECONDS = 30.0


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of these processes and of their ended children."""
    total = 0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        total += sum(int(field) for field in fields[11:15])
    return total / 100


def own_seconds(pid: int) -> float:
    """User and system time of this process alone, without its children."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _spent_by_us(worker: Worker) -> tuple[float, float]:
    """Processor seconds over the window: (media worker's process, all processes)."""
    worker.wait_for(state="playing", ticks=100)
    pid = worker.process.pid
    own, whole = own_seconds(pid), cpu_seconds([pid, *children_of(pid)])
    time.sleep(WINDOW_SECONDS)
    return own_seconds(pid) - own, cpu_seconds([pid, *children_of(pid)]) - whole


def _spent_by_ffmpeg(media: Path, names: list[str]) -> float:
    """`ffmpeg -re -f concat` with the same list and the same encoder settings, to a file."""
    listing = media / "list.txt"
    listing.write_text("".join(f"file '{media / name}'\n" for name in names * 3))
    command = [ffmpeg(), "-y", "-loglevel", "error", "-nostdin", "-re", "-f", "concat", "-safe", "0"]
    command += ["-i", str(listing)]
    command += ["-c:v", "libx264", "-preset", "veryfast", "-g", "25", "-bf", "2", "-b:v", "4M", "-maxrate", "4M"]
    command += ["-bufsize", "4M", "-c:a", "aac", "-b:a", "192k", "-f", "mpegts", str(media / "plain.ts")]
    process = subprocess.Popen(command, env=environment())
    try:
        time.sleep(4)
        before = cpu_seconds([process.pid])
        time.sleep(WINDOW_SECONDS)
        return cpu_seconds([process.pid]) - before
    finally:
        process.kill()
        process.wait()


def measure_playout() -> list[Metric]:
    with tempfile.TemporaryDirectory(prefix="airlock-bench-") as folder:
        media = Path(folder)
        names = [f"{number}.mp4" for number in range(CLIPS)]
        for name in names:
            make_clip(media / name, "testsrc2=size=1280x720:rate=25", CLIP_SECONDS)
        items = [asset(str(number), name, seconds=CLIP_SECONDS) for number, name in enumerate(names)]
        with playout(media, items, loop=True, format=FORMAT, video_bitrate="4M") as worker:
            own, whole = _spent_by_us(worker)
            status = worker.stop()
        plain = _spent_by_ffmpeg(media, names)
    method = f"720p25, 4 Mbit/s, {CLIPS} clips in a loop, window of {WINDOW_SECONDS:.0f} s, no preview; "
    detail = f"dropped {status['dropped']}, repeated {status['repeats']}"
    percent, ratio = 100 * own / WINDOW_SECONDS, whole / plain
    return [
        Metric("playout_python_cpu_percent", round(percent, 2), "%", "under 10", 1, method + detail),
        Metric(
            "playout_total_cpu_ratio_to_ffmpeg",
            round(ratio, 3),
            "x",
            "none",
            1,
            f"{method}all processes {whole:.1f} s of processor time, ffmpeg -re -f concat {plain:.1f} s",
        ),
    ]
