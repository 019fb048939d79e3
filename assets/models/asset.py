"""An asset in the library: a recording, from its first byte on, or an imported file; its parts and processing steps."""

from datetime import datetime, timedelta

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from station.database.words import Words
from station.states import Event, Machine
from worker.wire import codec
from worker.wire.parts_and_gaps import Gap

# What the search box of the list finds.
ASSET_WORDS = Words("title")
PART_WORDS = Words("path")


class AssetQuerySet(models.QuerySet["Asset"]):
    def live(self) -> "AssetQuerySet":
        return self.filter(state=Asset.State.LIVE)

    def there(self) -> "AssetQuerySet":
        """Assets that are neither in the trash nor deleted."""
        return self.filter(trashed_at=None).exclude(state=Asset.State.DELETED)

    def retained(self, project_id: int) -> "AssetQuerySet":
        """Assets of a project that retention may move to the trash."""
        return self.filter(project=project_id, trashed_at=None, state__in=Asset.RETAINED)

    def usable(self) -> "AssetQuerySet":
        """Assets that may be put on air or delivered."""
        return self.there().filter(state__in=Asset.FINISHED, withdrawn_at=None)

    def playable(self) -> "AssetQuerySet":
        """Assets that a channel can play, including those still being recorded."""
        growing = models.Q(state__in=Asset.GROWING, booking__isnull=False)
        return self.there().filter(models.Q(state__in=Asset.FINISHED) | growing, withdrawn_at=None)

    def to_purge(self, now: datetime) -> "AssetQuerySet":
        """Assets whose time in the trash is over."""
        return self.filter(purge_at__lte=now).exclude(state=Asset.State.DELETED)


