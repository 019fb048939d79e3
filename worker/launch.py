"""`python3 -m worker.launch FOLDER PROGRAM`: run a worker as a detached process of this machine (the process runtime).

Takes the folder's lock or says that it is taken, detaches, writes down the pids, and when the worker ends, how.
The lock is inherited by the worker, so as long as it lives nobody can start a second one in this folder.
"""

import fcntl
import json
import os
import sys
from pathlib import Path

ALREADY_RUNNING = 73


def started_ticks(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat[stat.rindex(")") + 2 :].split()[19]


def write_json(path: Path, content: dict[str, object]) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(content))
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
        return 0 if os.read(ready, 1) else 1  # the byte says: detached, and its pids are on disk
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
    write_json(
        folder / "pids.json",
        {
            "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "worker": {"pid": worker, "started": started_ticks(worker)},
            "launcher": {"pid": os.getpid(), "started": started_ticks(os.getpid())},
        },
    )
    os.write(written, b"1")
    os.close(written)
    _, status = os.waitpid(worker, 0)
    write_json(folder / "exit.json", {"code": os.waitstatus_to_exitcode(status)})
    os._exit(0)


def _run_guarded(run: "object", program: str) -> int:
    import traceback

    from worker.process import exits

    try:
        code: int = run([program])  # type: ignore[operator]
    except BaseException:  # noqa: BLE001  whatever ends the program, its exit code is written down
        traceback.print_exc()
        code = exits.INTERNAL
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
