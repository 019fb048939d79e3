"""Docker Engines for the tests: several on one machine act as several nodes. Tests start, freeze and kill them by pid.

Each has its own folders and socket, no bridge and no firewall rules; containers use the host's network. The image of
the media worker comes from a file that `.ci/image` builds, so that no registry is needed.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from testing.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "docker"
IMAGE = "airlock-worker:test"
IMAGE_FILE = CACHE / "worker.tar"


def why_unavailable() -> str:
    """Empty if Docker tests can run here, else what is missing."""
    if os.geteuid() != 0:
        return "Docker tests start their own engines, which needs root"
    if not shutil.which("dockerd") or not shutil.which("docker"):
        return "no dockerd on this machine (.ci/install installs it)"
    if not IMAGE_FILE.exists():
        return "no image of the media worker (.ci/image builds it)"
    return ""


@dataclass
class Engine:
    """One dockerd. `socket` is its address; `pid` changes with a restart."""

    name: str
    run_dir: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="airlock-engine-")))
    process: "subprocess.Popen[bytes] | None" = None
    # A prefix of its command, which runs it in another network (testing.network).
    inside: list[str] = field(default_factory=list)

    @property
    def data_root(self) -> Path:
        return CACHE / f"engine-{self.name}"

    @property
    def socket(self) -> Path:
        return self.run_dir / "docker.sock"

    @property
    def address(self) -> str:
        return f"unix://{self.socket}"

    def start(self, *extra: str) -> None:
        self.data_root.mkdir(parents=True, exist_ok=True)
        (self.run_dir / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)
        (self.run_dir / "pid").unlink(missing_ok=True)
        command = [
            *self.inside,
            "dockerd",
            "--data-root",
            str(self.data_root),
            "--exec-root",
            str(self.run_dir / "exec"),
        ]
        command += ["--pidfile", str(self.run_dir / "pid"), "-H", self.address, "--live-restore"]
        command += ["--bridge=none", "--iptables=false", "--ip6tables=false", *extra]
        with (self.run_dir / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_until(self.answers, 60, f"engine {self.name} answers")

    def answers(self) -> bool:
        return self.docker("version", "--format", "{{.Server.Version}}", check=False, timeout=10).returncode == 0

    def load_image(self) -> None:
        wanted = (CACHE / "worker.stamp").read_text()
        mark = self.data_root / "loaded.stamp"
        if (
            mark.exists()
            and mark.read_text() == wanted
            and self.docker("image", "inspect", IMAGE, check=False).returncode == 0
        ):
            return
        self.docker("load", "--input", str(IMAGE_FILE), timeout=300)
        os.sync()  # otherwise a gigabyte is written while the next tests measure seconds
        mark.write_text(wanted)

    def docker(self, *args: str, check: bool = True, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        command = ["docker", "-H", self.address, *args]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=check, timeout=timeout)
        except subprocess.TimeoutExpired:
            if check:
                raise
            return subprocess.CompletedProcess(command, 124, "", "timed out")

    def containers(self) -> list[str]:
        """Names of all containers, running or not."""
        return sorted(self.docker("ps", "--all", "--format", "{{.Names}}").stdout.split())

    def remove_all(self) -> None:
        for name in self.containers():
            self.docker("rm", "--force", "--volumes", name, check=False)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9 of the daemon; with live-restore its containers keep running."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def kill_with_containers(self) -> None:
        """Kill what a lost machine loses: daemon, containerd, shims and everything in the containers, at once."""
        doomed = self._everything()
        self.kill()
        for pid in doomed:
            _kill(pid)

    def _everything(self) -> list[int]:
        """All processes below this engine: its containerd, the shims that name it, and their children."""
        parents: dict[int, int] = {}
        named: set[int] = set()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                stat = (path / "stat").read_text()
                command = (path / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            pid = int(path.name)
            parents[pid] = int(stat[stat.rindex(")") + 2 :].split()[1])
            if str(self.run_dir) in command and pid != os.getpid():
                named.add(pid)
        grown = True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in named} - named
            named |= more
            grown = bool(more)
        return sorted(named)

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.thaw()
        self.remove_all()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._unmount()
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def _unmount(self) -> None:
        """Remove the mounts: with live-restore, an engine leaves them for the next one."""
        places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted(places, reverse=True):
            if place.startswith((str(self.run_dir), str(self.data_root))):
                subprocess.run(["umount", "--lazy", place], check=False)

    def revive(self) -> None:
        """Make sure it runs again after a test that broke it."""
        if self.process is None or self.process.poll() is not None:
            self.start()
            return
        self.thaw()
        wait_until(self.answers, 30, f"engine {self.name} answers again")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def start_engine(name: str) -> Engine:
    """A running engine with the image of the media worker and no containers."""
    engine = Engine(name)
    began = time.monotonic()
    engine.start()
    engine.remove_all()
    engine.load_image()
    print(f"engine {name} is up after {time.monotonic() - began:.1f} s")
    return engine
