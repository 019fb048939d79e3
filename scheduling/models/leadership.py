"""The current leader: one row, written only on the leader's own connection (scheduling/leader/election.py)."""

from django.db import models


class Leadership(models.Model):
    """Each new leader raises the epoch by one; writes with an older epoch are refused."""

    is_station_wide = True

    epoch = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=200, blank=True)
    taken_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "leadership"

    def __str__(self) -> str:
        return f"epoch {self.epoch}, {self.holder or 'no leader'}"
