"""What a channel plays: a list, its items, and the day it is for."""

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
        help_text="Of a list for a day: whose day.",
    )
    on = models.DateField(
        "for the day", null=True, blank=True, help_text="The broadcast day it is played on. Empty: any day."
    )
    is_loop = models.BooleanField(
        "loop", default=True, help_text="Begin again at its end. A list for a day is played once."
    )

    class Meta:
        ordering = ["-on", "name"]
        constraints = [
            # What is on that day has one answer.
            models.UniqueConstraint(
                fields=["channel", "on"],
                condition=Q(on__isnull=False),
                name="playlist_per_day",
                violation_error_message="The channel has a list for that day already.",
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
            raise ValidationError({"channel": "A list for a day needs the channel whose day it is."})
        if self.channel is not None and self.channel.project_id != self.project_id:  # S-01: whose air is it?
            raise ValidationError({"channel": "The channel belongs to another project than this list."})


class PlaylistItem(models.Model):
    class Kind(models.TextChoices):
        ASSET = "asset"
        LIVE = "live", "live source"
        SLATE = "slate"

    class Start(models.TextChoices):
        CUT = "cut", "on the second, cutting what is on"
        WAIT = "wait", "when what is on has ended"

    LENGTHS = ("in_seconds", "out_seconds", "length_seconds")

    project_path = "playlist__project"

    playlist = models.ForeignKey(Playlist, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.ASSET)
    title = models.CharField(max_length=200, blank=True, help_text="Empty: the name of what is played.")
    # Nothing that is in a list can be deleted from the library.
    asset = models.ForeignKey(
        "assets.Asset", null=True, blank=True, on_delete=models.PROTECT, related_name="playlist_items"
    )
    source = models.ForeignKey(
        "scheduling.Recorder",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Of a live item: the recorder whose source is shown.",
    )
    in_seconds = models.FloatField("in", default=0, validators=[MinValueValidator(0)])
    out_seconds = models.FloatField("out", null=True, blank=True, validators=[MinValueValidator(0)])
    length_seconds = models.FloatField(
        "length", null=True, blank=True, validators=[MinValueValidator(0.2)], help_text="Of a live item or a slate."
    )
    start_time = models.TimeField("fixed start", null=True, blank=True, help_text="House time. Empty: it follows.")
    start = models.CharField("how", max_length=5, choices=Start.choices, default=Start.CUT)
    max_late_seconds = models.PositiveIntegerField(
        "max lateness", null=True, blank=True, help_text="Later than so many seconds, it is left out."
    )

    # Nobody had planned it: it was put in while the list was on air.
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
            raise ValidationError({"asset": "Choose what is played."})
        if self.kind == self.Kind.LIVE and self.source_id is None:
            raise ValidationError({"source": "Choose the source."})
        if self.kind == self.Kind.SLATE and not self.length_seconds:
            raise ValidationError({"length_seconds": "How long?"})
        if self.out_seconds is not None and self.out_seconds <= (self.in_seconds or 0):
            raise ValidationError({"out_seconds": "It ends before it begins."})

    @property
    def seconds(self) -> float | None:
        """How long it is planned to last; None if nobody can tell."""
        if self.kind != self.Kind.ASSET:
            return self.length_seconds
        end = self.out_seconds
        if self.asset is not None and self.asset.duration_seconds and self.asset.is_over:
            end = min(end, self.asset.duration_seconds) if end is not None else self.asset.duration_seconds
        return max(0.0, end - self.in_seconds) if end is not None else None
