"""Media for tests: senders that send a test pattern over the network, and a decoder that fails on any error."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import imageio_ffmpeg

from testing.processes import ROOT


def ffmpeg() -> str:
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def debian_ffmpeg(folder: Path) -> str | None:
    """A program in `folder` that runs the ffmpeg of the media worker image (5.1); None if the image was not made.

    Its libraries are outside the folders a sandbox allows, so it cannot open items.
    """
    base = ROOT / ".cache/docker/base"
    if not (base / "usr/bin/ffmpeg").exists():
        return None
    found = [each for each in (base / "usr/lib").glob("*-linux-gnu") if each.is_dir()]
    folders = [each / name for each in found for name in (".", "pulseaudio", "blas", "lapack")]
    loader = next((base / "lib64").glob("ld-linux-*.so.*"), None) or next((base / "lib").glob("ld-linux-*.so.*"))
    program = folder / "ffmpeg-of-the-image"
    paths = ":".join(str(each) for each in [*folders, *(base / "lib").glob("*-linux-gnu")])
    program.write_text(f'#!/bin/sh\nexec {loader} --library-path {paths} {base}/usr/bin/ffmpeg "$@"\n')
    program.chmod(0o755)
    return str(program)


def environment() -> dict[str, str]:
    return {**os.environ, "GCONV_PATH": os.devnull}  # see worker.media.ffmpeg


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def sender(*output: str, seconds: int = 120, size: str = "320x180") -> Iterator["subprocess.Popen[bytes]"]:
    """Run an ffmpeg that sends a test pattern in real time to `output` (its arguments from -f on)."""
    process = start_sender(*output, seconds=seconds, size=size)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def start_sender(*output: str, seconds: int = 120, size: str = "320x180") -> "subprocess.Popen[bytes]":
    command = [ffmpeg(), "-loglevel", "error", "-nostdin", "-re", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate=25"]
    command += ["-f", "lavfi", "-i", "sine=frequency=1000:sample_rate=48000", "-t", str(seconds)]
    command += ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25", "-pix_fmt", "yuv420p"]
    command += ["-c:a", "aac", *output]
    return subprocess.Popen(
        command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def decode(path: Path) -> int:
    """Decode the whole file; fails on any error message. Returns the number of frames.

    A growing file may end in the middle of a packet; use `snapshot` for one.
    """
    command = [ffmpeg(), "-nostdin", "-v", "error", "-i", str(path), "-map", "0:v:0", "-map", "0:a:0?"]
    command += ["-f", "null", "-progress", "pipe:1", "-"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr
    frames = [int(line.split("=")[1]) for line in done.stdout.splitlines() if line.startswith("frame=")]
    return frames[-1] if frames else 0


def snapshot(path: Path) -> Path:
    """A copy of a growing MPEG-TS file as it is now, cut at a packet border as a reader would."""
    content = path.read_bytes()
    copy = path.with_name(f"snapshot-{path.name}")
    copy.write_bytes(content[: len(content) // 188 * 188])
    return copy
