"""Watch folders: a file that has stopped changing is imported once.

The leader only queues the check of a folder; a job worker reads it, because a network share may hang.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q

from assets.intake import imports
from assets.models import Import, WatchFolder
from jobs.definitions.run_context import Hopeless, RunContext
from jobs.runs.queue import enqueue
from station.clock import database_now
from station.leader_term import Term
from station.states import sql_list

JOB = "assets.watch"
LOOK_SECONDS = 5.0
# Suffixes that common tools give to incomplete files.
NOT_YET = (".part", ".partial", ".tmp", ".filepart", ".crdownload")
ASIDE = {imports.DONE_FOLDER, imports.REFUSED_FOLDER}
MAX_FILES = 5000
LONGEST_PATH = 700
UNFINISHED = sql_list((Import.State.WAITING, Import.State.COPYING))
DUE_SQL = f"""SELECT LEAST(
    (SELECT min(COALESCE(next_look_at, clock_timestamp())) FROM assets_watchfolder WHERE is_active),
    (SELECT min(deadline_at) FROM assets_import WHERE state IN ({UNFINISHED})),
    CASE WHEN EXISTS (SELECT FROM assets_import WHERE state IN ({UNFINISHED}))
    THEN clock_timestamp() + interval '5 s' END)"""  # noqa: S608  (our own states)


@dataclass(frozen=True)
class WatchOrder:
    """The payload of a check's run."""

    folder_id: int


def step(term: Term, now: datetime) -> datetime | None:
    """Queue a check of every folder that is due, and end imports whose run is gone."""
    imports.sweep(now)
    due = WatchFolder.objects.filter(Q(next_look_at=None) | Q(next_look_at__lte=now), is_active=True)
    for pk, project_id in due.values_list("pk", "project_id"):
        owner = f"watch:{pk}"
        enqueue(JOB, WatchOrder(pk), key=owner, owner=owner, project_id=project_id)
        WatchFolder.objects.filter(pk=pk).update(next_look_at=now + timedelta(seconds=LOOK_SECONDS))
    moments = WatchFolder.objects.filter(is_active=True).order_by("next_look_at").values_list("next_look_at", flat=True)
    return moments.first()


def run_watch(run: RunContext, order: WatchOrder) -> dict[str, Any]:
    """The handler: check one folder."""
    folder = WatchFolder.objects.select_related("project").filter(pk=order.folder_id, is_active=True).first()
    if folder is None:
        raise Hopeless("The folder is no longer watched.")
    return {"taken": look(folder, database_now())}


def look(folder: WatchFolder, now: datetime) -> int:
    """Import files that have not changed for `settle_seconds`. Returns how many."""
    try:
        folder.clean()  # the roots may have changed since it was saved
        paths = list(files_in(Path(folder.path)))
    except OSError as error:
        _note(folder, now, folder.seen, f"{error.strerror or error}")
        return 0
    except ValidationError as error:
        _note(folder, now, folder.seen, " ".join(error.messages))
        return 0
    seen: dict[str, list[str]] = {}
    taken, faults = 0, list[str]()
    for path in paths:
        try:
            taken += _consider(folder, path, now, seen)
        except (OSError, ValueError) as error:  # one file with an unusable name must not stop the others
            faults.append(f"{path.name.encode(errors='replace').decode()}: {error}")
    if len(paths) >= MAX_FILES:
        faults.append(f"More than {MAX_FILES} files: the others are not checked.")
    _note(folder, now, seen, " ".join(faults))
    return taken


def _consider(folder: WatchFolder, path: Path, now: datetime, seen: dict[str, list[str]]) -> bool:
    """Remember the file's fingerprint; import the file when it has been the same for long enough."""
    name = str(path)
    name.encode()  # UnicodeEncodeError is a ValueError
    if len(name) > LONGEST_PATH:
        raise ValueError("the path is too long")
    fingerprint = imports.fingerprint_of(path)
    since, mark = now.isoformat(), ""
    known = folder.seen.get(name)
    if known and known[0] == fingerprint:
        since, mark = known[1], known[2]
    is_taken = False
    if not mark and now - datetime.fromisoformat(since) >= timedelta(seconds=folder.settle_seconds):
        made = imports.bring(
            path, project=folder.project, way=Import.Way.WATCH, now=now, by=str(folder), watch_folder=folder
        )
        is_taken, mark = made is not None, "taken"
    seen[name] = [fingerprint, since, mark]
    return is_taken


def _note(folder: WatchFolder, now: datetime, seen: dict[str, Any], error: str) -> None:
    WatchFolder.objects.filter(pk=folder.pk).update(looked_at=now, seen=seen, error=error[:300])


def files_in(root: Path) -> Iterator[Path]:
    """Visible files below `root`, without links and folders of handled files; at most MAX_FILES."""
    count = 0
    for folder, names, files in os.walk(root, onerror=_raise, followlinks=False):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in ASIDE)
        for name in sorted(files):
            path = Path(folder) / name
            if name.startswith(".") or name.lower().endswith(NOT_YET) or path.is_symlink() or not path.is_file():
                continue
            count += 1
            yield path
            if count >= MAX_FILES:
                return


def _raise(error: OSError) -> None:
    raise error
