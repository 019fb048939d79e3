"""Where the files of an asset lie, and which of them can be seen from here."""

import shutil
from pathlib import Path

from django.conf import settings

from assets.files.decoding import Media
from assets.models import Asset, AssetPart
from station.folders import IMPORTS_FOLDER, LIBRARY_FOLDER

POSTER, FILMSTRIP, PROXY = "poster.jpg", "filmstrip.jpg", "proxy.mp4"
MEGABYTE = 1024 * 1024
PRODUCTS = (POSTER, FILMSTRIP, PROXY)


class FileGone(Exception):
    """A file is not where it should be; the text says what to do."""


def root_of(part: AssetPart) -> Path:
    """The folder a part's path begins in, as this machine sees it."""
    if part.node is None:
        return Path(settings.RECORDINGS_DIR)
    return Path(part.node.seen_dir or part.node.media_dir)


def path_of(part: AssetPart) -> Path:
    """Its file, which must be there and must not lead out of its folder (S-04)."""
    root = root_of(part).resolve()
    path = (root / part.path).resolve()
    if not path.is_relative_to(root):
        raise FileGone(f"{part.path} leads out of the media folder.")
    if not path.is_file():
        hint = f" Mount the media folder of {part.node} and say at the node where it is seen." if part.node else ""
        raise FileGone(f"{part.path} cannot be seen from this machine.{hint}")
    return path


def media_of(asset: Asset) -> Media:
    """All its parts, in order. Raises FileGone."""
    parts = list(asset.parts.filter(is_readable=True).select_related("node").order_by("number"))
    if not parts:
        raise FileGone(f"{asset} has no files.")
    return Media(tuple(path_of(part) for part in parts))


class NoRoom(Exception):
    """The disk has too little room; it is tried again later."""


def check_room(size: int = 0, root: Path | None = None) -> None:
    """Recordings come first: the library writes only where enough stays free for them. Raises NoRoom."""
    root = root or Path(settings.RECORDINGS_DIR)
    root.mkdir(parents=True, exist_ok=True)
    left = shutil.disk_usage(root).free - size
    if left < settings.LIBRARY_FREE_MB * MEGABYTE:
        room, kept = max(left, 0) // MEGABYTE, settings.LIBRARY_FREE_MB
        raise NoRoom(f"Only {room} MB would stay free; {kept} MB are kept for recordings.")


def library_dir() -> Path:
    return Path(settings.RECORDINGS_DIR) / LIBRARY_FOLDER


def imports_dir() -> Path:
    return Path(settings.RECORDINGS_DIR) / IMPORTS_FOLDER


def products_dir(asset_id: int) -> Path:
    """Where what was made from an asset lies: poster, filmstrip, proxy."""
    return library_dir() / str(asset_id)


def product(asset_id: int, name: str) -> Path | None:
    """One of them, if it is there."""
    path = products_dir(asset_id) / name
    return path if name in PRODUCTS and path.is_file() else None
