"""`manage.py import_media`: import a file, or every file in a folder, into the library."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from assets.intake import imports, watch_folders
from assets.intake.controls import bring
from assets.models import Import
from station.models import Project


class Command(BaseCommand):
    help = "Queue a file, or every file in a folder, for import. It must be inside IMPORT_ROOTS."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument("--project", required=True, help="The project's short name (slug).")
        parser.add_argument("--dry-run", action="store_true", help="Only list what would be imported.")
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"].resolve()
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            known = ", ".join(Project.objects.values_list("slug", flat=True))
            raise CommandError(f"There is no project {options['project']}. Projects: {known}.")
        if not path.exists():
            raise CommandError(f"{path} does not exist.")
        found = list(watch_folders.files_in(path)) if path.is_dir() else [path]
        rows = []
        for file in found:
            rows.append({"file": str(file), "outcome": self._take(file, project, options["dry_run"])})
        if options["json"]:
            self.stdout.write(json.dumps(rows, indent=1))
            return
        for row in rows:
            self.stdout.write(f"{row['outcome']:24} {row['file']}")
        self.stdout.write(f"{len(rows)} files checked. See Imports in the admin for the results.")

    def _take(self, file: Path, project: Project, is_dry: bool) -> str:
        try:
            imports.check_source(file, Import.Way.FOLDER)
        except imports.NotTaken as fault:
            return f"refused: {fault}"
        if is_dry:
            return "would be imported"
        return bring(project, by="import_media", path=file, way=Import.Way.FOLDER).text
