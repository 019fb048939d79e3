"""The as-run log: media workers write it, Airlock copies it, and nobody can edit it."""

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from station.database.words import Words

# What the search box of the list finds.
ASRUN_WORDS = Words("title", "note")


class AsRunEntry(models.Model):
    project_path = "channel__project"
    REASONS = {
        "": "on air",
        "played": "played",
        "skipped": "skipped by hand",
        "cut": "cut by a fixed start",
        "short": "ended early",
        "bad": "could not be played",
        "too late": "too late",
        "stopped": "channel stopped",
        "isolated": "channel was cut off from Airlock",
        "lost": "media worker lost",
        "moved": "moved to another machine",
    }

    channel = models.ForeignKey("playout.Channel", on_delete=models.PROTECT, related_name="asrun")
    # They identify an entry: one that is reported twice is stored once.
    generation = models.PositiveIntegerField()
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=8)
    title = models.CharField(max_length=200)
    item = models.ForeignKey("playout.PlaylistItem", null=True, on_delete=models.SET_NULL, related_name="+")
    asset = models.ForeignKey("assets.Asset", null=True, on_delete=models.SET_NULL, related_name="+")
    planned_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    from_seconds = models.FloatField(default=0)
    frames = models.BigIntegerField(default=0)
    repeats = models.BigIntegerField(default=0)
    reason = models.CharField(max_length=20, blank=True)
    note = models.TextField(blank=True)

    class Meta:
        ordering = ["-started_at", "-id"]
        verbose_name = "as-run entry"
        verbose_name_plural = "as-run"
        constraints = [
            models.UniqueConstraint(fields=["channel", "generation", "seq"], name="asrun_once"),
            # Only one item is on air at a time.
            models.UniqueConstraint(fields=["channel"], condition=Q(ended_at=None), name="asrun_one_open"),
        ]
        indexes = [
            # The search box of the list: words by their beginnings.
            GinIndex(ASRUN_WORDS, name="asrun_words"),
            # For the entries of a channel's day.
            models.Index(fields=["channel", "started_at"], name="asrun_of_day"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def reason_word(self) -> str:
        return self.REASONS.get(self.reason, self.reason)
