"""Imports: files to bring into the library, by upload, from a folder or from a watch folder (A-06).

An Import row is the intent; a run executes it (import_run.py). Rows whose run is gone are refused here.
"""

import logging
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef

from assets.files.locations import imports_dir
from assets.models import Import, WatchFolder
from jobs.models import Run
from jobs.runs.queue import enqueue
from station.actions import Refusal
from station.alerts import raise_alert
from station.models import Project
from station.states import SCHEDULER

logger = logging.getLogger(__name__)

State = Import.State
JOB = "assets.import"
UPLOADS = ".uploads"
UPLOADS_KEPT_SECONDS = 3 * 86400.0
PER_SWEEP = 100
UNFINISHED = (State.WAITING, State.COPYING)
DONE_FOLDER, REFUSED_FOLDER = "imported", "refused"


@dataclass(frozen=True)
class ImportOrder:
    """The payload of an import's run."""

    import_id: int


class NotTaken(Refusal):
    """The file is refused; the text says why."""


def fingerprint_of(path: Path) -> str:
    """Size, mtime and ctime. The ctime differs even for a copy that keeps its dates."""
    found = path.stat()
    return f"{found.st_size}-{found.st_mtime_ns}-{found.st_ctime_ns}"


def bring(
    path: Path,
    *,
    project: Project | None,
    way: str,
    now: datetime,
    by: str = SCHEDULER,
    name: str = "",
    watch_folder: WatchFolder | None = None,
) -> Import | None:
    """Request the import of one file. None if this file was requested before."""
    with transaction.atomic():
        row, is_new = Import.objects.get_or_create(
            source=str(path),
            fingerprint=fingerprint_of(path),
            defaults={
                "state": State.WAITING,
                "state_since_at": now,
                "deadline_at": now + Import.DEADLINES[State.WAITING],
                "project": project,
                "way": way,
                "name": (name or path.name)[:255],
                "size_bytes": path.stat().st_size,
                "watch_folder": watch_folder,
                "requested_by": by,
                "created_at": now,
            },
        )
        if not is_new:
            return None
        row.events.create(at=now, old="", new=State.WAITING, by=by, note=row.get_way_display())
        _queue(row, by)
    return row


def _queue(row: Import, by: str) -> None:
    run = enqueue(
        JOB,
        ImportOrder(row.pk),
        key=row.owner,
        owner=row.owner,
        scope=f"project:{row.project_id or 0}",
        project_id=row.project_id,
        by=by,
    )
    Import.objects.filter(pk=row.pk).update(run_ref=run.pk)


def again(row: Import, *, now: datetime, by: str) -> bool:
    """Try a refused one again, if its file is still there."""
    path = Path(row.source)
    if row.state != State.REFUSED or not path.is_file():
        return False
    # The file may have been repaired or moved aside since.
    changes = {"fingerprint": fingerprint_of(path), "size_bytes": path.stat().st_size}
    try:
        with transaction.atomic():
            moved = row.move(State.WAITING, now=now, by=by, note="tried again by hand", error="", **changes)
            if moved:
                _queue(row, by)
    except IntegrityError:
        return False  # another import has this version of the file
    return moved


def check_source(path: Path, way: str) -> Path:
    """Only files in IMPORT_ROOTS or in our own folder of uploads are accepted (S-04). Raises NotTaken."""
    resolved = path.resolve()
    roots = [imports_dir() / UPLOADS] if way == Import.Way.UPLOAD else [Path(root) for root in settings.IMPORT_ROOTS]
    if not any(resolved.is_relative_to(root.resolve()) for root in roots):
        raise NotTaken(f"{path.name} is not in a folder that allows imports (IMPORT_ROOTS).")
    if not resolved.is_file():
        raise NotTaken(f"{path.name} no longer exists.")
    if not resolved.stat().st_size:
        raise NotTaken(f"{path.name} is empty.")
    return resolved


def sweep(now: datetime) -> int:
    """Refuse imports whose run failed finally or is gone, with the error of the run."""
    count = 0
    over = Run.objects.filter(pk=OuterRef("run_ref")).exclude(state__in=Run.OVER)
    rows = Import.objects.filter(state__in=[State.WAITING, State.COPYING]).exclude(Exists(over)).order_by("id")
    for row in rows[:PER_SWEEP]:
        run = Run.objects.filter(pk=row.run_ref or 0).first()
        error = (run.error.partition("\n")[0] or run.error_code) if run else "its run is gone"
        if row.move(State.REFUSED, now=now, note=error, error=error):
            tell_refused(row, error, now)
            count += 1
    return count


def tell_refused(row: Import, error: str, now: datetime) -> None:
    """Raise an alert for a file of a watch folder. After an upload, the user sees the result on the page."""
    if row.watch_folder_id is None:
        return
    raise_alert(
        f"import_refused:{row.watch_folder_id}",
        f"{row.watch_folder}: a file was refused",
        now=now,
        text=f"{row.name}: {error}\nFix the cause, then open the import and press Try again.",
        subject=f"watch_folder:{row.watch_folder_id}",
        project=row.project,
    )


def sweep_uploads(now: datetime) -> int:
    """Delete uploads that were refused or interrupted, after some days."""
    count = 0
    waiting = set(Import.objects.filter(way=Import.Way.UPLOAD, state__in=UNFINISHED).values_list("source", flat=True))
    folder = imports_dir() / UPLOADS
    for path in folder.iterdir() if folder.is_dir() else []:
        try:
            is_old = now.timestamp() - path.stat().st_mtime > UPLOADS_KEPT_SECONDS
        except FileNotFoundError:
            continue  # its upload has just ended
        if is_old and str(path / "upload") not in waiting:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            count += 1
    return count
