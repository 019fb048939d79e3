"""`python3 -m worker.launch FOLDER PROGRAM`: run a media worker as a detached process (the process runtime).

It takes the folder's lock (or exits with ALREADY_RUNNING), detaches, and writes the process ids and at the end the exit
code to the folder. The media worker inherits the lock: while it runs, no second one can start in this folder.
"""

import fcntl
import os
import sys
from pathlib import Path

from worker.wire import codec
from worker.wire.launcher import ExitNote, ProcessId, ProcessIds

ALREADY_RUNNING = 73


def started_ticks(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat[stat.rindex(")") + 2 :].split()[19]


def process_id(pid: int) -> ProcessId:
    return ProcessId(pid, started_ticks(pid))


def write(path: Path, content: ProcessIds | ExitNote) -> None:
    """Atomically."""
    draft = path.with_suffix(".new")
    draft.write_text(codec.dumps(content))
    draft.rename(path)


def main(folder: Path, program: str) -> int:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ALREADY_RUNNING
    os.setsid()
    ready, written = os.pipe()
    if os.fork():
        os.close(written)
        return 0 if os.read(ready, 1) else 1  # the byte means: detached, and the process ids are on disk
    os.close(ready)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    worker = os.fork()
    if worker == 0:
        from worker.programs import main as run

        os.close(written)
        os._exit(_run_guarded(run, program))
    os.close(0)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    write(folder / "pids.json", ProcessIds(boot, process_id(worker), process_id(os.getpid())))
    os.write(written, b"1")
    os.close(written)
    _, status = os.waitpid(worker, 0)
    write(folder / "exit.json", ExitNote(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _run_guarded(run: "object", program: str) -> int:
    import traceback

    from worker.process import exits

    try:
        code: int = run([program])  # type: ignore[operator]
    except BaseException:  # noqa: BLE001  every end of the program gets an exit code
        traceback.print_exc()
        code = exits.INTERNAL
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