class Asset(Machine):
    class State(models.TextChoices):
        LIVE = "live"
        PROCESSING = "processing"
        READY = "ready"
        PARTIAL = "partial"
        ERROR = "error"
        DELETED = "deleted"

    MOVES = {
        State.LIVE: {State.PROCESSING, State.ERROR},
        State.PROCESSING: {State.READY, State.PARTIAL, State.ERROR},
        State.READY: {State.PROCESSING, State.DELETED},
        State.PARTIAL: {State.PROCESSING, State.DELETED},
        State.ERROR: {State.LIVE, State.PROCESSING, State.DELETED},
        State.DELETED: set(),
    }
    # Finished; staff may still process it again.
    OVER = (State.READY, State.PARTIAL, State.ERROR, State.DELETED)
    FINISHED = (State.READY, State.PARTIAL)
    RETAINED = (State.READY, State.PARTIAL, State.ERROR)
    GROWING = (State.LIVE, State.PROCESSING)
    COLOURS = {
        State.LIVE: "yellow",
        State.PROCESSING: "blue",
        State.READY: "green",
        State.PARTIAL: "amber",
        State.ERROR: "red",
        State.DELETED: "grey",
    }

    class Origin(models.TextChoices):
        RECORDING = "recording"
        IMPORT = "import", "imported"

    project = models.ForeignKey("station.Project", null=True, on_delete=models.PROTECT, related_name="assets")
    title = models.CharField(max_length=200)
    origin = models.CharField(max_length=9, choices=Origin.choices, editable=False)
    booking = models.OneToOneField(
        "scheduling.Booking", null=True, editable=False, on_delete=models.SET_NULL, related_name="asset"
    )
    created_at = models.DateTimeField(editable=False)
    created_by = models.CharField(max_length=150, blank=True, editable=False)
    # Of a recording: its window, and what is missing in it.
    wanted_from_at = models.DateTimeField(null=True, editable=False)
    wanted_until_at = models.DateTimeField(null=True, editable=False)
    gaps = models.JSONField(default=list, editable=False)
    part_count = models.PositiveIntegerField(default=0, editable=False)
    # When the booking was last copied, while it grows.
    synced_at = models.DateTimeField(null=True, editable=False)
    completeness_percent = models.FloatField(null=True, editable=False)
    # Whether the recording was complete: decides between ready and partial after processing.
    is_complete = models.BooleanField(default=True, editable=False)

    # Results of processing; empty until then.
    size_bytes = models.BigIntegerField(default=0, editable=False)
    duration_seconds = models.FloatField(null=True, editable=False)
    frames = models.BigIntegerField(default=0, editable=False)
    technical = models.JSONField(default=dict, editable=False)
    video_format = models.CharField(max_length=40, blank=True, editable=False)
    audio_format = models.CharField(max_length=60, blank=True, editable=False)
    timecode = models.CharField(max_length=20, blank=True, editable=False)
    sha256 = models.CharField("SHA-256", max_length=64, blank=True, editable=False)
    loudness_lufs = models.FloatField(null=True, editable=False)
    loudness_range_lu = models.FloatField(null=True, editable=False)
    true_peak_dbtp = models.FloatField(null=True, editable=False)
    findings = models.JSONField(default=list, editable=False)
    error = models.TextField(blank=True, editable=False)

    # Held: protected from retention.
    held_at = models.DateTimeField(null=True, editable=False)
    held_by = models.CharField(max_length=150, blank=True, editable=False)
    hold_reason = models.CharField(max_length=200, blank=True, editable=False)
    # In the trash since `trashed_at`; its files are deleted at `purge_at`.
    trashed_at = models.DateTimeField(null=True, editable=False)
    trashed_by = models.CharField(max_length=150, blank=True, editable=False)
    trash_reason = models.CharField(max_length=200, blank=True, editable=False)
    purge_at = models.DateTimeField(null=True, editable=False)
    # When its files were deleted from the disk. Empty after a crash in between; the next round repeats the deletion.
    files_gone_at = models.DateTimeField(null=True, editable=False)
    # Withdrawn from use, and its replacement.
    withdrawn_at = models.DateTimeField(null=True, editable=False)
    withdrawn_by = models.CharField(max_length=150, blank=True, editable=False)
    withdraw_reason = models.CharField(max_length=200, blank=True, editable=False)
    replacement = models.ForeignKey("self", null=True, editable=False, on_delete=models.SET_NULL, related_name="+")

    objects = AssetQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [("operate_asset", "Can process, deliver, hold, withdraw and trash assets")]
        indexes = [
            # The leader's step reads unfinished assets; there are never many.
            models.Index(
                fields=["state", "id"], condition=Q(state__in=["live", "processing"]), name="asset_unfinished"
            ),
            # Emptying the trash.
            models.Index(
                fields=["purge_at"],
                condition=Q(purge_at__isnull=False) & ~Q(state="deleted"),
                name="asset_to_purge",
            ),
            # Deleted assets whose files are still on the disk; there are never many.
            models.Index(fields=["id"], condition=Q(state="deleted", files_gone_at=None), name="asset_to_wipe"),
            # Recognising a file that was imported before.
            models.Index(fields=["sha256"], condition=~Q(sha256=""), name="asset_by_checksum"),
            # The library's list.
            # The search box of the list: words by their beginnings.
            GinIndex(ASSET_WORDS, name="asset_words"),
            models.Index(fields=["project", "-created_at"], name="asset_by_project"),
            # Retention by age, count and free disk, without the rows of deleted assets.
            models.Index(
                fields=["project", "created_at", "id"],
                condition=Q(trashed_at=None, state__in=["ready", "partial", "error"]),
                name="asset_retained",
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def owner(self) -> str:
        """The asset's name as owner of runs."""
        return f"asset:{self.pk}"

    @property
    def is_trashed(self) -> bool:
        return self.trashed_at is not None

    @property
    def is_being_recorded(self) -> bool:
        """The recording is not over, whatever the asset's state: its files must not be touched."""
        return self.booking is not None and self.booking.filed_at is None and not self.booking.is_over

    @property
    def is_usable(self) -> bool:
        return self.state in self.FINISHED and self.trashed_at is None and self.withdrawn_at is None

    @property
    def condition_word(self) -> str:
        """The reason why it cannot be used, for a sentence: deleted, in the trash, withdrawn, or its state."""
        if self.state == self.State.DELETED or not (self.trashed_at or self.withdrawn_at):
            return self.state_word
        return "in the trash" if self.trashed_at else "withdrawn"

    @property
    def is_growing(self) -> bool:
        """It is being recorded or processed for the first time: its files can already be played."""
        is_new = self.state in self.GROWING and self.booking is not None
        return is_new and self.trashed_at is None and self.withdrawn_at is None

    @property
    def gap_seconds(self) -> float:
        return sum(gap.seconds for gap in self.read_gaps())

    def read_gaps(self) -> list[Gap]:
        """The column `gaps`, decoded."""
        return codec.decode(list[Gap], self.gaps, "gaps")

    @property
    def span(self) -> timedelta | None:
        if self.wanted_from_at is None or self.wanted_until_at is None:
            return None
        return self.wanted_until_at - self.wanted_from_at


class AssetEvent(Event):
    subject = models.ForeignKey(Asset, on_delete=models.CASCADE, related_name="events")


class AssetPart(models.Model):
    """One file of an asset. An interrupted recording has several, possibly on several machines."""

    asset = models.ForeignKey(Asset, on_delete=models.CASCADE, related_name="parts")
    number = models.PositiveIntegerField()
    # The node whose media folder holds it; empty: the library's own folder.
    node = models.ForeignKey("nodes.Node", null=True, on_delete=models.PROTECT, related_name="+")
    path = models.CharField(max_length=700)
    first_frame_at = models.DateTimeField(null=True)
    last_frame_at = models.DateTimeField(null=True)
    frames = models.BigIntegerField(default=0)
    seconds = models.FloatField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    end_reason = models.CharField(max_length=40, blank=True)
    # False: it cannot be decoded (for example a stub of a killed ffmpeg) and is left out everywhere.
    is_readable = models.BooleanField(default=True)
    sha256 = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["asset", "number"]
        constraints = [
            # One row per file, however often the booking is copied.
            models.UniqueConstraint(fields=["asset", "number"], name="part_once_per_number")
        ]
        indexes = [
            # The search box of the list of assets: by the names of files and folders.
            GinIndex(PART_WORDS, name="part_words"),
        ]

    def __str__(self) -> str:
        return self.path.rpartition("/")[2]


class AssetStep(models.Model):
    """One processing step of an asset and its result. A run executes it."""

    class Kind(models.TextChoices):
        PROBE = "probe", "technical data"
        CHECKSUM = "checksum", "checksum"
        PICTURES = "pictures", "poster and filmstrip"
        PROXY = "proxy", "proxy"
        LOUDNESS = "loudness", "loudness"
        REPORT = "report", "black, silence, freeze"

    asset = models.ForeignKey(Asset, on_delete=models.CASCADE, related_name="steps")
    kind = models.CharField(max_length=9, choices=Kind.choices)
    # The current or last run.
    run_ref = models.BigIntegerField(null=True)
    asked_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    result = models.JSONField(default=dict)
    # How often its result was written since it was requested: once, even after crashes.
    times_done = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["asset", "id"]
        constraints = [
            # One row per kind of step.
            models.UniqueConstraint(fields=["asset", "kind"], name="step_once_per_kind")
        ]
        indexes = [
            # The leader's step reads open steps, to notice a run that failed finally.
            models.Index(fields=["asset"], condition=Q(done_at=None, failed_at=None), name="step_open")
        ]

    def __str__(self) -> str:
        return self.get_kind_display()

    @property
    def is_over(self) -> bool:
        return self.done_at is not None or self.failed_at is not None
