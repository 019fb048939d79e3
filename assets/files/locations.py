"""Paths of an asset's files and products, as seen from this machine."""

import shutil
from pathlib import Path

from django.conf import settings

from assets.files.sandboxed_ffmpeg import Media
from assets.models import Asset, AssetPart
from station.folders import IMPORTS_FOLDER, LIBRARY_FOLDER

POSTER, FILMSTRIP, PROXY = "poster.jpg", "filmstrip.jpg", "proxy.mp4"
MEGABYTE = 1024 * 1024
PRODUCTS = (POSTER, FILMSTRIP, PROXY)


class FileGone(Exception):
    """A file was not found; the text says what to do."""


def root_of(part: AssetPart) -> Path:
    """The folder that a part's path is relative to, as seen from this machine."""
    if part.node is None:
        return Path(settings.RECORDINGS_DIR)
    return Path(part.node.seen_dir or part.node.media_dir)


def path_of(part: AssetPart) -> Path:
    """The part's file. It must exist and must not be outside its folder (S-04). Raises FileGone."""
    root = root_of(part).resolve()
    path = (root / part.path).resolve()
    if not path.is_relative_to(root):
        raise FileGone(f"{part.path} is outside the media folder.")
    if not path.is_file():
        hint = f" Mount the media folder of {part.node} here and enter its path at the node." if part.node else ""
        raise FileGone(f"{part.path} was not found on this machine.{hint}")
    return path


def media_of(asset: Asset) -> Media:
    """All readable parts, in order. Raises FileGone."""
    parts = list(asset.parts.filter(is_readable=True).select_related("node").order_by("number"))
    if not parts:
        raise FileGone(f"{asset} has no files.")
    return Media(tuple(path_of(part) for part in parts))


class NoRoom(Exception):
    """The disk has too little free space."""


def check_room(size: int = 0, root: Path | None = None) -> None:
    """The library writes only if enough space stays free for recordings. Raises NoRoom."""
    root = root or Path(settings.RECORDINGS_DIR)
    root.mkdir(parents=True, exist_ok=True)
    left = shutil.disk_usage(root).free - size
    if left < settings.LIBRARY_FREE_MB * MEGABYTE:
        room, kept = max(left, 0) // MEGABYTE, settings.LIBRARY_FREE_MB
        raise NoRoom(f"Only {room} MB would stay free; {kept} MB are reserved for recordings.")


def library_dir() -> Path:
    return Path(settings.RECORDINGS_DIR) / LIBRARY_FOLDER


def imports_dir() -> Path:
    return Path(settings.RECORDINGS_DIR) / IMPORTS_FOLDER


def products_dir(asset_id: int) -> Path:
    """The folder of an asset's poster, filmstrip and proxy."""
    return library_dir() / str(asset_id)


def product(asset_id: int, name: str) -> Path | None:
    """The path of one product, or None if it does not exist."""
    path = products_dir(asset_id) / name
    return path if name in PRODUCTS and path.is_file() else None
