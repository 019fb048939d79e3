"""The system user and the private folders of the embedded PostgreSQL, which refuses to run as root."""

import logging
import os
import pwd
import stat
import subprocess
from pathlib import Path

logger = logging.getLogger(__name__)

SYSTEM_USER_FOR_ROOT = "pgserver"


class EmbeddedServerError(Exception):
    """The embedded server cannot be used; the message says what to do."""


def make_private(folder: Path, owner: pwd.struct_passwd | None = None) -> None:
    """Make a folder that other users cannot list; below root's folders, the server's user may pass through."""
    folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    found = folder.stat()
    expected = {os.geteuid()} | ({owner.pw_uid} if owner else set())
    if found.st_uid not in expected or (found.st_mode & 0o022):
        raise EmbeddedServerError(f"The folder {folder} belongs to another user or is writable by others.")
    if owner:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        folder.chmod(0o700)


def server_user() -> pwd.struct_passwd | None:
    """The system user for the server if this process is root, which PostgreSQL refuses; else None."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(SYSTEM_USER_FOR_ROOT)
    except KeyError:
        subprocess.run(
            ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/bin/false", SYSTEM_USER_FOR_ROOT],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return pwd.getpwnam(SYSTEM_USER_FOR_ROOT)


def let_through(path: Path) -> None:
    """As root: let the server's user pass through (not list) the folders above `path`."""
    for folder in (path, *path.parents):
        mode = folder.stat().st_mode
        if stat.S_ISDIR(mode) and not mode & stat.S_IXOTH:
            logger.warning(
                "Let PostgreSQL's system user pass through a folder, because PostgreSQL cannot run as root. folder=%s",
                folder,
            )
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
