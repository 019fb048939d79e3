"""Bringing files in: by upload, from a folder, from a watch folder. Each is copied, recognised, taken or refused.

An Import row is the promise, a run keeps it. Whatever kills the worker, the run comes again and goes on: names follow
from the row's number, and the asset is made in one commit with the row's last move (A-06).
"""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, OuterRef

from assets.files import probing
from assets.files.checksums import BLOCK_BYTES
from assets.files.decoding import NotDecoded
from assets.files.locations import check_room, imports_dir
from assets.models import Asset, AssetPart, AssetStep, Import, WatchFolder
from assets.processing import steps
from jobs.declared.run_context import Hopeless, RunContext, RunStopped
from jobs.models import Run
from jobs.runs.queue import enqueue
from station.actions import Refusal
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now, house_zone
from station.folders import IMPORTS_FOLDER, safe_part
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
_SUFFIX = re.compile(r"^\.[a-z0-9]{1,8}$")


@dataclass(frozen=True)
class ImportOrder:
    """What an import's run is told."""

    import_id: int


class NotTaken(Refusal):
    """The file is not taken; the text says why."""


def fingerprint_of(path: Path) -> str:
    """Its size, its last change, and when it came to lie there: a copy that keeps its dates is told apart by that."""
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
    """Ask for one file to be brought in; None if this very file was asked for before."""
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
    # As it is now: it may have been mended, or put aside.
    changes = {"fingerprint": fingerprint_of(path), "size_bytes": path.stat().st_size}
    try:
        with transaction.atomic():
            moved = row.move(State.WAITING, now=now, by=by, note="again, by hand", error="", **changes)
            if moved:
                _queue(row, by)
    except IntegrityError:
        return False  # as it is now, another import has it
    return moved


def check_source(path: Path, way: str) -> Path:
    """Only from where files may come (S-04): the import roots, or our own folder of uploads."""
    resolved = path.resolve()
    roots = [imports_dir() / UPLOADS] if way == Import.Way.UPLOAD else [Path(root) for root in settings.IMPORT_ROOTS]
    if not any(resolved.is_relative_to(root.resolve()) for root in roots):
        raise NotTaken(f"{path.name} does not lie in a folder files may be imported from (IMPORT_ROOTS).")
    if not resolved.is_file():
        raise NotTaken(f"{path.name} is no longer there.")
    if not resolved.stat().st_size:
        raise NotTaken(f"{path.name} is empty.")
    return resolved


def run_import(run: RunContext, order: ImportOrder) -> dict[str, Any]:
    """The run: take it in, or say why not."""
    row = Import.objects.select_related("project", "watch_folder").filter(pk=order.import_id).first()
    if row is None:
        raise Hopeless("It is no longer to be imported.")
    if not row.is_over:
        if row.state == State.WAITING:
            row.move(State.COPYING, now=database_now(), by=SCHEDULER)
        try:
            _take_in(run, row)
        except (NotTaken, NotDecoded) as fault:
            _end(run, row, State.REFUSED, error=str(fault))
    _tidy_up(row)
    if row.state == State.REFUSED:
        raise Hopeless(row.error)
    return {"state": row.state, "asset": row.asset_id}


def _take_in(run: RunContext, row: Import) -> None:
    source = check_source(Path(row.source), row.way)
    check_room(source.stat().st_size)
    target = target_of(row)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.part")
    try:
        digest = copy_and_hash(source, draft, lambda percent: run.report(percent * 0.9, "copying"))
        if row.way != Import.Way.UPLOAD and fingerprint_of(source) != row.fingerprint:
            # Half a file decodes well enough to be taken for a whole one.
            raise NotTaken(f"{row.name} changed after it was asked for: it is taken when it has come to rest.")
        twin = twin_of(row, digest)
        if twin is not None:
            _end(run, row, State.DUPLICATE, asset=twin)
            return
        run.report(92, "looking into it")
        try:
            found = probing.probe(draft)
        except NotDecoded as fault:
            raise NotTaken(str(fault).replace(draft.name, row.name)) from fault
        draft.replace(target)
        _file(run, row, target, digest, found)
    finally:
        draft.unlink(missing_ok=True)


def target_of(row: Import) -> Path:
    """Readable, unique by the row's number, the same at every attempt."""
    project = safe_part(row.project.slug) if row.project else "station"
    day = row.created_at.astimezone(house_zone()).strftime("%Y-%m-%d")
    suffix = Path(row.name).suffix.lower()
    stem = row.name[: len(row.name) - len(suffix)] if _SUFFIX.match(suffix) else row.name
    suffix = suffix if _SUFFIX.match(suffix) else ""
    return imports_dir() / project / day / f"{safe_part(stem)}_i{row.pk}{suffix}"


def copy_and_hash(source: Path, target: Path, on_percent: Callable[[float], None]) -> str:
    """One read: the copy and its SHA-256."""
    digest, done, size = hashlib.sha256(), 0, max(1, source.stat().st_size)
    with source.open("rb") as reader, target.open("wb") as writer:
        while block := reader.read(BLOCK_BYTES):
            digest.update(block)
            writer.write(block)
            done += len(block)
            on_percent(100 * done / size)
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest()


def twin_of(row: Import, digest: str) -> Asset | None:
    """The same bytes in the same project, there and in order: what lies in the trash will be gone."""
    same = Asset.objects.there().filter(project=row.project_id, sha256=digest).exclude(state=Asset.State.ERROR)
    return same.exclude(imports=row).order_by("id").first()


