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
    """A folder that nobody else may list; root's may be passed through by the server's user."""
    folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    found = folder.stat()
    expected = {os.geteuid()} | ({owner.pw_uid} if owner else set())
    if found.st_uid not in expected or (found.st_mode & 0o022):
        raise EmbeddedServerError(f"The folder {folder} belongs to somebody else or may be written by others.")
    if owner:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        folder.chmod(0o700)


def server_user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root, so root runs it as a user of its own; any other user runs it as itself."""
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
            logger.warning("Making a folder passable for PostgreSQL, which may not run as root. folder=%s", folder)
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
