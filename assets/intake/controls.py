"""What people do about imports by hand: bring a file in, try a refused one again."""

from datetime import datetime
from pathlib import Path

from assets.intake import imports
from assets.models import Import
from station.actions import Outcome, action, done, nothing
from station.models import Project

State = Import.State


@action("import", "Import", permission="assets.add_import", makes_target=True)
def bring(project: Project, *, now: datetime, by: str, path: Path, way: str, name: str = "") -> Outcome:
    """Queue one file for the library of this project. An upload lies in our own folder; any other place is checked."""
    if way != Import.Way.UPLOAD:
        imports.check_source(path, way)
    row = imports.bring(path, project=project, way=way, now=now, by=by, name=name)
    if row is None:
        return nothing("was asked for before")
    return done(f"queued as {row.pk}", target=row)


@action("again", "Try again", permission="assets.operate_asset", states=(State.REFUSED,))
def again(row: Import, *, now: datetime, by: str) -> Outcome:
    if not imports.again(row, now=now, by=by):
        return nothing(f"{row}: its file is no longer there, or another import has it.", reason="no longer there")
    return done(f"{row} is tried again.")
