"""Staff actions on imports: import a file, try a refused one again."""

from datetime import datetime
from pathlib import Path

from assets.intake import imports
from assets.models import Import
from station.actions import Outcome, action, changed_meanwhile, done, nothing
from station.models import Project

State = Import.State


@action("import", "Import", permission="assets.add_import", makes_target=True)
def bring(project: Project, *, now: datetime, by: str, path: Path, way: str, name: str = "") -> Outcome:
    """Queue one file for import into this project. The path of a file that is not an upload is checked first."""
    if way != Import.Way.UPLOAD:
        imports.check_source(path, way)
    row = imports.bring(path, project=project, way=way, now=now, by=by, name=name)
    details = {"file": name or path.name}
    if row is None:
        return nothing("already requested", details=details)
    return done(f"queued as {row.pk}", target=row, details=details)


@action("again", "Try again", permission="assets.operate_asset", states=(State.REFUSED,))
def again(row: Import, *, now: datetime, by: str) -> Outcome:
    if imports.again(row, now=now, by=by):
        return done(f"{row} is queued again.")
    if not Import.objects.filter(pk=row.pk, state=State.REFUSED).exists():
        return changed_meanwhile(row)
    return nothing(f"{row}: the file no longer exists, or another import has it.")
