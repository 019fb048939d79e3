"""The restarts and moves of a channel."""

from datetime import datetime

from django.db import models

from playout.models.channel import Channel


class Recovery(models.Model):
    """One restart or move of a channel (P-08): why, from where to where, and how long it was off air."""

    project_path = "channel__project"

    class Kind(models.TextChoices):
        RESTART = "restart", "restarted"
        MOVE = "move", "moved to another machine"
        BY_HAND = "by_hand", "moved by hand"

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="recoveries")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    reason = models.TextField()
    by = models.CharField(max_length=150)
    from_node = models.ForeignKey("nodes.Node", null=True, on_delete=models.SET_NULL, related_name="+")
    to_node = models.ForeignKey("nodes.Node", null=True, on_delete=models.SET_NULL, related_name="+")
    lost_at = models.DateTimeField()  # the last frame that is known to have been sent
    noticed_at = models.DateTimeField()
    back_at = models.DateTimeField(null=True)
    off_air_seconds = models.FloatField(null=True)

    class Meta:
        ordering = ["-noticed_at", "-id"]
        verbose_name_plural = "recoveries"
        indexes = [
            # For the number of recoveries in the last minutes (P-05).
            models.Index(fields=["channel", "-noticed_at"], name="recovery_of_channel")
        ]

    def __str__(self) -> str:
        took = f"{self.off_air_seconds:.1f} s off air" if self.off_air_seconds is not None else "not back yet"
        return f"{self.get_kind_display()}: {took}"

    @classmethod
    def open_of(cls, channel: Channel) -> "Recovery | None":
        return cls.objects.filter(channel=channel, back_at=None).first()

    @classmethod
    def recent(cls, channel: Channel, since: datetime) -> "models.QuerySet[Recovery]":
        """Recoveries that were not by hand, the newest first."""
        return cls.objects.filter(channel=channel, noticed_at__gt=since).exclude(kind=cls.Kind.BY_HAND)
