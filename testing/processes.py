"""Real processes for tests: `manage.py` on the test database, and what /proc says about a process."""

import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings
from django.db import connection

ROOT = Path(__file__).resolve().parent.parent


def database_url() -> str:
    """The test database as a DATABASE_URL, for another process."""
    params = connection.get_connection_params()
    host = params.get("host", "")
    user, password = params.get("user", ""), params.get("password", "")
    login = f"{user}:{password}" if password else user
    name, port = params["dbname"], params.get("port") or ""
    if host.startswith("/"):
        return f"postgresql://{login}@/{name}?host={host}" + (f"&port={port}" if port else "")
    return f"postgresql://{login}@{host}{f':{port}' if port else ''}/{name}"


def environment(**extra: str) -> dict[str, str]:
    """The environment of a process with the test's data folder, keys and database."""
    return {
        **os.environ,
        "DATABASE_URL": database_url(),
        "DATA_DIR": str(settings.DATA_DIR),
        "SECRET_KEY": settings.SECRET_KEY,
        "SEALING_KEYS": ",".join(settings.SEALING_KEYS),
        "INSTALLATION_KEY": settings.INSTALLATION_KEY,
        "PYTHONUNBUFFERED": "1",
        "WORKER_IMAGE": settings.WORKER_IMAGE,
        "MIN_FREE_DISK_MB": str(settings.MIN_FREE_DISK_MB),
        **extra,
    }


def manage(*args: str, timeout: float = 240, **extra: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *args],
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=ROOT,
    )


def start_manage(*args: str, log: Path, **extra: str) -> "subprocess.Popen[bytes]":
    with log.open("ab") as handle:
        return subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), *args],
            env=environment(**extra),
            stdout=handle,
            stderr=handle,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
        )


def children_of(pid: int) -> list[int]:
    """Pids whose parent is `pid`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text()
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return sorted(found)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"
