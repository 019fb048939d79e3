"""Playlists: a list, its items, and the day it is for."""

import math

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q

from playout.lists.broadcast_days import FIRST_DAY, LAST_DAY, is_plannable


class Playlist(models.Model):
    name = models.CharField(max_length=120)
    project = models.ForeignKey("station.Project", null=True, on_delete=models.PROTECT, related_name="playlists")
    channel = models.ForeignKey(
        "playout.Channel",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="playlists",
        help_text="Only for a list for a day: the channel that plays it.",
    )
    on = models.DateField(
        "for the day", null=True, blank=True, help_text="The broadcast day on which it is played. Empty: any day."
    )
    is_loop = models.BooleanField(
        "loop", default=True, help_text="Start again at the end. A list for a day is played once."
    )

    class Meta:
        ordering = ["-on", "name"]
        constraints = [
            # A channel has at most one list for a day.
            models.UniqueConstraint(
                fields=["channel", "on"],
                condition=Q(on__isnull=False),
                name="playlist_per_day",
                violation_error_message="The channel already has a list for that day.",
            ),
            models.CheckConstraint(
                condition=Q(on=None) | Q(channel__isnull=False), name="playlist_day_belongs_to_channel"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.on})" if self.on else self.name

    def clean(self) -> None:
        if self.on and not is_plannable(self.on):
            raise ValidationError({"on": f"Give a day between {FIRST_DAY} and {LAST_DAY}."})
        if self.on and self.channel_id is None:
            raise ValidationError({"channel": "A list for a day needs a channel."})
        if self.channel is not None and self.channel.project_id != self.project_id:  # S-01
            raise ValidationError({"channel": "The channel belongs to another project than this list."})


class PlaylistItem(models.Model):
    class Kind(models.TextChoices):
        ASSET = "asset"
        LIVE = "live", "live source"
        SLATE = "slate"

    class Start(models.TextChoices):
        CUT = "cut", "at its time, cutting the item on air"
        WAIT = "wait", "when the item on air has ended"

    LENGTHS = ("in_seconds", "out_seconds", "length_seconds")

    project_path = "playlist__project"

    playlist = models.ForeignKey(Playlist, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.ASSET)
    title = models.CharField(max_length=200, blank=True, help_text="Empty: the name of the asset or source.")
    # An asset in a list cannot be deleted from the library.
    asset = models.ForeignKey(
        "assets.Asset", null=True, blank=True, on_delete=models.PROTECT, related_name="playlist_items"
    )
    source = models.ForeignKey(
        "scheduling.Recorder",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Only for a live item: the recorder whose source is shown.",
    )
    in_seconds = models.FloatField("in", default=0, validators=[MinValueValidator(0)])
    out_seconds = models.FloatField("out", null=True, blank=True, validators=[MinValueValidator(0)])
    length_seconds = models.FloatField(
        "length",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.2)],
        help_text="Only for a live item or a slate.",
    )
    start_time = models.TimeField(
        "fixed start", null=True, blank=True, help_text="House time. Empty: it follows the item before it."
    )
    start = models.CharField("how", max_length=5, choices=Start.choices, default=Start.CUT)
    max_late_seconds = models.PositiveIntegerField(
        "max lateness", null=True, blank=True, help_text="An item that is more seconds late is skipped."
    )

    # Set if it was inserted while the list was on air.
    inserted_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["playlist", "position", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(out_seconds=None) | Q(out_seconds__gt=F("in_seconds")), name="item_out_after_in"
            )
        ]

    def __str__(self) -> str:
        return self.shown_title

    @property
    def shown_title(self) -> str:
        named = self.title or (self.asset and self.asset.title) or (self.source and self.source.name)
        return named or self.get_kind_display()

    def clean(self) -> None:
        for name in self.LENGTHS:
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ValidationError({name: "Enter a number."})
        if self.kind == self.Kind.ASSET and self.asset_id is None:
            raise ValidationError({"asset": "Choose an asset."})
        if self.kind == self.Kind.LIVE and self.source_id is None:
            raise ValidationError({"source": "Choose a source."})
        if self.kind == self.Kind.SLATE and not self.length_seconds:
            raise ValidationError({"length_seconds": "Enter a length."})
        if self.out_seconds is not None and self.out_seconds <= (self.in_seconds or 0):
            raise ValidationError({"out_seconds": "The out point must be after the in point."})

    @property
    def seconds(self) -> float | None:
        """The planned length; None if it is not known."""
        if self.kind != self.Kind.ASSET:
            return self.length_seconds
        end = self.out_seconds
        if self.asset is not None and self.asset.duration_seconds and self.asset.is_over:
            end = min(end, self.asset.duration_seconds) if end is not None else self.asset.duration_seconds
        return max(0.0, end - self.in_seconds) if end is not None else None
