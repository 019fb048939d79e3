"""Import of files: watch folders, and one row for every imported file."""

from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from station.database.words import Words
from station.states import Event, Machine

# What the search box of the list finds.
IMPORT_WORDS = Words("name", "source")


class WatchFolder(models.Model):
    """A folder whose new files become assets of a project."""

    class Afterwards(models.TextChoices):
        MOVE = "move", "move the file to the subfolder 'imported'"
        LEAVE = "leave", "leave the file where it is"

    name = models.CharField(max_length=80, unique=True)
    project = models.ForeignKey("station.Project", on_delete=models.CASCADE, related_name="watch_folders")
    path = models.CharField(
        max_length=400, unique=True, help_text="Absolute path inside one of the folders in IMPORT_ROOTS."
    )
    settle_seconds = models.PositiveIntegerField(
        default=10,
        validators=[MinValueValidator(2), MaxValueValidator(3600)],
        help_text="A file is imported when it has not changed for this many seconds.",
    )
    afterwards = models.CharField(max_length=5, choices=Afterwards.choices, default=Afterwards.MOVE)
    is_active = models.BooleanField(default=True)
    next_look_at = models.DateTimeField(null=True, editable=False)
    looked_at = models.DateTimeField(null=True, editable=False)
    # The files in the folder: fingerprint, since when it has been the same, and whether it was imported.
    seen = models.JSONField(default=dict, editable=False)
    error = models.CharField(max_length=300, blank=True, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Only folders inside IMPORT_ROOTS are allowed, so that system files cannot be imported (S-04)."""
        path = Path(self.path)
        if not path.is_absolute():
            raise ValidationError({"path": "Enter an absolute path, for example /srv/incoming/news."})
        roots = [Path(root).resolve() for root in settings.IMPORT_ROOTS]
        if not any(path.resolve().is_relative_to(root) for root in roots):
            allowed = ", ".join(str(root) for root in roots)
            raise ValidationError({"path": f"Only folders inside {allowed} can be watched (IMPORT_ROOTS)."})
        for other in WatchFolder.objects.exclude(pk=self.pk).exclude(project=self.project_id):
            theirs, ours = Path(other.path).resolve(), path.resolve()
            if ours.is_relative_to(theirs) or theirs.is_relative_to(
                ours
            ):  # S-01: another project's files must not be imported
                raise ValidationError(
                    {"path": "Another project already watches this folder, its parent or a subfolder."}
                )


class Import(Machine):
    """The import of one file, and its result."""

    class State(models.TextChoices):
        WAITING = "waiting"
        COPYING = "copying"
        DONE = "done"
        DUPLICATE = "duplicate", "already in the library"
        REFUSED = "refused"

    MOVES = {
        State.WAITING: {State.COPYING, State.REFUSED},
        State.COPYING: {State.DONE, State.DUPLICATE, State.REFUSED},
        State.DONE: set(),
        State.DUPLICATE: set(),
        State.REFUSED: {State.WAITING},
    }
    OVER = (State.DONE, State.DUPLICATE, State.REFUSED)
    DEADLINES = {State.WAITING: timedelta(hours=24), State.COPYING: timedelta(hours=6)}
    COLOURS = {
        State.WAITING: "blue",
        State.COPYING: "yellow",
        State.DONE: "green",
        State.DUPLICATE: "grey",
        State.REFUSED: "red",
    }

    class Way(models.TextChoices):
        UPLOAD = "upload", "uploaded"
        FOLDER = "folder", "from a folder"
        WATCH = "watch", "from a watch folder"

    project = models.ForeignKey("station.Project", null=True, on_delete=models.PROTECT, related_name="+")
    way = models.CharField(max_length=6, choices=Way.choices)
    name = models.CharField(max_length=255)
    source = models.CharField(max_length=700)
    # Distinguishes this file from a later one with the same name: its size and times of change.
    fingerprint = models.CharField(max_length=60)
    size_bytes = models.BigIntegerField(default=0)
    watch_folder = models.ForeignKey(WatchFolder, null=True, on_delete=models.SET_NULL, related_name="imports")
    requested_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField()
    asset = models.ForeignKey("assets.Asset", null=True, on_delete=models.SET_NULL, related_name="imports")
    error = models.TextField(blank=True)
    run_ref = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            # A file is imported once, however often the folder is checked.
            models.UniqueConstraint(fields=["source", "fingerprint"], name="import_once_per_file")
        ]
        indexes = [
            # The search box of the list: words by their beginnings.
            GinIndex(IMPORT_WORDS, name="import_words"),
            models.Index(fields=["id"], condition=Q(state__in=["waiting", "copying"]), name="import_unfinished"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def owner(self) -> str:
        return f"import:{self.pk}"


class ImportEvent(Event):
    subject = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="events")
