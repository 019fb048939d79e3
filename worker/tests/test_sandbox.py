"""The sandbox of programs that read untrusted files: it is enforced, or the program does not run."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from testing.media import environment, ffmpeg
from worker.media.sandbox import CannotConfine, Sandbox, landlock_version, no_sockets

# With CI=true they are not skipped: without Landlock they fail.
needs_landlock = pytest.mark.skipif(
    not landlock_version() and os.environ.get("CI") != "true", reason="this kernel has no Landlock"
)


def run_sandboxed(code: str, *, reads: list[Path] = [], writes: list[Path] = []) -> "subprocess.CompletedProcess[str]":  # noqa: B006
    """Run Python code in the sandbox; it may also read the interpreter's own folders."""
    base = [Path(sys.base_prefix), Path(sys.prefix)]
    sandbox = Sandbox(reads=[*base, *reads], writes=writes, runs=sys.executable)
    try:
        return subprocess.run(
            [os.path.realpath(sys.executable), "-I", "-S", "-c", code],
            preexec_fn=sandbox.enter,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    finally:
        sandbox.close()


def test_a_sandboxed_program_cannot_use_the_network() -> None:
    """A-05: a probe or decode has no network access, not even to this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        done = run_sandboxed(f"import socket; socket.create_connection(('127.0.0.1', {port}), 3)")
    assert done.returncode != 0
    assert "PermissionError" in done.stderr


@pytest.mark.parametrize("kind", ["AF_INET, socket.SOCK_DGRAM", "AF_UNIX, socket.SOCK_STREAM", "AF_NETLINK, 3"])
def test_a_sandboxed_program_cannot_create_any_kind_of_socket(kind: str) -> None:
    done = run_sandboxed(f"import socket; socket.socket(socket.{kind})")
    assert "PermissionError" in done.stderr


@needs_landlock
def test_a_sandboxed_program_reads_only_the_given_files(tmp_path: Path) -> None:
    """A-05: all other files are refused."""
    given, other = tmp_path / "given.txt", tmp_path / "other.txt"
    given.write_text("yes")
    other.write_text("no")
    done = run_sandboxed(f"print(open({str(given)!r}).read())", reads=[given])
    assert done.stdout.strip() == "yes", done.stderr
    assert "PermissionError" in run_sandboxed(f"open({str(other)!r})", reads=[given]).stderr
    assert "PermissionError" in run_sandboxed("open('/etc/passwd')", reads=[given]).stderr


@needs_landlock
def test_a_sandboxed_program_writes_only_to_the_given_folders(tmp_path: Path) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    allowed.mkdir()
    other.mkdir()
    done = run_sandboxed(f"open({str(allowed / 'new')!r}, 'w').write('x')", writes=[allowed])
    assert done.returncode == 0, done.stderr
    assert "PermissionError" in run_sandboxed(f"open({str(other / 'new')!r}, 'w')", writes=[allowed]).stderr


def test_the_memory_of_a_sandboxed_program_is_limited() -> None:
    sandbox = Sandbox(reads=[Path(sys.base_prefix), Path(sys.prefix)], runs=sys.executable, memory_mb=256)
    code = "x = bytearray(512 * 1024 * 1024)"
    done = subprocess.run(
        [os.path.realpath(sys.executable), "-I", "-S", "-c", code],
        preexec_fn=sandbox.enter,
        capture_output=True,
        timeout=30,
        check=False,
    )
    sandbox.close()
    assert b"MemoryError" in done.stderr


def test_an_unknown_processor_architecture_is_refused() -> None:
    with pytest.raises(CannotConfine):
        no_sockets("sparc")


def test_ffmpeg_works_in_the_sandbox(tmp_path: Path) -> None:
    sandbox = Sandbox(reads=[], writes=[tmp_path], runs=ffmpeg())
    command = [ffmpeg(), "-loglevel", "error", "-f", "lavfi", "-i", "testsrc2=size=64x64:rate=5:duration=1"]
    done = subprocess.run(
        [*command, "-c:v", "libx264", "-f", "mp4", str(tmp_path / "out.mp4")],
        preexec_fn=sandbox.enter,
        env=environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    sandbox.close()
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.mp4").stat().st_size > 500
