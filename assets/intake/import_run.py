"""The run of one import: copies the file, probes it and creates the asset, or refuses it (A-06).

The run can be repeated after a crash: file names follow from the row's ID, and the asset is created in one commit with
the row's last move.
"""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from assets.files import probing
from assets.files.checksums import BLOCK_BYTES
from assets.files.locations import check_room, imports_dir
from assets.files.sandboxed_ffmpeg import NotDecoded
from assets.intake.imports import (
    DONE_FOLDER,
    REFUSED_FOLDER,
    ImportOrder,
    NotTaken,
    check_source,
    fingerprint_of,
    tell_refused,
)
from assets.models import Asset, AssetPart, AssetStep, Import, WatchFolder
from assets.processing import steps
from jobs.definitions.run_context import Hopeless, RunContext, RunStopped
from jobs.models import Run
from station.alerts import resolve_alert
from station.clock import database_now, house_zone
from station.folders import IMPORTS_FOLDER, safe_part
from station.states import SCHEDULER

logger = logging.getLogger(__name__)

State = Import.State
_SUFFIX = re.compile(r"^\.[a-z0-9]{1,8}$")


def run_import(run: RunContext, order: ImportOrder) -> dict[str, Any]:
    """The handler: import the file, or refuse it with a reason."""
    row = Import.objects.select_related("project", "watch_folder").filter(pk=order.import_id).first()
    if row is None:
        raise Hopeless("The import no longer exists.")
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
            # An incomplete file may still decode, so a changed file must not be imported.
            raise NotTaken(
                f"{row.name} changed after its import was requested. A watch folder imports it when it stops changing."
            )
        twin = twin_of(row, digest)
        if twin is not None:
            _end(run, row, State.DUPLICATE, asset=twin)
            return
        run.report(92, "probing")
        try:
            found = probing.probe(draft)
        except NotDecoded as fault:
            raise NotTaken(str(fault).replace(draft.name, row.name)) from fault
        draft.replace(target)
        _file(run, row, target, digest, found)
    finally:
        draft.unlink(missing_ok=True)


def target_of(row: Import) -> Path:
    """The file's place in the library: readable, unique by the row's ID, the same in every attempt."""
    project = safe_part(row.project.slug) if row.project else "station"
    day = row.created_at.astimezone(house_zone()).strftime("%Y-%m-%d")
    suffix = Path(row.name).suffix.lower()
    stem = row.name[: len(row.name) - len(suffix)] if _SUFFIX.match(suffix) else row.name
    suffix = suffix if _SUFFIX.match(suffix) else ""
    return imports_dir() / project / day / f"{safe_part(stem)}_i{row.pk}{suffix}"


def copy_and_hash(source: Path, target: Path, on_percent: Callable[[float], None]) -> str:
    """Copy the file and compute its SHA-256 in one read."""
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
    """An asset with the same content in the same project. Assets in the trash do not count."""
    same = Asset.objects.there().filter(project=row.project_id, sha256=digest).exclude(state=Asset.State.ERROR)
    return same.exclude(imports=row).order_by("id").first()


def _file(run: RunContext, row: Import, target: Path, digest: str, found: probing.Probe) -> None:
    """Create the asset and its part and end the row, in one commit. The lock lets a second equal file find it."""
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
    """Make the row's last move, only while the run holds its lease."""
    now = database_now()
    with transaction.atomic():
        mine = Run.objects.select_for_update().filter(pk=run.id, token=run.token, state=Run.State.RUNNING)
        if not mine.exists():
            raise RunStopped
        note = error or (f"as {asset}" if asset else "")
        moved = row.move(to, now=now, by=row.requested_by or SCHEDULER, note=note, asset=asset, error=error)
        if moved and to == State.REFUSED:
            tell_refused(row, error, now)
        elif moved and row.watch_folder_id:
            resolve_alert(f"import_refused:{row.watch_folder_id}", now=now, note=f"{row.name} was imported")


def _tidy_up(row: Import) -> None:
    """Delete an upload; move a file of a watch folder to a subfolder that shows its result."""
    source = Path(row.source)
    try:
        if row.way == Import.Way.UPLOAD and row.state != State.REFUSED:
            source.unlink(missing_ok=True)
            source.parent.rmdir()
        elif row.watch_folder and row.watch_folder.afterwards == WatchFolder.Afterwards.MOVE and source.is_file():
            if fingerprint_of(source) != row.fingerprint:
                return  # it is still being written; the next poll of the folder takes it
            aside = Path(row.watch_folder.path) / (REFUSED_FOLDER if row.state == State.REFUSED else DONE_FOLDER)
            aside.mkdir(exist_ok=True)
            target = _move_aside(source, aside, row.pk)
            # "Try again" reads the file from there.
            Import.objects.filter(pk=row.pk).update(source=str(target))
    except OSError as error:
        logger.warning("A file could not be moved aside. file=%s error=%s", source.name, error)


def _move_aside(source: Path, aside: Path, number: int) -> Path:
    """Never replace another file with that name: a refused file may be the only copy."""
    own = aside / f"{source.stem}_i{number}{source.suffix}"
    for target in (aside / source.name, own):
        try:
            os.link(source, target)  # unlike a rename, a link fails if the target exists
        except FileExistsError:
            continue
        except OSError:
            break  # a file system without links
        source.unlink()
        return target
    shutil.move(source, own)
    return own
