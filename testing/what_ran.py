"""What really ran on a node, told by the node and not by our rows: which media workers began, and who lived then."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import imageio_ffmpeg

from testing.waiting import wait_until

# Marks each start of ffmpeg with its media worker (the parent, whose folder is the container's name), and with the
# other media workers of the same booking that live at that moment. Then it becomes ffmpeg.
MARKING_FFMPEG = """#!/bin/sh
case "$*" in *-version*) exec {ffmpeg} "$@" ;; esac
name=$(tr '\\0' '\\n' < /proc/$PPID/cmdline | sed -n 's,^.*/\\(airlock-[^/]*\\)$,\\1,p')
booking=${{name%-g*}}-g
rivals=$(sed -n "s/^$booking[0-9]* \\([0-9]*\\) .*/\\1/p" {marks} | sort -u | while read -r pid; do
    if [ "$pid" != "$PPID" ] && tr '\\0' ' ' 2>/dev/null < "/proc/$pid/cmdline" | grep -q "$booking"; then
        printf '%s,' "$pid"
    fi
done)
echo "$name $PPID ${{rivals:--}}" >> {marks}
exec env GCONV_PATH=/dev/null {ffmpeg} "$@"
"""


@dataclass(frozen=True)
class Began:
    """A media worker that began, and the other media workers of its owner that lived at that moment."""

    name: str
    rivals: str

    @property
    def owner(self) -> str:
        """`booking:12` of `airlock-1a2b3c4d-booking-12-g1`."""
        kind, pk, _ = self.name.split("-")[2:]
        return f"{kind}:{pk}"


class Processes:
    """Media workers of the process runtime, by the ffmpegs they start."""

    def __init__(self, folder: Path) -> None:
        self._marks = folder / "began"
        self._marks.touch()
        self.ffmpeg = folder / "ffmpeg"
        real = shutil.which("ffmpeg") or imageio_ffmpeg.get_ffmpeg_exe()
        self.ffmpeg.write_text(MARKING_FFMPEG.format(ffmpeg=real, marks=self._marks))
        self.ffmpeg.chmod(0o755)

    def began(self) -> list[Began]:
        """A media worker that starts ffmpeg again is named once."""
        found: dict[tuple[str, str], set[str]] = {}
        for line in self._marks.read_text().splitlines():
            name, pid, rivals = line.split()
            found.setdefault((name, pid), set()).update(rivals.strip("-,").split(",") if rivals != "-" else ())
        return [Began(name, ",".join(sorted(rivals))) for (name, _), rivals in sorted(found.items())]


class Containers:
    """Media workers of a Docker Engine, by its events."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def began(self) -> list[Began]:
        found, living = [], set[str]()
        for line in self._log.read_text().splitlines():
            action, name = line.split()
            if action == "die":
                living.discard(name)
            elif action == "start" and "-booking-" in name:
                rivals = [each for each in living if each.rpartition("-")[0] == name.rpartition("-")[0]]
                found.append(Began(name, ",".join(rivals)))
                living.add(name)
        return found


@contextmanager
def engine_events(address: str, log: Path) -> Iterator[Containers]:
    """Follow what the engine reports about containers."""
    command = ["docker", "-H", address, "events", "--filter", "type=container"]
    command += [
        "--filter",
        "event=start",
        "--filter",
        "event=die",
        "--format",
        "{{.Action}} {{.Actor.Attributes.name}}",
    ]
    with log.open("wb") as handle:
        process = subprocess.Popen(command, stdout=handle, stderr=subprocess.STDOUT)
    try:
        _wait_until_it_listens(address, log)
        yield Containers(log)
    finally:
        process.terminate()
        process.wait()


def _wait_until_it_listens(address: str, log: Path) -> None:
    """Make events until one arrives."""
    docker = ["docker", "-H", address]
    from testing.engines import IMAGE

    def is_heard() -> bool:
        command = [*docker, "run", "--rm", "--network", "none", "--entrypoint", "true", "--name", "listening", IMAGE]
        subprocess.run(command, capture_output=True, check=True, timeout=60)
        return "start listening" in log.read_text()

    wait_until(is_heard, 30, "the engine's events are heard")
