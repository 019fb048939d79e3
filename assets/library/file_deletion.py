"""Deletes the files of deleted assets from the disk. Waits for a folder that is missing: a mount may be unavailable."""

import logging
import shutil
from datetime import datetime, timedelta
from pathlib import Path

from assets.files.locations import products_dir, root_of
from assets.models import Asset

logger = logging.getLogger(__name__)

# Files of a deleted asset count as gone when their folder has been missing for this long.
GONE_AFTER = timedelta(days=7)


def delete_files(asset: Asset, now: datetime) -> bool:
    """Delete the files of a deleted asset. False if some could not be deleted; the next round tries again."""
    try:
        for part in asset.parts.select_related("node"):
            if not is_mounted(root_of(part)):
                logger.error("A media folder is not available; its files are deleted later. asset=%s", asset.pk)
                return False
        for path in files_of(asset):
            # A missing folder may be an unavailable mount: it counts as gone only after some days.
            if not path.parent.is_dir() and now - asset.state_since_at < GONE_AFTER:
                logger.error("A folder is not available; its files are deleted later. asset=%s", asset.pk)
                return False
            path.unlink(missing_ok=True)
        if products_dir(asset.pk).exists():
            shutil.rmtree(products_dir(asset.pk))
    except OSError as error:
        logger.error("A file could not be deleted; it is tried again. asset=%s error=%s", asset.pk, error)
        return False
    Asset.objects.filter(pk=asset.pk).update(files_gone_at=now)
    return True


def is_mounted(root: Path) -> bool:
    """An empty or missing folder is an unavailable mount: a missing file there is not proof of deletion."""
    return root.is_dir() and any(root.iterdir())


def files_of(asset: Asset) -> list[Path]:
    """The asset's parts and the journal of its recording, if they are inside their media folder."""
    found = []
    for part in asset.parts.select_related("node"):
        root = root_of(part).resolve()
        path = (root / part.path).resolve()
        if path.is_relative_to(root) and path != root:
            found.append(path)
    if asset.booking_id and found and asset.booking:
        found.append(found[0].with_name(f"{asset.booking.file_name}.json"))
    return found