def _file(run: RunContext, row: Import, target: Path, digest: str, found: probing.Probe) -> None:
    """The asset, its part and the row's end, in one commit. Two of the same at once: the second finds the first."""
    now = database_now()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"import:{row.project_id}:{digest}"])
        twin = twin_of(row, digest)
        if twin is not None:
            target.unlink(missing_ok=True)
            _end(run, row, State.DUPLICATE, asset=twin)
            return
        size = target.stat().st_size
        asset = Asset.objects.create(
            state=Asset.State.PROCESSING,
            state_since_at=now,
            project=row.project,
            title=Path(row.name).stem[:200] or row.name,
            origin=Asset.Origin.IMPORT,
            created_at=now,
            created_by=row.requested_by,
            size_bytes=size,
            duration_seconds=found.duration_seconds,
            part_count=1,
            sha256=digest,
        )
        asset.events.create(at=now, old="", new=asset.state, by=row.requested_by, note=row.get_way_display())
        path = f"{IMPORTS_FOLDER}/{target.relative_to(imports_dir())}"
        AssetPart.objects.create(
            asset=asset, number=1, path=path, size_bytes=size, seconds=found.duration_seconds or 0.0, sha256=digest
        )
        AssetStep.objects.create(
            asset=asset,
            kind=AssetStep.Kind.CHECKSUM,
            asked_at=now,
            done_at=now,
            times_done=1,
            result={"sha256": digest, "parts": [digest]},
        )
        steps.order(asset, [AssetStep.Kind.PROBE], now=now, by=row.requested_by or SCHEDULER)
        _end(run, row, State.DONE, asset=asset)


def _end(run: RunContext, row: Import, to: str, *, asset: Asset | None = None, error: str = "") -> None:
    """The row's last move, only while the run is ours."""
    now = database_now()
    with transaction.atomic():
        mine = Run.objects.select_for_update().filter(pk=run.id, token=run.token, state=Run.State.RUNNING)
        if not mine.exists():
            raise RunStopped
        note = error or (f"as {asset}" if asset else "")
        moved = row.move(to, now=now, by=row.requested_by or SCHEDULER, note=note, asset=asset, error=error)
        if moved and to == State.REFUSED:
            _tell_refused(row, error, now)
        elif moved and row.watch_folder_id:
            resolve_alert(f"import_refused:{row.watch_folder_id}", now=now, note=f"{row.name} was taken")


def _tidy_up(row: Import) -> None:
    """What was uploaded goes; what came from a watch folder is put aside, so that people see what became of it."""
    source = Path(row.source)
    try:
        if row.way == Import.Way.UPLOAD and row.state != State.REFUSED:
            source.unlink(missing_ok=True)
            source.parent.rmdir()
        elif row.watch_folder and row.watch_folder.afterwards == WatchFolder.Afterwards.MOVE and source.is_file():
            if fingerprint_of(source) != row.fingerprint:
                return  # somebody still writes to it; the next look takes it as it is then
            aside = Path(row.watch_folder.path) / (REFUSED_FOLDER if row.state == State.REFUSED else DONE_FOLDER)
            aside.mkdir(exist_ok=True)
            target = _move_aside(source, aside, row.pk)
            # Where it lies now: "Try again" looks there.
            Import.objects.filter(pk=row.pk).update(source=str(target))
    except OSError as error:
        logger.warning("A file could not be put aside. file=%s error=%s", source.name, error)


def _move_aside(source: Path, aside: Path, number: int) -> Path:
    """Never onto another file of that name: of what was refused it may be the only copy there is."""
    own = aside / f"{source.stem}_i{number}{source.suffix}"
    for target in (aside / source.name, own):
        try:
            os.link(source, target)  # unlike a rename, refused where something is
        except FileExistsError:
            continue
        except OSError:
            break  # a file system without links
        source.unlink()
        return target
    shutil.move(source, own)
    return own


def sweep(now: datetime) -> int:
    """An import whose run failed for good, or is gone, is refused, with the run's words."""
    count = 0
    over = Run.objects.filter(pk=OuterRef("run_ref")).exclude(state__in=Run.OVER)
    rows = Import.objects.filter(state__in=[State.WAITING, State.COPYING]).exclude(Exists(over)).order_by("id")
    for row in rows[:PER_SWEEP]:
        run = Run.objects.filter(pk=row.run_ref or 0).first()
        error = (run.error.partition("\n")[0] or run.error_code) if run else "its run is gone"
        if row.move(State.REFUSED, now=now, note=error, error=error):
            _tell_refused(row, error, now)
            count += 1
    return count


def _tell_refused(row: Import, error: str, now: datetime) -> None:
    """Of what a person brings, that person reads the answer; nobody stands beside a watch folder."""
    if row.watch_folder_id is None:
        return
    raise_alert(
        f"import_refused:{row.watch_folder_id}",
        f"{row.watch_folder}: a file was refused",
        now=now,
        text=f"{row.name}: {error}\nSee Imports; “Try again” there, when the cause is mended.",
        subject=f"watch_folder:{row.watch_folder_id}",
        project=row.project,
    )


def sweep_uploads(now: datetime) -> int:
    """Uploads that were refused, or whose request died half-way, go after some days."""
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
