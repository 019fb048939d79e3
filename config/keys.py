"""Generated keys: made at first use and kept in the data folder, readable by the owner only."""

import os
import secrets
from base64 import urlsafe_b64encode
from pathlib import Path

from station.this_machine import machine_id


def stored_key(data_dir: Path, name: str) -> str:
    """The key called `name`. If two processes make it at the same time, both use the same one."""
    folder = data_dir / "keys"
    path = folder / name
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = folder / f".{name}.{os.getpid()}"
        draft.touch(mode=0o600)
        draft.write_text(urlsafe_b64encode(secrets.token_bytes(32)).decode() + "\n")
        try:
            os.link(draft, path)  # fails if another process was faster
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text().strip()


def folder_key(data_dir: Path) -> str:
    """The key of this data folder in its place: a copy of the folder, here or on another machine, has another one."""
    return f"{stored_key(data_dir, 'installation')} {machine_id()} {data_dir}"
